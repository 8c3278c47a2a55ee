"""All checks, in the order in which they are shown."""

from brokerlab.errors import UserError
from brokerlab.lab.probe import connecting, fives, flows, limits, malformed, retained, sessions, subscribing, wills
from brokerlab.lab.probe.check import Check
from brokerlab.study.nearest import listed, nearest

CHECKS: tuple[Check, ...] = (
    *connecting.CHECKS,
    *flows.CHECKS,
    *subscribing.CHECKS,
    *retained.CHECKS,
    *wills.CHECKS,
    *sessions.CHECKS,
    *limits.CHECKS,
    *fives.CHECKS,
    *malformed.CHECKS,
)
GROUPS = tuple(dict.fromkeys(check.group for check in CHECKS))
FIRST = CHECKS[0]  # CONNECT is accepted: what does not pass it does not speak this version


def chosen(names: list[str]) -> tuple[Check, ...]:
    """The checks of these groups, or with these ids; all of them when none is named."""
    known = {*GROUPS, *(check.id for check in CHECKS)}
    for name in names:
        if name not in known:
            near = nearest(name, known)
            raise UserError(
                f"--only {name}: no such group of checks" + (f"; did you mean {near}?" if near else ""),
                hint=f"there is {listed(GROUPS)}, or the id of one check",
            )
    return tuple(check for check in CHECKS if not names or check.group in names or check.id in names)
