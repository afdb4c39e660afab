"""Conversion of a query and its weights to 16-bit integers, in SIMD code for 32 feature columns at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from mm_ros.maths.jit import njit
from mm_ros.search.tree.codes import FACTOR, MARGIN, MAX_COLUMNS, WIDE
from mm_ros.search.tree.simd import (
    COMPILED,
    I16,
    I64,
    LEAN,
    Arrays,
    D,
    F,
    call,
    constant,
    load,
    select,
    splat,
    store,
)

# A query that exceeds the range of the codes by more than FAR_SHARE of the range needs float sums, which are slower.
FAR_SHARE = 1 / 16
UNEVEN = 64  # a query needs the slower float sums if the integer factor of a feature column is below this value
TOTAL = 2.0**30  # float sums of codes are scaled so that the largest possible sum has this value
HOPELESS = 0.05  # if the rounding error exceeds this share of the largest sum, the search does not use the tree
# Results of `encode_query`: invalid query, search by integer sums, search by float sums, or search without the tree.
BAD, WHOLE, FLOATS, NOT_AT_ALL = -1, 0, 1, 2
_SINGLES, _DOUBLES, _WORDS = (ir.VectorType(kind, WIDE) for kind in (F, D, I16))


def _doubles(builder: Any, pointer: Any) -> Any:
    return builder.fpext(load(builder, pointer, _SINGLES), _DOUBLES)


def _any_lane(builder: Any, lanes: Any) -> Any:
    bits = ir.IntType(WIDE)
    return builder.icmp_unsigned("!=", builder.bitcast(lanes, bits), ir.Constant(bits, 0))


def _emit_weigh(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    arrays = Arrays(context, builder, signature, arguments)
    first = arguments[0]
    unit, query, weights = (builder.gep(arrays.data(i), [first]) for i in (1, 2, 3))
    q, w, zero = load(builder, query, _SINGLES), load(builder, weights, _SINGLES), constant(F, 0.0, WIDE)
    fine = builder.and_(
        builder.fcmp_ordered("==", builder.fsub(q, q), zero),
        builder.and_(builder.fcmp_ordered(">=", w, zero), builder.fcmp_ordered("==", builder.fsub(w, w), zero)),
    )
    scaled = builder.fmul(builder.fpext(w, _DOUBLES), load(builder, unit, _DOUBLES))
    store(builder, scaled, builder.gep(arrays.data(4), [first]))
    top = call(builder, f"llvm.vector.reduce.fmax.v{WIDE}f64", D, scaled)
    return builder.select(_any_lane(builder, builder.not_(fine)), ir.Constant(D, -1.0), top)


@intrinsic
def _weigh(typing: Any, first: Any, unit: Any, query: Any, weights: Any, scaled: Any) -> Any:
    return types.float64(types.int64, unit, query, weights, scaled), _emit_weigh


def _weigh_plain(first: int, unit: Any, query: Any, weights: Any, scaled: Any) -> float:
    """Write the cost of a difference of one code to `scaled`, for 32 columns; return its maximum (-1: bad query)."""
    part = slice(first, first + WIDE)
    q, w = query[part], weights[part]
    if not (np.isfinite(q).all() and np.isfinite(w).all() and (w >= 0).all()):
        return -1.0
    scaled[part] = w.astype(np.float64) * unit[part]
    return float(scaled[part].max())


def _emit_encode(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    arrays = Arrays(context, builder, signature, arguments)
    first = arguments[0]
    base, per_unit, below, above, query = (_doubles(builder, builder.gep(arrays.data(i), [first])) for i in range(1, 6))
    scaled = load(builder, builder.gep(arrays.data(6), [first]), _DOUBLES)
    factor_of, last, codes = splat(builder, arguments[7], WIDE), splat(builder, arguments[8], WIDE), arrays.data(9)
    zero = constant(D, 0.0, WIDE)
    keep = builder.fcmp_ordered(">", scaled, zero)
    at = builder.fmul(builder.fsub(query, base), per_unit)
    # The codes are limited to their range, because the conversion of larger numbers to integers would overflow.
    inside = select(builder, "<", select(builder, ">", at, zero), last)
    floor = select(builder, ">", builder.fsub(inside, constant(D, MARGIN, WIDE)), zero)
    store(builder, builder.fptoui(floor, _WORDS), builder.gep(codes, [first]))
    factor = builder.fptoui(builder.fmul(scaled, factor_of), _WORDS)
    store(builder, factor, builder.gep(codes, [builder.add(first, ir.Constant(I64, MAX_COLUMNS))]))
    outside = select(builder, ">", builder.fmul(builder.fsub(zero, at), below), zero)
    outside = select(builder, ">", builder.fmul(builder.fsub(at, last), above), outside)
    outside = builder.select(keep, outside, zero)
    store(builder, outside, builder.gep(arrays.data(10), [first]))
    small = builder.icmp_unsigned("<", factor, constant(I16, UNEVEN, WIDE))
    uneven = _any_lane(builder, builder.and_(small, keep))
    beyond = _any_lane(builder, builder.fcmp_ordered(">", outside, zero))
    return builder.add(builder.zext(uneven, I64), builder.shl(builder.zext(beyond, I64), ir.Constant(I64, 1)))


@intrinsic
def _encode(
    typing: Any, first: Any, base: Any, per_unit: Any, below: Any, above: Any, query: Any, scaled: Any,
    factor: Any, last: Any, codes: Any, outside: Any,
) -> Any:  # fmt: skip
    whole, real = types.int64, types.float64
    arguments = (whole, base, per_unit, below, above, query, scaled, real, real, codes, outside)
    return whole(*arguments), _emit_encode


def _encode_plain(
    first: int, base: Any, per_unit: Any, below: Any, above: Any, query: Any, scaled: Any,
    factor: float, last: float, codes: Any, outside: Any,
) -> int:  # fmt: skip
    """Encode 32 columns of a query; return 1 for too uneven weights, plus 2 for a query outside the code range."""
    part = slice(first, first + WIDE)
    with np.errstate(all="ignore"):
        at = (query[part].astype(np.float64) - base[part]) * per_unit[part].astype(np.float64)
        codes[part] = np.maximum(np.clip(at, 0, last) - MARGIN, 0).astype(np.uint16)
        factors = (scaled[part] * factor).astype(np.uint16)
        codes[MAX_COLUMNS + first : MAX_COLUMNS + first + WIDE] = factors
        keep = scaled[part] > 0
        out = np.fmax(np.fmax(-at * below[part], 0), (at - last) * above[part])
        outside[part] = np.where(keep, out, 0)
    return int((keep & (factors < UNEVEN)).any()) + 2 * int((outside[part] > 0).any())


weigh, encode = (_weigh, _encode) if COMPILED else (_weigh_plain, _encode_plain)


@njit(**LEAN)
def encode_query(
    space: Any, last: Any, lost: Any, query: Any, weights: Any, scaled: Any, outside: Any, codes: Any
) -> Any:  # fmt: skip
    """Encode a query and its weights, which are padded to a multiple of 32 columns.

    Return the kind of sum to search with (such as WHOLE), the cost per unit of the sum, and the cost that all frames
    have in common. Let a be the distance of a query from the range of the codes in one column, and d the distance of a
    frame from the nearer end of this range; the squared distance of query and frame is (a + d)² = a² + 2 a d + d²; the
    sum of a² is the cost that all frames share, and sums without 2 a d are lower bounds.
    """
    top = 0.0
    for first in range(0, space.base.shape[0], WIDE):
        part = weigh(first, space.unit, query, weights, scaled)
        if part < 0:
            return BAD, 1.0, 0.0
        top = max(top, part)
    if top == 0:
        top = 1.0
    found = 0
    for first in range(0, space.base.shape[0], WIDE):
        found |= encode(
            first, space.base, space.per_unit, space.closed_below, space.closed_above, query, scaled,
            FACTOR / top, last, codes, outside,
        )  # fmt: skip
    if found == 0:
        return WHOLE, top / FACTOR * 65536.0, 0.0
    return _far_or_uneven(space.base.shape[0], found, top, last, lost, scaled, outside)


@njit(**LEAN)
def _far_or_uneven(columns: Any, found: Any, top: Any, last: Any, lost: Any, scaled: Any, outside: Any) -> Any:
    farthest, beyond, largest = 0.0, 0.0, 0.0
    for c in range(columns):
        farthest = max(farthest, outside[c])
        beyond += scaled[c] * outside[c] * outside[c]
        largest += scaled[c] * (2 * outside[c] + last) * last
    if not found & 1 and farthest < FAR_SHARE * last:
        return WHOLE, top / FACTOR * 65536.0, beyond
    if lost * beyond > HOPELESS * largest:
        return NOT_AT_ALL, 1.0, 0.0
    return FLOATS, largest / TOTAL, beyond


@njit(**LEAN)
def float_factors(columns: Any, one_costs: Any, scaled: Any, outside: Any, line: Any, square: Any) -> None:
    """Write the factors of distances in float sums to `line`, and the factors of squared distances to `square`."""
    for c in range(columns):
        square[c] = np.float32(scaled[c] / one_costs)
        line[c] = np.float32(2 * outside[c] * scaled[c] / one_costs)
