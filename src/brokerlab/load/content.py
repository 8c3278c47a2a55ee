"""What fills payloads beside the identity: the same for the same seed, and never more than a little memory of it."""

import random

import numpy as np
from numpy.typing import NDArray

from brokerlab.study.values import Content

LARGE_BYTES = 64 * 1024  # payloads above it are not built whole: their end is sent from a filler that all share
FILLER_BYTES = 1 << 20  # of larger payloads it is repeated

# Of the lengths and letters of English, so that it compresses as text of machines and people does.
_TEXT = (
    "the of and a to in is it that was for on are with as at be this have from or one had by word but not what all "
    "were we when your can said there use an each which she do how their if will up other about out many then them "
    "temperature pressure humidity valve pump line sensor gateway station battery signal north south status normal"
)


def filler_of(content: Content, payload_bytes: int, *, seed: str) -> NDArray[np.uint8]:
    """The bytes of a payload, its first FILLER_BYTES at most; of JSON the spaces that follow the text."""
    size = min(payload_bytes, FILLER_BYTES)
    if content is Content.ZEROS:
        return np.zeros(size, dtype=np.uint8)
    if content is Content.JSON:
        return np.full(size, ord(" "), dtype=np.uint8)
    draw = random.Random(seed)  # noqa: S311 - nothing secret depends on it
    if content is Content.TEXT:
        words = " ".join(draw.choices(_TEXT.split(), k=size // 2 + 1))
        return np.frombuffer(words[:size].encode(), dtype=np.uint8).copy()
    return np.frombuffer(draw.randbytes(size), dtype=np.uint8).copy()
