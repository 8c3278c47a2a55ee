"""What every mapping of a study file has in common."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A mapping of the study file: known keys only, and no conversions behind the user's back."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    later: ClassVar[tuple[str, ...]] = ()  # keys of the design that this version does not have
    moved: ClassVar[Mapping[str, str]] = {}  # keys that one may look for here, and where they are
