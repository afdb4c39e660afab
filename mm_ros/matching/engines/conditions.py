"""A mask of height band and tags as the numbers that a projector is conditioned with."""

from __future__ import annotations

import numpy as np

from mm_ros.body.types import F32
from mm_ros.search import Mask


def condition_of(mask: Mask, tags: int) -> F32:
    """(3 · tags,): wanted, one of these, unwanted; a column a tag, in the database's order."""
    bits = np.arange(tags, dtype=np.uint64)
    parts = [(np.uint64(b) >> bits) & np.uint64(1) for b in (mask.all_of, mask.any_of, mask.none_of)]
    return np.concatenate(parts).astype(np.float32)
