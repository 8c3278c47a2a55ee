"""Where the load of a study runs: processes of this machine, or a barrier stage of the user's Spark cluster."""

import secrets
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from brokerlab.errors import UserError
from brokerlab.load.runner import Runner
from brokerlab.pipeline.master import master_of
from brokerlab.record.directory import StudyDirectory
from brokerlab.study.values import Study

NewRunner = Callable[[], Runner]
_MOST_WORKERS = 3  # publishers, subscribers, and one beside them: as many machines are looked at


@contextmanager
def runners(study: Study, results: StudyDirectory, *, master: str | None) -> Iterator[NewRunner | None]:
    """Makes a runner for each run; None where the workers are processes of this machine."""
    if study.deploy.load_on != "spark":
        yield None
        return
    # Spark and the load path take seconds to load.
    from brokerlab.load.together import Task, Together, see_token  # noqa: PLC0415
    from brokerlab.pipeline.barrier import run_together  # noqa: PLC0415
    from brokerlab.pipeline.session import open_session  # noqa: PLC0415

    results.path.mkdir(parents=True, exist_ok=True)
    with open_session(app="brokerlab load", master=master, has_effects=True) as spark:

        def submit(task: Task, payloads: Sequence[bytes]) -> Sequence[str]:
            return run_together(spark, task, payloads, shared=results.path)

        _require_shared_storage(results.path, lambda payloads: submit(see_token, payloads))
        host = "127.0.0.1" if master_of(master).is_here else _address()
        yield lambda: Together(submit, host=host)


def _require_shared_storage(path: Path, look: Callable[[Sequence[bytes]], Sequence[str]]) -> None:
    """Before anything starts: every machine must see the directory of results, at the same place."""
    token, file = secrets.token_hex(16), path.resolve() / f".storage-{secrets.token_hex(4)}"
    try:
        file.write_text(token, encoding="ascii")
        blind = sorted({host for host in look([f"{file}\0{token}".encode()] * _MOST_WORKERS) if host})
    finally:
        file.unlink(missing_ok=True)
    if blind:
        raise UserError(
            f"{', '.join(blind)} does not see {path.resolve()}",
            hint="give a directory with --out that all machines of the cluster share",
        )


def _address() -> str:
    """The address from which this machine would speak to others; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # a network for documentation (RFC 5737)
        return str(probe.getsockname()[0])
