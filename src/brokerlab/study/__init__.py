"""The study: values, validation and the plan. Imports nothing else of brokerlab but errors.

file.py      a study file to a Study        plan.py      a Study to a Plan
values.py    the Study                      written.py   a Study to a file again

Everything else here serves one of these four.
"""
