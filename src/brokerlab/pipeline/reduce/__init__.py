"""Raw files of one run to partial results, with NumPy: what Spark's tasks do, testable without Spark.

Deliveries of one subscriber lie in the files of one worker, in order of arrival, so a worker's files
can be reduced alone, one file after the other, and nothing is shuffled message by message.
"""
