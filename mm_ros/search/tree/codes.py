"""Quantization of features to 16-bit integer codes.

The quantization steps are chosen so that a difference of one code costs the same in every column under the usual
weights. With these steps the squares of all columns add up in integers, 16 sums at a time. Other weights are applied by
a 16-bit factor per column.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.types import F32

U16 = NDArray[np.uint16]

PAIR = 2  # number of columns that share one 32-bit sum
WIDE = 32  # columns of a query that are encoded at a time
STEP = 4  # columns that are added at a time: two pairs
MAX_COLUMNS = 128
TAIL = 0.0005  # largest share of the frames at each end of the range that may be clamped as outliers.
# Outliers are clamped if they are outside of the range of the other values by more than the width of this range; a
# clamped box still gives a lower bound
OUTLIER = 1.0
REACH = 0.1  # share of the range of the frames that is added on either side, because queries may be outside of it
LEAST_ROOT = 1 / 16  # lower limit of the square root of a usual weight, relative to the largest; limits coarse steps
MARGIN = 1e-9  # codes; larger than the rounding error of float64
FACTOR = 65535.0  # factor of the column with the largest weight


class CodeSpace(NamedTuple):
    """Quantization of each column, padded to a multiple of 32 columns."""

    base: F32  # value of code 0
    per_unit: F32  # codes per unit
    unit: NDArray[np.float64]  # squared width of one code
    closed_below: F32  # 1 where no frame lies below code 0, else 0
    closed_above: F32  # 1 where no frame lies above the last code


def last_code(columns: int) -> int:
    """The largest code, such that the sum of squares of all columns fits into 31 bits."""
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
    step[step < 1e-30] = 1.0  # columns whose values are all equal
    base, per_unit = bottom.astype(np.float32), (1 / step).astype(np.float32)
    at_low, at_high = ((v - base) * per_unit.astype(np.float64) for v in (low, high))
    padding = (0, -columns % WIDE)
    closed = (np.pad(v.astype(np.float32), padding) for v in (at_low >= 0, at_high <= last_code(columns)))
    unit = 1 / per_unit.astype(np.float64) ** 2
    return CodeSpace(np.pad(base, padding), np.pad(per_unit, padding), np.pad(unit, padding), *closed)


def to_codes(space: CodeSpace, values: NDArray[Any], *, upwards: bool) -> U16:
    """Convert values (…, D) to codes (…, pairs, 2), rounded down or up, clamped. Values may be infinite (padding)."""
    columns = values.shape[-1]
    at = (values - space.base[:columns].astype(np.float64)) * space.per_unit[:columns].astype(np.float64)
    padded = -(-columns // STEP) * STEP
    codes = np.zeros((*values.shape[:-1], padded), np.uint16)
    codes[..., :columns] = np.clip(np.ceil(at) if upwards else np.floor(at), 0, last_code(columns))
    return codes.reshape(*values.shape[:-1], padded // PAIR, PAIR)
