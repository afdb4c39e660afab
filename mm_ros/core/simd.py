"""Sixteen lanes at once, and arrays from addresses: the few things that numba's loops do badly.

Each intrinsic has a plain twin that gives the same bits; `NUMBA_DISABLE_JIT=1` uses the twins. The vector code is
portable LLVM (`<16 x float>`): AVX-512, AVX2 and NEON split it as they can. No fast-math flags, so nothing is fused.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from mm_ros.core.types import F32

LANES = 16
COMPILED = not numba.config.DISABLE_JIT
GUARDED = bool(numba.config.BOUNDSCHECK)  # numba checks its own indexing; we then check the loads of intrinsics

_F = ir.FloatType()
_V = ir.VectorType(_F, LANES)
_I64 = ir.IntType(64)


def _splat(builder: Any, scalar: Any) -> Any:
    first = builder.insert_element(ir.Constant(_V, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(first, ir.Constant(_V, ir.Undefined), zeros)


def _load(builder: Any, pointer: Any) -> Any:
    vector = builder.load(builder.bitcast(pointer, _V.as_pointer()))
    vector.align = 4
    return vector


def _max(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _box_difference(builder: Any, data: Any, column: Any, query: Any) -> Any:
    """How far the query is outside of 16 boxes in one column: max(low - q, q - high, 0)."""
    low_at = builder.mul(column, ir.Constant(_I64, 2 * LANES))
    low = _load(builder, builder.gep(data, [low_at]))
    high = _load(builder, builder.gep(data, [builder.add(low_at, ir.Constant(_I64, LANES))]))
    below, above = builder.fsub(low, query), builder.fsub(query, high)
    return _max(builder, _max(builder, below, above), ir.Constant(_V, [0.0] * LANES))


def _row_difference(builder: Any, data: Any, column: Any, query: Any) -> Any:
    rows = _load(builder, builder.gep(data, [builder.mul(column, ir.Constant(_I64, LANES))]))
    return builder.fsub(query, rows)


def _lanes_within(builder: Any, cost: Any, limit: Any) -> Any:
    bits = builder.bitcast(builder.fcmp_ordered("<=", cost, limit), ir.IntType(LANES))
    return builder.zext(bits, _I64)


def _emit_costs(difference: Any, stride: int) -> Any:
    """Code that sums 16 costs column by column and gives up between thirds when no lane is within the limit."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def data(i: int) -> Any:
            return context.make_array(signature.args[i])(context, builder, arguments[i]).data

        query, weights, costs = data(2), data(3), data(5)
        dimensions = context.make_array(signature.args[2])(context, builder, arguments[2]).shape
        dimensions = builder.extract_value(dimensions, 0)
        block = builder.gep(data(0), [builder.mul(arguments[1], builder.mul(dimensions, ir.Constant(_I64, stride)))])
        limit = _splat(builder, arguments[4])
        total = cgutils.alloca_once_value(builder, ir.Constant(_V, [0.0] * LANES))
        alive = cgutils.alloca_once_value(builder, ir.Constant(_I64, 0))
        third = builder.udiv(builder.add(dimensions, ir.Constant(_I64, 2)), ir.Constant(_I64, 3))
        done = builder.append_basic_block("done")
        start = ir.Constant(_I64, 0)
        for part in range(3):
            stop = dimensions if part == 2 else builder.mul(third, ir.Constant(_I64, part + 1))
            stop = builder.select(builder.icmp_unsigned("<", stop, dimensions), stop, dimensions)
            with cgutils.for_range_slice(builder, start, stop, ir.Constant(_I64, 1)) as (column, _):
                q = _splat(builder, builder.load(builder.gep(query, [column])))
                w = _splat(builder, builder.load(builder.gep(weights, [column])))
                d = difference(builder, block, column, q)
                term = builder.fmul(builder.fmul(w, d), d)
                builder.store(builder.fadd(builder.load(total), term), total)
            builder.store(_lanes_within(builder, builder.load(total), limit), alive)
            if part < 2:
                following = builder.append_basic_block("next")
                any_alive = builder.icmp_unsigned("!=", builder.load(alive), ir.Constant(_I64, 0))
                builder.cbranch(any_alive, following, done)
                builder.position_at_end(following)
            start = stop
        out = builder.store(builder.load(total), builder.bitcast(costs, _V.as_pointer()))
        out.align = 4
        builder.branch(done)
        builder.position_at_end(done)
        return builder.load(alive)

    return codegen


def _plain_costs(difference: Any) -> Any:
    """The twin: NumPy's own 16 lanes, the same terms in the same order, the same early out."""

    def costs16(data: Any, block: int, query: F32, weights: F32, limit: Any, costs: F32) -> int:
        dimensions = len(query)
        third = (dimensions + 2) // 3
        total = np.zeros(LANES, np.float32)
        alive = 0
        with np.errstate(all="ignore"):
            for part in range(3):
                stop = dimensions if part == 2 else min((part + 1) * third, dimensions)
                for column in range(min(part * third, dimensions), stop):
                    d = difference(data[block, column], query[column])
                    total += (weights[column] * d) * d
                alive = int(((total <= limit) * (1 << np.arange(LANES))).sum())
                if not alive and part < 2:
                    return 0
        costs[:] = total
        return alive

    return costs16


def _plain_box_difference(low_high: F32, query: Any) -> F32:
    return np.maximum(np.maximum(low_high[0] - query, query - low_high[1]), np.float32(0))


def _plain_row_difference(rows: F32, query: Any) -> F32:
    return query - rows


box_costs_plain = _plain_costs(_plain_box_difference)
row_costs_plain = _plain_costs(_plain_row_difference)


@intrinsic
def _box_costs(typing: Any, boxes: Any, block: Any, query: Any, weights: Any, limit: Any, costs: Any) -> Any:
    signature = types.int64(boxes, types.int64, query, weights, types.float32, costs)
    return signature, _emit_costs(_box_difference, 2 * LANES)


@intrinsic
def _row_costs(typing: Any, rows: Any, block: Any, query: Any, weights: Any, limit: Any, costs: Any) -> Any:
    signature = types.int64(rows, types.int64, query, weights, types.float32, costs)
    return signature, _emit_costs(_row_difference, LANES)


@intrinsic
def _lowest_bit(typing: Any, bits: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen


def lowest_bit_plain(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


@intrinsic
def _pointer(typing: Any, address: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), codegen


def array_at_plain(address: int, shape: Any, dtype: Any) -> Any:
    """The array that lives at an address. The caller keeps its owner alive."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape))
    if not count:
        return np.zeros(shape, dtype)
    raw = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(raw, dtype).reshape(shape)


if COMPILED:
    box_costs, row_costs, lowest_bit = _box_costs, _row_costs, _lowest_bit

    @numba.njit(inline="always")
    def array_at(address: int, shape: Any, dtype: Any) -> Any:
        return numba.carray(_pointer(address), shape, dtype)

else:
    box_costs, row_costs, lowest_bit = box_costs_plain, row_costs_plain, lowest_bit_plain
    array_at = array_at_plain
