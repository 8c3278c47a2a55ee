"""Where Numba keeps the machine code of our loops: in a folder of its own for each state of all of them.

Numba compiles a loop anew when the file that holds it has changed, and not when that of another one has which it
calls: after an upgrade the old wire would be counted with the new ledger, and nothing would say so.
"""

import hashlib
import os
from pathlib import Path

_ROOT = Path(__file__).parent
FOLDER = "NUMBA_CACHE_DIR"  # Numba reads it when it is imported
SOURCES = (
    "bridge/outwalks.py", "bridge/walks.py", "load/crowdwalk.py", "load/echowalk.py", "load/fillwalk.py",
    "load/identity.py", "load/nullwalk.py", "load/pointers.py", "load/readwalk.py", "load/replay.py", "load/ring.py",
    "load/rows.py", "load/shapes.py", "load/websocket.py", "load/wire.py", "network/carrying.py",
    "pipeline/capture/compiled.py",
)  # fmt: skip


def keep_apart(sources: Path = _ROOT) -> None:
    """Has Numba keep its code below the folder that the user named, if any, or else beside Python's own."""
    state = hashlib.sha256(b"".join((sources / name).read_bytes() for name in SOURCES)).hexdigest()[:16]
    folder = Path(os.environ.get(FOLDER) or _ROOT / "__pycache__")
    if folder.name.startswith("brokerlab-"):  # a process of ours has said it
        folder = folder.parent
    os.environ[FOLDER] = str(folder / f"brokerlab-{state}")
