"""The named studies that come with brokerlab; each is one study file in this folder."""

from importlib.resources import files
from pathlib import Path

from brokerlab.errors import UserError
from brokerlab.study.nearest import listed, nearest


def preset_names() -> tuple[str, ...]:
    """The names of the presets, in alphabetical order."""
    return tuple(sorted(path.stem for path in _folder().glob("*.yaml")))


def preset_path(name: str) -> Path:
    """The study file of a preset."""
    names = preset_names()
    if name not in names:
        close = nearest(name, names)
        meant = f'; did you mean "{close}"?' if close else f"; there are: {listed(names)}"
        raise UserError(f'no preset is called "{name}"{meant}', hint="`brokerlab presets` lists them")
    return _folder() / f"{name}.yaml"


def _folder() -> Path:
    return Path(str(files("brokerlab.presets")))
