"""What a worker's process has in it."""

import subprocess
import sys

WORKER = """
import sys
from brokerlab.load import local, worker

def life(*_):
    import pyarrow as pa
    pa.array(["a", "b"])
    pa.array([1, 2], pa.int64())
    print("pandas" in sys.modules)

worker.main = life
local.work_without_pandas(None, None, [], None)
"""


def test_a_worker_does_not_import_pandas():
    """S-05: with its import the loop would stand still at the first rows, in the middle of the schedule."""
    done = subprocess.run([sys.executable, "-c", WORKER], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"
