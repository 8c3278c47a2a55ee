"""When a worker that keeps a schedule sleeps without an ear for its sockets, so that waking is not most of its work.

A publisher with thousands of messages a second would wake for each, and once or twice more for its acknowledgements.
At 60 to 100 µs of CPU each time that was 70 % of a core at 4,000 messages a second and at every rate above. A broker
on the same cores lacks them, and a guard on the CPU calls the generator the limit although it could send twenty times
as much. Nothing is better known for it: no latency is counted from an acknowledgement.

So where the next message is due within CLOSE_NS, the worker reads what has come after it has sent, sleeps until the
next one is due, and at least as long as it was awake: half of a core is the most that it takes while it keeps up.
Messages that become due meanwhile leave together; how late they were is in the schedule lag.
At QoS 2 a broker delivers after PUBREL: there the worker is deaf as long as it was awake, then wakes for what comes.
"""

from enum import Enum

from brokerlab.load.alarm import now_ns
from brokerlab.load.spec import WorkerSpec
from brokerlab.study.values import Qos

CLOSE_NS = 1_000_000
_LONGEST_NS = 1_000_000  # a fifth of the schedule lag that the guard allows


class Rest(Enum):
    """What a worker does about its sockets while it waits for something that is due soon."""

    NONE = 0  # wakes for whatever comes
    SHORT = 1  # is deaf as long as it was awake
    UNTIL_DUE = 2  # the same, and until the next message is due


def rest_of(spec: WorkerSpec, *, hears: bool) -> Rest:
    """For a worker of publishers. Who hears needs its ear: what it is sent is what is measured."""
    if hears or spec.is_closed:
        return Rest.NONE
    return Rest.SHORT if spec.workload.qos == Qos.EXACTLY_ONCE else Rest.UNTIL_DUE


def rested_ns(woke_ns: int) -> int:
    """Until when a worker sleeps that woke then, to have slept as long as it was awake."""
    now = now_ns()
    return now + min(_LONGEST_NS, now - woke_ns)
