"""Programs built from Go modules.

Not by `go install module@version`: that asks for the module's latest version too, which not every proxy tells.
A module of our own that requires the one wanted does the same with the same checksums.
"""

import shutil

from brokerlab.brokers.install.receipt import Made
from brokerlab.brokers.install.workshop import Workshop
from brokerlab.brokers.source import GoModule

_IMPORTS = """\
//go:build tools

package tools

import _ "{package}"
"""


def install_go(source: GoModule, shop: Workshop) -> Made:
    program = shop.folder / "bin" / source.program
    if source.launcher:
        shutil.copyfile(source.launcher, shop.folder / "main.go")
        built = "."
    else:
        built = _package(source)
        (shop.folder / "tools.go").write_text(_IMPORTS.format(package=built), encoding="utf-8")
    shop.run(["go", "mod", "init", "brokerlab/broker"], doing="Go, a module of our own")
    shop.run(["go", "mod", "edit", f"-require={source.module}@{source.version}"], doing="Go, a module of our own")
    shop.run(["go", "mod", "tidy"], doing=f"Go, getting {source.module} {source.version}")
    shop.run(["go", "build", "-trimpath", "-o", program, built], doing=f"Go, building {source.program}")
    return Made(source.version.removeprefix("v"), (program,))


def _package(source: GoModule) -> str:
    """The whole import path; a driver may name it, or only what follows the module's."""
    if source.package == source.module or source.package.startswith(f"{source.module}/"):
        return source.package
    return f"{source.module}/{source.package}".rstrip("/")
