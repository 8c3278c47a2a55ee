"""How many connections a process may have."""

import resource


def raise_open_files() -> int:
    """Raises the limit of open files to what this user may have; the limit (getrlimit(2))."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
