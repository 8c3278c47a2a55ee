"""Guards that nothing breaks: a test machine may be as busy as it likes, and its clock may be set meanwhile.

The guards have tests of their own (unit/lab/test_guards.py, e2e/test_saturated_generator.py).
"""

from brokerlab.study.values import Analysis, Guards

OPEN = Analysis(guards=Guards(
    generator_cpu_percent=100, subscriber_cpu_percent=100, schedule_lag_p99_ms=60_000, receive_lag_p99_ms=60_000,
    steal_percent=100, throttled_percent=100, stalled_percent=100, socket_backlog_bytes=1 << 40,
    swap_growth_bytes=1 << 40, clock_step_ms=60_000,
))  # fmt: skip
# The same as a part of a study file.
OPEN_TEXT = """\
analysis:
  guards:
    generator_cpu: 100 %
    subscriber_cpu: 100 %
    schedule_lag_p99: 60 s
    receive_lag_p99: 60 s
    steal: 100 %
    throttled: 100 %
    stalled: 100 %
    socket_backlog: 1 TiB
    swap_growth: 1 TiB
    clock_step: 60 s
"""
