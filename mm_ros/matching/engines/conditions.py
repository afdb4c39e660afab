"""Convert the condition of a search on height band and tags (`Mask`) to an input vector of the projector network."""

from __future__ import annotations

import numpy as np

from mm_ros.body.types import F32
from mm_ros.search import Mask


def condition_of(mask: Mask, tags: int) -> F32:
    """Return the condition vector (3 · tags,) of a mask, which consists of zeros and ones.

    The condition vector consists of the parts `all_of`, `any_of` and `none_of`, each with one number per tag in the
    order of the database.
    """
    bits = np.arange(tags, dtype=np.uint64)
    parts = [(np.uint64(b) >> bits) & np.uint64(1) for b in (mask.all_of, mask.any_of, mask.none_of)]
    return np.concatenate(parts).astype(np.float32)
