"""Addresses in tables of compiled loops, as pointers: arrays of many clients that no one array could hold."""

# mypy: disable-error-code="no-untyped-call"
# (Numba's own types have none.)

from typing import Any

from numba import types
from numba.extending import intrinsic


def _pointer(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))


def _longs_at(_context: Any, _address: Any) -> Any:
    return types.CPointer(types.int64)(types.int64), _pointer


def _bytes_at(_context: Any, _address: Any) -> Any:
    return types.CPointer(types.uint8)(types.int64), _pointer


# Of an address, for numba.carray.
longs_at: Any = intrinsic(_longs_at)
bytes_at: Any = intrinsic(_bytes_at)
