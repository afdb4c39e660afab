"""Features in one byte a column: where the codes lie, and a query in codes.

Four neighbouring columns form a group: one instruction sums their squares. A group's sum is scaled by the smallest
weight in it, per code (columns without weight are masked out): never too large.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mm_ros.core.jit import njit
from mm_ros.core.simd import BAD_NUMBER, BYTES, LANES, LAST_CODE, LEAN, encode16
from mm_ros.core.types import F32

U8 = NDArray[np.uint8]
U16 = NDArray[np.uint16]

TAIL = 0.0005  # of the frames on either side do not widen the range by more than …
REACH = 0.3  # … this share of it; what lies beyond is clamped, which is still a bound

# How far to trust codes for a query.
BAD, ROUGH, ROWS, BOXES = -1, 0, 1, 2


class CodeSpace(NamedTuple):
    base: F32  # where code 0 is, a column; padded to whole 16s
    per_unit: F32  # codes a unit, a column
    closed_below: F32  # 1 where no frame lies below code 0, else 0
    closed_above: F32  # 1 where no frame lies above the last code


def make_code_space(features: F32, usual_weights: F32 | None = None) -> CodeSpace:
    """Steps such that a difference of one code costs the same in all columns of a group, under the usual weights."""
    columns = features.shape[1]
    padded = -(-columns // LANES) * LANES
    sample = features[:: max(1, len(features) // 20000)].astype(np.float64)
    usual = np.quantile(sample, [TAIL, 1 - TAIL], axis=0)
    reach = REACH * (usual[1] - usual[0])
    low, high = features.min(axis=0), features.max(axis=0)
    middle, width = np.zeros(padded), np.zeros(padded)
    bottom, top = np.maximum(low, usual[0] - reach), np.minimum(high, usual[1] + reach)
    middle[:columns], width[:columns] = (bottom + top) / 2, (top - bottom) * 1.001
    root = np.ones(padded)
    if usual_weights is not None and (usual_weights > 0).all():
        root[:columns] = np.sqrt(usual_weights)
    step = (width * root).reshape(-1, BYTES).max(axis=1).repeat(BYTES) / root / LAST_CODE
    step[step < 1e-9] = 1.0  # padding, or columns that never vary
    base = (middle - LAST_CODE / 2 * step).astype(np.float32)
    per_unit = (1 / step).astype(np.float32)
    closed = np.ones((2, padded), np.float32)
    at_low, at_high = ((v - base[:columns]) * per_unit[:columns].astype(np.float64) for v in (low, high))
    closed[:, :columns] = at_low >= 0, at_high <= LAST_CODE
    return CodeSpace(base, per_unit, closed[0], closed[1])


def to_codes(space: CodeSpace, values: NDArray[Any], *, upwards: bool) -> U8:
    """(…, D) values → (…, groups, 4) codes, rounded down or up, clamped. Infinite values (padding) are welcome."""
    columns = values.shape[-1]
    groups = -(-columns // BYTES)
    at = (values.astype(np.float64) - space.base[:columns]) * space.per_unit[:columns].astype(np.float64)
    codes = np.full((*values.shape[:-1], groups * BYTES), LAST_CODE if upwards else 0, np.uint8)
    codes[..., :columns] = np.clip(np.ceil(at) if upwards else np.floor(at), 0, LAST_CODE)
    return codes.reshape(*values.shape[:-1], groups, BYTES)


def to_upper_half(values: F32, *, upwards: bool) -> U16:
    """The upper 16 bits of float32, rounded down (towards -inf) or up."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    negative = (bits >> 31) == 1
    away_from_zero = ~negative if upwards else negative
    cut = (bits & 0xFFFF) != 0
    out: U16 = ((bits >> 16) + (away_from_zero & cut)).astype(np.uint16)
    return out


@njit(**LEAN)
def encode_query(
    base: Any, per_unit: Any, below: Any, above: Any, query: Any, weights: Any,
    codes: Any, code_weights: Any, groups: Any, scratch: Any,
) -> Any:  # fmt: skip
    """A query (padded to whole 16s) in codes, and one weight a group.

    Gives trust, and what lies beyond the range costs.
    """
    found = 0
    columns = base.shape[0]
    for first in range(0, columns, LANES):
        found |= encode16(first, base, per_unit, query, weights, codes, code_weights, scratch, below, above)
    if found & BAD_NUMBER:
        return BAD, np.float32(0)
    sane: Any = True
    beyond = np.float32(0)
    for group in range(groups):
        weight = code_weights[group * BYTES]
        weight = weight if weight < np.float32(np.inf) else np.float32(0)  # no weight in the group
        sane = sane and (weight == 0 or np.float32(1e-25) < weight < np.float32(1e25))
        code_weights[group] = weight  # never ahead of what is still to be read
        for k in range(BYTES):
            beyond += scratch[group * BYTES + k]
    if not sane or not beyond < np.float32(1e30):
        return ROUGH, np.float32(0)
    return (BOXES if found == 0 else ROWS), beyond
