"""`make bench`: our generator beside its peers, and against what it promises; ratios within one run.

python -m bench [analysis] [peers] [bridges] [ceiling] [connections] [links] [endurance] [captures]   all, or some
"""

import argparse
import sys

from rich.console import Console
from rich.table import Table

from bench import analysis, bridges, captures, connections, endurance, links, peers
from brokerlab.lab.calibrate import calibrate

CONNECTIONS = 10_000
MESSAGES = 100_000_000
DELIVERIES_MILLION = 50
OTHERS_MILLION = (10, 100)  # whether time grows with the data


def run_peers(rounds: int) -> None:
    peers.show(peers.run_rounds(rounds, list(peers.SHAPES), [0, 1, 2]))


def run_ceiling(_rounds: int) -> None:
    found = calibrate(seconds=3.0, say=lambda text: print(text, file=sys.stderr))
    table = Table(title="Against the null broker, 64 B, messages a second of one core's CPU time")
    for heading in ("QoS", "published", "published and recorded", "received and recorded"):
        table.add_column(heading, justify="right")
    for qos in (0, 1, 2):
        rates = [
            found[f"qos{qos}"][f"{name}_per_s_per_core"] for name in ("published", "published_recorded", "received")
        ]
        table.add_row(str(qos), *(f"{rate:,.0f}" for rate in rates))
    Console(width=110).print(table)


PARTS = {
    "analysis": lambda _: analysis.run(DELIVERIES_MILLION, also=OTHERS_MILLION),
    "peers": run_peers,
    "bridges": bridges.run,
    "ceiling": run_ceiling,
    "connections": lambda _: connections.run(CONNECTIONS),
    "links": links.run,
    "endurance": lambda _: endurance.run(MESSAGES),
    "captures": lambda _: captures.run(),
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all of them unless some are named")
    parser.add_argument("--rounds", type=int, default=3, help="of the peers")
    chosen = parser.parse_args()
    for part in chosen.parts or PARTS:
        PARTS[part](chosen.rounds)
