"""Packages from npm, below a package.json of their own."""

import json

from brokerlab.brokers.install.receipt import Made
from brokerlab.brokers.install.workshop import Workshop
from brokerlab.brokers.source import Npm


def install_npm(source: Npm, shop: Workshop) -> Made:
    wanted = {
        "name": "brokerlab-broker",
        "private": True,
        "dependencies": dict(source.packages),
        "overrides": dict(source.overrides),
    }
    (shop.folder / "package.json").write_text(json.dumps(wanted, indent=2) + "\n", encoding="utf-8")
    named = " ".join(f"{name}@{version}" for name, version in source.packages.items())
    shop.run(["npm", "install", "--no-audit", "--no-fund", "--engine-strict"], doing=f"npm install {named}")
    lock = shop.folder / "package-lock.json"  # has the hash of every package
    return Made(next(iter(source.packages.values())), (lock,))
