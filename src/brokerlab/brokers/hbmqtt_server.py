"""HBMQTT as a program that stops cleanly on SIGTERM; runs in HBMQTT's own Python, which is 3.8.

python -I hbmqtt_server.py CONFIG.json

The configuration is HBMQTT's own, as JSON. Where its password file is missing and a file with the same name and
.json is there, names with passwords in the clear, that one is turned into it: the hashes need HBMQTT's own library.
"""

import asyncio
import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any, Dict  # noqa: UP035 - Python 3.8

_ROUNDS = 1000  # the least that there is: HBMQTT checks passwords in the one thread that also serves


def hash_passwords(path: Path) -> None:
    """Writes the password file from the one in the clear, and removes that."""
    from passlib.hash import sha512_crypt  # type: ignore[import-not-found, import-untyped, unused-ignore] # noqa: PLC0415

    clear = Path(f"{path}.json")
    users = json.loads(clear.read_text(encoding="utf-8"))
    hasher = sha512_crypt.using(rounds=_ROUNDS)
    with os.fdopen(os.open(str(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.writelines(f"{name}:{hasher.hash(password)}\n" for name, password in users.items())
    clear.unlink()


def serve(config: Dict[str, Any]) -> None:  # noqa: UP006
    """Serves until SIGTERM or SIGINT."""
    from hbmqtt.broker import Broker  # type: ignore[import-not-found, unused-ignore] # noqa: PLC0415

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    broker = Broker(config, loop=loop)
    loop.run_until_complete(broker.start())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, loop.stop)
    loop.run_forever()
    loop.run_until_complete(broker.shutdown())
    print("clean shutdown", flush=True)


def main(path: str) -> int:
    """The broker as a program; its exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    config = json.loads(Path(path).read_text(encoding="utf-8"))
    passwords = config["auth"].get("password-file")
    if passwords:
        hash_passwords(Path(passwords))
    serve(config)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
