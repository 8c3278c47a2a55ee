"""The user's cache of installed brokers: BROKERLAB_CACHE, or brokerlab below XDG_CACHE_HOME or ~/.cache.

A broker is there when its folder has the file RECEIPT, which is written last: brokers/install makes a broker in a
folder beside it and renames that when it is complete.
"""

import os
from pathlib import Path

RECEIPT = "installed.json"
_FOLDER = "brokers"


def cache_folder() -> Path:
    """Where brokers are installed, one folder for each; it need not exist."""
    if own := os.environ.get("BROKERLAB_CACHE"):
        return Path(own) / _FOLDER
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "brokerlab" / _FOLDER


def place_of(driver: str) -> Path:
    """The folder of a driver's broker, installed or not."""
    return cache_folder() / driver


def installed(driver: str) -> Path | None:
    """The folder of a driver's broker; None when it is not installed."""
    place = place_of(driver)
    return place if (place / RECEIPT).is_file() else None


def how_to_install(driver: str) -> str:
    """The command that gets it: the hint of every driver whose broker is missing."""
    return f"brokerlab brokers install {driver}"
