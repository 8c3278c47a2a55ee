"""amqtt as a program that stops cleanly on SIGTERM, which amqtt's own command does not.

python -m brokerlab.brokers.amqtt_server CONFIG.json

The configuration is amqtt's own, as JSON.
"""

import asyncio
import json
import logging
import signal
import sys
from pathlib import Path

from amqtt.broker import Broker
from amqtt.errors import AMQTTError


async def serve(config: dict[str, object]) -> None:
    """Serves until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    broker = Broker(config)
    await broker.start()
    await stop.wait()
    await broker.shutdown()
    print("clean shutdown", flush=True)


def main(path: str) -> int:
    """The broker as a program; its exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        asyncio.run(serve(json.loads(Path(path).read_text(encoding="utf-8"))))
    except (AMQTTError, OSError, ValueError) as problem:
        print(f"amqtt: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
