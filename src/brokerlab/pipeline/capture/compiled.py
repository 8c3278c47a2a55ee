"""How the walks are compiled, and the few reads that all of them share."""

# mypy: disable-error-code="assignment, return-value, arg-type, operator, no-any-return"
# (NumPy's own integers keep Numba from widening unsigned ones to floats; to mypy they are not `int`.)

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Longs = NDArray[np.int64]
Bools = NDArray[np.bool_]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(signature: str, *, is_inlined: bool = False) -> Callable[[_Function], _Function]:
    """Compiles at import, and keeps the machine code for the next process; not of modules that came in an archive.

    For functions that make no arrays: references to those that they are given are not counted, which takes two thirds
    of the time of a walk from packet to packet.
    """

    def decorate(function: _Function) -> _Function:
        has_file = Path(function.__code__.co_filename).is_file()
        options: dict[str, Any] = {"cache": has_file, "nogil": True, "_nrt": False}
        options["inline"] = "always" if is_inlined else "never"
        done: _Function = njit(signature, **options)(function)
        return done

    return decorate


# Places are unsigned here: of others Numba asks at each byte whether they count from the end, and without that question
# the bytes of a word are loaded together.


@compiled("i8(u1[::1], i8)", is_inlined=True)
def byte(data: Bytes, at: int) -> int:
    return np.int64(data[np.uint64(at)])


@compiled("i8(u1[::1], i8)", is_inlined=True)
def big16(data: Bytes, at: int) -> int:
    k = np.uint64(at)
    return np.int64(data[k]) << 8 | np.int64(data[k + np.uint64(1)])


@compiled("i8(u1[::1], i8)", is_inlined=True)
def big32(data: Bytes, at: int) -> int:
    k = np.uint64(at)
    return (
        np.int64(data[k]) << 24 | np.int64(data[k + np.uint64(1)]) << 16
        | np.int64(data[k + np.uint64(2)]) << 8 | np.int64(data[k + np.uint64(3)])
    )  # fmt: skip


@compiled("i8(u1[::1], i8)", is_inlined=True)
def little32(data: Bytes, at: int) -> int:
    k = np.uint64(at)
    return (
        np.int64(data[k + np.uint64(3)]) << 24 | np.int64(data[k + np.uint64(2)]) << 16
        | np.int64(data[k + np.uint64(1)]) << 8 | np.int64(data[k])
    )  # fmt: skip


@compiled("i8(u1[::1], i8, b1)", is_inlined=True)
def word32(data: Bytes, at: int, is_big: bool) -> int:
    """Four bytes in the byte order of the file."""
    return big32(data, at) if is_big else little32(data, at)
