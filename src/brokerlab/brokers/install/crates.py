"""Programs built from crates."""

import shutil

from brokerlab.brokers.install.receipt import Made
from brokerlab.brokers.install.workshop import Workshop
from brokerlab.brokers.source import Crate


def install_crate(source: Crate, shop: Workshop) -> Made:
    build = shop.folder / "build"
    locked = ["--locked"] if source.is_locked else []
    shop.run(
        ["cargo", "install", *locked, "--root", shop.folder, "--version", source.version, source.crate],
        doing=f"Cargo, building {source.crate} {source.version}",
        env={"CARGO_TARGET_DIR": str(build)},
    )
    shutil.rmtree(build)
    return Made(source.version, (shop.folder / "bin" / source.program,))
