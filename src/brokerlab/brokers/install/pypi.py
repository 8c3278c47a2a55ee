"""Packages from PyPI, in a virtual environment of their own."""

import sys
from pathlib import Path

from brokerlab.brokers.install.needs import find_python
from brokerlab.brokers.install.receipt import Made
from brokerlab.brokers.install.workshop import Workshop
from brokerlab.brokers.source import PyPI
from brokerlab.errors import UserError


def install_pypi(source: PyPI, shop: Workshop) -> Made:
    python = Path(sys.executable) if source.python is None else find_python(source.python)
    if python is None:
        raise UserError(f"Python {source.python} is not here", hint=f"with pyenv: pyenv install {source.python}")
    environment = shop.folder / "venv"
    shop.run([python, "-m", "venv", environment], doing=f"a virtual environment of {python.name}")
    shop.run(
        [environment / "bin" / "python", "-m", "pip", "install", "--no-input", *source.requirements],
        doing=f"pip install {' '.join(source.requirements)}",
    )
    _rename_within(environment, shop)
    version = source.requirements[0].partition("==")[2]
    return Made(version, tuple(sorted(environment.glob("lib/python*/site-packages/*.dist-info/RECORD"))))


def _rename_within(environment: Path, shop: Workshop) -> None:
    """Scripts name the environment's Python by its whole path, which is another one after the install."""
    before, after = str(shop.folder).encode(), str(shop.place).encode()
    for path in (*environment.glob("bin/*"), environment / "pyvenv.cfg"):
        if path.is_symlink() or not path.is_file():
            continue
        text = path.read_bytes()
        if before in text:
            path.write_bytes(text.replace(before, after))
