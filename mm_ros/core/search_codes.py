"""Features in one byte a column: where the codes lie, and a query in codes.

Four neighbouring columns form a group with one step between codes, so that one instruction sums their squares. A
group's sum is scaled by the smallest weight in it (columns without weight are masked out): never too large.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mm_ros.core.jit import njit
from mm_ros.core.simd import BYTES, CEILING, FLOOR, FLOOR_LESS_ONE, KEEP, SCRATCH
from mm_ros.core.types import F32

U8 = NDArray[np.uint8]
U16 = NDArray[np.uint16]

LAST_CODE = 255
MAX_COLUMNS = SCRATCH // 4  # a query has four rows of codes in one local array
TAIL = 0.0005  # of the frames may lie beyond the codes' range on either side; they are clamped, which is still a bound
MARGIN = 0.01  # codes; more than float32 rounds away within the range

# How far to trust codes for a query.
ROUGH, ROWS, BOXES = 0, 1, 2
_MIXED = np.float32(0.75)  # a group's smallest weight must stand for this share of all weight
_BEYOND = np.float32(4)  # codes outside of the range


class CodeSpace(NamedTuple):
    base: F32  # (4 · groups,) where code 0 is, a column
    per_unit: F32  # (groups,) codes a unit


def make_code_space(features: F32) -> CodeSpace:
    columns = features.shape[1]
    groups = -(-columns // BYTES)
    sample = features[:: max(1, len(features) // 20000)].astype(np.float64)
    low, high = np.quantile(sample, [TAIL, 1 - TAIL], axis=0)
    middle, width = np.zeros(groups * BYTES), np.zeros(groups * BYTES)
    middle[:columns], width[:columns] = (low + high) / 2, (high - low) * 1.1
    step = np.maximum(width.reshape(groups, BYTES).max(axis=1) / LAST_CODE, 1e-9)
    per_unit = (1 / step).astype(np.float32)
    return CodeSpace((middle - LAST_CODE / 2 * np.repeat(step, BYTES)).astype(np.float32), per_unit)


def to_codes(space: CodeSpace, values: NDArray[Any], *, upwards: bool) -> U8:
    """(…, D) values → (…, groups, 4) codes, rounded down or up, clamped. Infinite values (padding) are welcome."""
    columns = values.shape[-1]
    at = (values.astype(np.float64) - space.base[:columns]) * np.repeat(space.per_unit, BYTES)[:columns].astype(np.float64)
    codes = np.full((*values.shape[:-1], len(space.base)), LAST_CODE if upwards else 0, np.uint8)
    codes[..., :columns] = np.clip(np.ceil(at) if upwards else np.floor(at), 0, LAST_CODE)
    return codes.reshape(*values.shape[:-1], len(space.per_unit), BYTES)


def to_upper_half(values: F32, *, upwards: bool) -> U16:
    """The upper 16 bits of float32, rounded down (towards -inf) or up."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    negative = (bits >> 31) == 1
    away_from_zero = ~negative if upwards else negative
    cut = (bits & 0xFFFF) != 0
    return ((bits >> 16) + (away_from_zero & cut)).astype(np.uint16)


@njit
def encode_query(base: Any, per_unit: Any, query: Any, weights: Any, codes: Any, code_weights: Any) -> Any:
    """Writes the rows FLOOR … KEEP and one weight a group; says how far to trust them."""
    groups = per_unit.shape[0]
    size = groups * BYTES
    beyond, mass, standing = np.float32(0), np.float32(0), np.float32(0)
    sane = True
    for group in range(groups):
        smallest, kept = np.float32(np.inf), 0
        for k in range(BYTES):
            c = group * BYTES + k
            at, keep = np.float32(0), 0
            if c < query.shape[0] and weights[c] > 0:
                keep = 255
                kept += 1
                at = (query[c] - base[c]) * per_unit[group]
                smallest = min(smallest, weights[c])
                mass += weights[c]
                beyond = max(beyond, max(-at, at - np.float32(LAST_CODE)))
                at = min(max(at, np.float32(0)), np.float32(LAST_CODE))
            low = max(np.int32(at + np.float32(1 - MARGIN)) - 1, 0)  # floor(at - MARGIN), at ≥ 0
            codes[FLOOR * size + c] = low
            codes[CEILING * size + c] = min(np.int32(at + np.float32(MARGIN)) + 1, LAST_CODE)
            codes[FLOOR_LESS_ONE * size + c] = max(low - 1, 0)
            codes[KEEP * size + c] = keep
        weight = np.float32(0)
        if kept:
            weight = smallest / (per_unit[group] * per_unit[group])
            sane = sane and np.float32(1e-25) < weight < np.float32(1e25)
            standing += smallest * np.float32(kept)
        code_weights[group] = weight
    if not sane:
        return ROUGH
    return BOXES if beyond <= _BEYOND and standing >= _MIXED * mass else ROWS
