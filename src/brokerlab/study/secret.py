"""Passwords in a study, which must not get from there into anything that is kept or shown."""

import os
from typing import Self

from brokerlab.errors import UserError

HIDDEN = "***"
_ENVIRONMENT = "env:"


class Secret(str):
    """As a text it is where the secret comes from: `env:NAME`, or asterisks for one that stands in the study.

    So whatever writes a study, a plan, a manifest or a message cannot give it away; `reveal` alone does.
    """

    _inside: str | None

    def __new__(cls, written: str = HIDDEN) -> Self:
        is_kept = written != HIDDEN and not written.startswith(_ENVIRONMENT)
        self = super().__new__(cls, HIDDEN if is_kept else written)
        self._inside = written if is_kept else None
        return self

    def reveal(self) -> str:
        """The secret itself; UserError where it cannot be had."""
        if self._inside is not None:
            return self._inside
        if not self.startswith(_ENVIRONMENT):
            raise UserError("the password was left out when this study was written", hint="give it as env:NAME")
        name = self.removeprefix(_ENVIRONMENT)
        if name not in os.environ:
            raise UserError(f"the environment has no {name}, which holds a password", hint=f"export {name}=…")
        return os.environ[name]
