"""Quantization of features to 16-bit integers, called codes.

With the usual weights, a difference of one code has the same cost in every feature column, so that the search can add
the squared differences of all columns as integers. For a query with other weights, the search multiplies the
squared differences of each column by a factor that follows from these weights.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.types import F32

U16 = NDArray[np.uint16]

PAIR = 2  # number of feature columns whose squared differences one SIMD instruction adds
WIDE = 32  # number of feature columns of a query that are encoded at a time
STEP = 4  # number of feature columns whose squared differences the search adds at a time
MAX_COLUMNS = 128
TAIL = 0.0005  # maximum share of the frames at each end of a column's range that count as outliers
# Outliers are clamped if their distance from the range of other values is more than OUTLIER times this range.
OUTLIER = 1.0
REACH = 0.1  # the range that codes stand for extends beyond the features' range by this share of it, at each end
# Minimum square root of a column's usual weight, as a share of the largest square root, which prevents that columns
# with very small weights have too few different codes.
LEAST_ROOT = 1 / 16
MARGIN = 1e-9  # share of a code that is subtracted from a query before rounding down, to allow for errors of float64
FACTOR = 65535.0  # integer by which the squared code differences of the column with the largest weight are multiplied


class CodeSpace(NamedTuple):
    """Parameters of the quantization, one number per feature column, padded to a multiple of 32 columns."""

    base: F32  # feature value that code 0 stands for, in each column
    per_unit: F32  # number of codes by which the code grows if the feature grows by 1
    unit: NDArray[np.float64]  # squared difference between the feature values of adjacent codes, in each column
    closed_below: F32  # 1 for a column in which no frame is below code 0, else 0
    closed_above: F32  # 1 for a column in which no frame is above the last code, else 0


def last_code(columns: int) -> int:
    """Return the largest code for which the sum of squared codes over all columns fits into 31 bits."""
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
    step[step < 1e-30] = 1.0  # the step 1.0 avoids a division by zero in a column whose values are all equal
    base, per_unit = bottom.astype(np.float32), (1 / step).astype(np.float32)
    at_low, at_high = ((v - base) * per_unit.astype(np.float64) for v in (low, high))
    padding = (0, -columns % WIDE)
    closed = (np.pad(v.astype(np.float32), padding) for v in (at_low >= 0, at_high <= last_code(columns)))
    unit = 1 / per_unit.astype(np.float64) ** 2
    return CodeSpace(np.pad(base, padding), np.pad(per_unit, padding), np.pad(unit, padding), *closed)


def to_codes(space: CodeSpace, values: NDArray[Any], *, upwards: bool) -> U16:
    """Convert feature values (…, D), which may be infinite, to codes (…, pairs of columns, 2), rounded up or down."""
    columns = values.shape[-1]
    at = (values - space.base[:columns].astype(np.float64)) * space.per_unit[:columns].astype(np.float64)
    padded = -(-columns // STEP) * STEP
    codes = np.zeros((*values.shape[:-1], padded), np.uint16)
    codes[..., :columns] = np.clip(np.ceil(at) if upwards else np.floor(at), 0, last_code(columns))
    return codes.reshape(*values.shape[:-1], padded // PAIR, PAIR)
