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
    if source.launcher:
        shutil.copyfile(source.launcher, shop.folder / "main.go")
    else:
        (shop.folder / "tools.go").write_text(_IMPORTS.format(package=_package(source)), encoding="utf-8")
    shop.run(["go", "mod", "init", "brokerlab/broker"], doing="a module of our own")
    shop.run(["go", "mod", "edit", f"-require={source.module}@{source.version}"], doing="a module of our own")
    shop.run(["go", "mod", "tidy"], doing=f"Go, getting {source.module} {source.version}")
    program = shop.folder / "bin" / source.program
    shop.run(["go", "build", "-trimpath", "-o", program, _package(source)], doing=f"Go, building {source.program}")
    return Made(source.version.removeprefix("v"), (program,))


def _package(source: GoModule) -> str:
    """The whole import path; a driver may name it, or only what follows the module's. A launcher is a module's own."""
    if source.launcher:
        return "."
    if source.package == source.module or source.package.startswith(f"{source.module}/"):
        return source.package
    return f"{source.module}/{source.package}".rstrip("/")
