"""How many clients a run of a workload has, by the part that they play: what plan, users and rates count by. Pure.

one-way   publishers and subscribers
echo      publishers, for each of them one that hears the answers and a device that answers
loop      loops: publishers that hear for themselves, over one connection
any       beside them idle clients, those that fill the broker's table of subscriptions, and the probe

The lab's own clients (proof of readiness, counters, wills, control messages) are none of the run's.
"""

from brokerlab.study.values import Roles, Workload


def population(workload: Workload) -> dict[str, int]:
    """Clients by part; the parts in the order in which they connect where they do it at a rate."""
    table, each = workload.subscriptions, workload.publishers
    load = {
        Roles.ONE_WAY: {"subscribers": workload.subscribers, "publishers": each},
        Roles.ECHO: {"subscribers": each, "publishers": each, "devices": each},
        Roles.LOOP: {"loops": each},
    }
    beside = {
        "idle": workload.clients.idle,
        "filters": table.clients if table.is_there else 0,
        "probe": 0 if workload.probe is None else 1,
    }
    return load[workload.role] | beside


def client_count(workload: Workload) -> int:
    """All that are connected at the same time."""
    return sum(population(workload).values())
