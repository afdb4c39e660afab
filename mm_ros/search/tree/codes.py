"""Features as whole numbers of 16 bits: where the codes lie, and a query in codes.

Steps are such that a difference of one code costs the same in every column under the usual weights: then the squares of
all columns sum up in whole numbers, sixteen sums at once. Other weights come in as a factor of 16 bits a column.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.types import F32

U16 = NDArray[np.uint16]

PAIR = 2  # columns that share one 32-bit sum
WIDE = 32  # columns of a query that are encoded at a time
STEP = 4  # columns that the sums take at a time: two pairs
MAX_COLUMNS = 128
TAIL = 0.0005  # of the frames on either side are outliers, when they lie …
OUTLIER = 1.0  # … farther out than the range of the others is wide: those are clamped, which is still a bound
REACH = 0.1  # of the range are left free on either side for queries
LEAST_ROOT = 1 / 16  # no column gets steps this much coarser than another for its small usual weight
MARGIN = 1e-9  # codes; more than float64 rounds away
FACTOR = 65535.0  # of the column with the largest weight


class CodeSpace(NamedTuple):
    """Of each column; padded to whole 32s."""

    base: F32  # where code 0 is
    per_unit: F32  # codes a unit
    unit: NDArray[np.float64]  # a code's square, in squared units
    closed_below: F32  # 1 where no frame lies below code 0, else 0
    closed_above: F32  # 1 where no frame lies above the last code


def last_code(columns: int) -> int:
    """So that the squares of all columns fit into 31 bits."""
    padded = -(-columns // STEP) * STEP
    return min(32766, int(np.sqrt((2**31 - 1) / padded)) - 1)


def make_code_space(features: F32, usual_weights: F32 | None = None) -> CodeSpace:
    columns = features.shape[1]
    sample = features[:: max(1, len(features) // 20000)].astype(np.float64)
    usual = np.quantile(sample, [TAIL, 1 - TAIL], axis=0)
    width = OUTLIER * (usual[1] - usual[0])
    low, high = features.min(axis=0).astype(np.float64), features.max(axis=0).astype(np.float64)
    bottom, top = np.maximum(low, usual[0] - width), np.minimum(high, usual[1] + width)
    reach = REACH * (top - bottom)
    bottom, top = bottom - reach, top + reach
    root = np.ones(columns)
    if usual_weights is not None and (usual_weights > 0).any():
        root = np.sqrt(usual_weights.astype(np.float64))
        root = np.maximum(root, root.max() * LEAST_ROOT)
    step = ((top - bottom) * root).max() / root / last_code(columns)
    step[step < 1e-30] = 1.0  # nothing varies
    base, per_unit = bottom.astype(np.float32), (1 / step).astype(np.float32)
    at_low, at_high = ((v - base) * per_unit.astype(np.float64) for v in (low, high))
    padding = (0, -columns % WIDE)
    closed = (np.pad(v.astype(np.float32), padding) for v in (at_low >= 0, at_high <= last_code(columns)))
    unit = 1 / per_unit.astype(np.float64) ** 2
    return CodeSpace(np.pad(base, padding), np.pad(per_unit, padding), np.pad(unit, padding), *closed)


def to_codes(space: CodeSpace, values: NDArray[Any], *, upwards: bool) -> U16:
    """(…, D) values → (…, pairs, 2) codes, rounded down or up, clamped. Infinite values (padding) are welcome."""
    columns = values.shape[-1]
    at = (values - space.base[:columns].astype(np.float64)) * space.per_unit[:columns].astype(np.float64)
    padded = -(-columns // STEP) * STEP
    codes = np.zeros((*values.shape[:-1], padded), np.uint16)
    codes[..., :columns] = np.clip(np.ceil(at) if upwards else np.floor(at), 0, last_code(columns))
    return codes.reshape(*values.shape[:-1], padded // PAIR, PAIR)
