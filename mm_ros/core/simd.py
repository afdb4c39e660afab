"""Sixteen lanes at once, and the few other things that numba's own loops do badly.

Each intrinsic has a plain twin that gives the same bits; `NUMBA_DISABLE_JIT=1` uses the twins. The vector code is
portable LLVM; only the sum of four squared bytes asks for an instruction by name where the processor has it.
No fast-math flags anywhere, so nothing is fused or reordered.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from mm_ros.core.types import F32

LANES = 16
BYTES = 4  # columns that share one 32-bit sum
MAX_CODE_DISTANCE = 127  # the products of bytes are signed on one side
SCRATCH = 512  # entries of a local array
COMPILED = not numba.config.DISABLE_JIT
GUARDED = bool(numba.config.BOUNDSCHECK)  # numba checks its own indexing; we then check the loads of intrinsics

_F, _I8, _I16, _I32, _I64 = ir.FloatType(), ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64)
_FLOATS, _INTS = ir.VectorType(_F, LANES), ir.VectorType(_I32, LANES)
_CODES = ir.VectorType(_I8, LANES * BYTES)
_ZEROS = ir.Constant(_FLOATS, [0.0] * LANES)


def _cpu_features() -> str:
    if numba.config.CPU_FEATURES is not None:
        return str(numba.config.CPU_FEATURES)
    return "" if numba.config.CPU_NAME else str(binding.get_host_cpu_features().flatten())


_FEATURES = _cpu_features().split(",")


def _splat(builder: Any, scalar: Any) -> Any:
    vector = ir.VectorType(scalar.type, LANES)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), ir.Constant(_INTS, [0] * LANES))


def _load(builder: Any, pointer: Any, vector: Any) -> Any:
    loaded = builder.load(builder.bitcast(pointer, vector.as_pointer()))
    loaded.align = 1
    return loaded


def _at(builder: Any, pointer: Any, *factors: Any) -> Any:
    """Pointer plus the product of the factors, in elements."""
    offset = factors[0]
    for factor in factors[1:]:
        offset = builder.mul(offset, factor if isinstance(factor, ir.Value) else ir.Constant(_I64, factor))
    return builder.gep(pointer, [offset])


def _select(builder: Any, comparison: str, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(comparison, a, b), a, b)


def _lanes_within(builder: Any, costs: Any, limit: Any) -> Any:
    """Bit i: lane i costs no more than the limit. Ordered, so NaN (0 · inf of a padding lane) is never within."""
    bits = builder.bitcast(builder.fcmp_ordered("<=", costs, _splat(builder, limit)), ir.IntType(LANES))
    return builder.zext(bits, _I64)


def _store(builder: Any, vector: Any, pointer: Any) -> None:
    builder.store(vector, builder.bitcast(pointer, vector.type.as_pointer())).align = 1


class _Arrays:
    """The array arguments of an intrinsic: data pointers and lengths."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self._made = [
            context.make_array(t)(context, builder, a) if isinstance(t, types.Array) else None
            for t, a in zip(signature.args, arguments, strict=True)
        ]
        self._builder = builder

    def data(self, i: int) -> Any:
        return self._made[i].data

    def length(self, i: int) -> Any:
        return self._builder.extract_value(self._made[i].shape, 0)


def _signature(*arguments: Any) -> Any:
    return types.int64(arguments[0], types.int64, *arguments[2:-2], types.float32, arguments[-1])


# ---- boxes in 16 bits (the upper half of a float32, rounded outwards), any query, any weights --------------------


def _widen(builder: Any, pointer: Any) -> Any:
    upper = builder.zext(_load(builder, pointer, ir.VectorType(_I16, LANES)), _INTS)
    return builder.bitcast(builder.shl(upper, ir.Constant(_INTS, [16] * LANES)), _FLOATS)


def _emit_box_costs(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Sums column by column and gives up between thirds when no lane is within the limit."""
    arrays = _Arrays(context, builder, signature, arguments)
    query, weights, limit, costs = arrays.data(2), arrays.data(3), arguments[4], arrays.data(5)
    columns = arrays.length(2)
    block = _at(builder, arrays.data(0), arguments[1], columns, 2 * LANES)
    total = cgutils.alloca_once_value(builder, _ZEROS)
    alive = cgutils.alloca_once_value(builder, ir.Constant(_I64, 0))
    third = builder.udiv(builder.add(columns, ir.Constant(_I64, 2)), ir.Constant(_I64, 3))
    done = builder.append_basic_block("done")
    start = ir.Constant(_I64, 0)
    for part in range(3):
        stop = columns if part == 2 else builder.mul(third, ir.Constant(_I64, part + 1))
        stop = builder.select(builder.icmp_unsigned("<", stop, columns), stop, columns)
        with cgutils.for_range_slice(builder, start, stop, ir.Constant(_I64, 1)) as (column, _):
            q = _splat(builder, builder.load(builder.gep(query, [column])))
            w = _splat(builder, builder.load(builder.gep(weights, [column])))
            low = _at(builder, block, column, 2 * LANES)
            inside = _select(builder, ">", q, _widen(builder, low))
            inside = _select(builder, "<", inside, _widen(builder, builder.gep(low, [ir.Constant(_I64, LANES)])))
            d = builder.fsub(q, inside)
            term = builder.fmul(builder.fmul(w, d), d)
            builder.store(builder.fadd(builder.load(total), term), total)
        builder.store(_lanes_within(builder, builder.load(total), limit), alive)
        if part < 2:
            following = builder.append_basic_block("next")
            none_alive = builder.icmp_unsigned("==", builder.load(alive), ir.Constant(_I64, 0))
            builder.cbranch(none_alive, done, following)
            builder.position_at_end(following)
        start = stop
    _store(builder, builder.load(total), costs)
    builder.branch(done)
    builder.position_at_end(done)
    return builder.load(alive)


@intrinsic
def _box_costs(typing: Any, boxes: Any, block: Any, query: Any, weights: Any, limit: Any, costs: Any) -> Any:
    return _signature(boxes, block, query, weights, limit, costs), _emit_box_costs


def box_costs_plain(boxes: Any, block: int, query: F32, weights: F32, limit: Any, costs: F32) -> int:
    """Boxes (blocks, columns, 2, 16) as uint16; leaves lower bounds in `costs`, gives the lanes within the limit."""
    columns = len(query)
    third = (columns + 2) // 3
    total = np.zeros(LANES, np.float32)
    alive = 0
    with np.errstate(all="ignore"):
        for part in range(3):
            stop = columns if part == 2 else min((part + 1) * third, columns)
            for column in range(min(part * third, columns), stop):
                low, high = (boxes[block, column].astype(np.uint32) << 16).view(np.float32)
                d = query[column] - np.minimum(np.maximum(query[column], low), high)
                total += (weights[column] * d) * d
            alive = _mask_plain(total, limit)
            if not alive and part < 2:
                return 0
    costs[:LANES] = total
    return alive


def _mask_plain(costs: F32, limit: Any) -> int:
    return int(((costs <= limit) * (1 << np.arange(LANES))).sum())


# ---- boxes and rows in 8 bits, four columns in one 32-bit sum: for queries within the range of the codes ---------


def _call(builder: Any, name: str, result: Any, *arguments: Any) -> Any:
    function_type = ir.FunctionType(result, [a.type for a in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, function_type, name), arguments)


def _sum_of_four_squares(builder: Any, codes: Any) -> Any:
    """Of each four neighbouring bytes (0 … 127)."""
    if "+avx512vnni" in _FEATURES:
        words = builder.bitcast(codes, _INTS)
        return _call(builder, "llvm.x86.avx512.vpdpbusd.512", _INTS, ir.Constant(_INTS, [0] * LANES), words, words)
    if "+avx2" in _FEATURES:
        return _sum_of_four_squares_avx2(builder, codes)
    total = ir.Constant(_INTS, [0] * LANES)
    for k in range(BYTES):
        every_fourth = ir.Constant(_INTS, [BYTES * lane + k for lane in range(LANES)])
        column = builder.zext(builder.shuffle_vector(codes, codes, every_fourth), _INTS)
        total = builder.add(total, builder.mul(column, column))
    return total


def _sum_of_four_squares_avx2(builder: Any, codes: Any) -> Any:
    half_codes, pairs, sums = ir.VectorType(_I8, 32), ir.VectorType(_I16, 16), ir.VectorType(_I32, 8)
    parts = []
    for half in range(2):
        pick = ir.Constant(ir.VectorType(_I32, 32), list(range(32 * half, 32 * half + 32)))
        part = builder.shuffle_vector(codes, codes, pick)
        part = _call(builder, "llvm.x86.avx2.pmadd.ub.sw", pairs, part, part)
        parts.append(_call(builder, "llvm.x86.avx2.pmadd.wd", sums, part, ir.Constant(pairs, [1] * 16)))
    assert half_codes.count == 32
    return builder.shuffle_vector(*parts, ir.Constant(_INTS, list(range(LANES))))


def _emit_code_costs(of_rows: bool) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = _Arrays(context, builder, signature, arguments)
        query, weights, limit, costs = arrays.data(2), arrays.data(3), arguments[4], arrays.data(5)
        groups = arrays.length(3)
        size = LANES * BYTES * (1 if of_rows else 2)
        block = _at(builder, arrays.data(0), arguments[1], groups, size)
        total = cgutils.alloca_once_value(builder, _ZEROS)
        cap = ir.Constant(_CODES, [MAX_CODE_DISTANCE] * LANES * BYTES)

        def query_codes(row: int, group: Any) -> Any:
            at = builder.add(builder.mul(ir.Constant(_I64, row), groups), group)
            four = _load(builder, _at(builder, query, at, BYTES), _I32)
            return builder.bitcast(_splat(builder, four), _CODES)

        with cgutils.for_range(builder, groups) as loop:
            low = _at(builder, block, loop.index, size)
            high = low if of_rows else builder.gep(low, [ir.Constant(_I64, LANES * BYTES)])
            low, high = _load(builder, low, _CODES), _load(builder, high, _CODES)
            below = _call(builder, "llvm.usub.sat.v64i8", _CODES, low, query_codes(CEILING, loop.index))
            floor = query_codes(FLOOR_LESS_ONE if of_rows else FLOOR, loop.index)
            above = _call(builder, "llvm.usub.sat.v64i8", _CODES, floor, high)
            d = builder.and_(builder.or_(below, above), query_codes(KEEP, loop.index))
            d = builder.select(builder.icmp_unsigned("<", d, cap), d, cap)
            squares = builder.uitofp(_sum_of_four_squares(builder, d), _FLOATS)
            w = _splat(builder, builder.load(builder.gep(weights, [loop.index])))
            builder.store(builder.fadd(builder.load(total), builder.fmul(w, squares)), total)
        _store(builder, builder.load(total), costs)
        return _lanes_within(builder, builder.load(total), limit)

    return codegen


# rows of a query in codes
FLOOR, CEILING, FLOOR_LESS_ONE, KEEP = range(4)


@intrinsic
def _code_box_costs(typing: Any, codes: Any, block: Any, query: Any, weights: Any, limit: Any, costs: Any) -> Any:
    return _signature(codes, block, query, weights, limit, costs), _emit_code_costs(of_rows=False)


@intrinsic
def _code_row_costs(typing: Any, codes: Any, leaf: Any, query: Any, weights: Any, limit: Any, costs: Any) -> Any:
    return _signature(codes, leaf, query, weights, limit, costs), _emit_code_costs(of_rows=True)


def code_box_costs_plain(codes: Any, block: int, query: Any, weights: F32, limit: Any, costs: F32) -> int:
    """Codes (blocks, groups, 2, 64); query (4 · groups · 4) as FLOOR, CEILING, FLOOR_LESS_ONE, KEEP; weights (groups,)."""
    low, high = codes[block, :, 0], codes[block, :, 1]
    return _code_costs_plain(low, high, query, FLOOR, weights, limit, costs)


def code_row_costs_plain(codes: Any, leaf: int, query: Any, weights: F32, limit: Any, costs: F32) -> int:
    """Codes (leaves, groups, 64): each row lies between its code and its code + 1."""
    return _code_costs_plain(codes[leaf], codes[leaf], query, FLOOR_LESS_ONE, weights, limit, costs)


def _code_costs_plain(low: Any, high: Any, query: Any, floor: int, weights: F32, limit: Any, costs: F32) -> int:
    groups = len(weights)
    codes = query[: 4 * groups * BYTES].reshape(4, groups, 1, BYTES).astype(np.int32)
    low, high = (v.reshape(groups, LANES, BYTES).astype(np.int32) for v in (low, high))
    d = np.maximum(np.maximum(low - codes[CEILING], codes[floor] - high), 0) & codes[KEEP]
    squares = (np.minimum(d, MAX_CODE_DISTANCE) ** 2).sum(axis=2)
    total = np.zeros(LANES, np.float32)
    for group in range(groups):
        total += weights[group] * squares[group].astype(np.float32)
    costs[:LANES] = total
    return _mask_plain(total, limit)


# ---- small things ------------------------------------------------------------------------------------------------


@intrinsic
def _lowest_bit(typing: Any, bits: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen


def lowest_bit_plain(bits: int) -> int:
    return int(bits & -bits).bit_length() - 1


def _local_array(dtype: Any) -> Any:
    """An array of SCRATCH entries on the stack of the function that asks: the heap would cost 40 ns each."""

    @intrinsic
    def local(typing: Any) -> Any:
        array = types.Array(dtype, 1, "C")

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            element = context.get_data_type(dtype)
            data = cgutils.alloca_once(builder, ir.ArrayType(element, SCRATCH))
            made = context.make_array(array)(context, builder)
            itemsize = ir.Constant(_I64, dtype.bitwidth // 8)
            populate_array(
                made,
                data=builder.bitcast(data, element.as_pointer()),
                shape=[ir.Constant(_I64, SCRATCH)],
                strides=[itemsize],
                itemsize=itemsize,
                meminfo=None,
            )
            return made._getvalue()

        return array(), codegen

    return local


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
    raw = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(int(address))
    return np.frombuffer(raw, dtype).reshape(shape)


if COMPILED:
    box_costs, code_box_costs, code_row_costs, lowest_bit = _box_costs, _code_box_costs, _code_row_costs, _lowest_bit
    local_floats, local_bytes, local_ints = _local_array(types.float32), _local_array(types.uint8), _local_array(types.int64)

    @numba.njit(inline="always")
    def array_at(address: int, shape: Any, dtype: Any) -> Any:
        return numba.carray(_pointer(address), shape, dtype)

else:
    box_costs, code_box_costs, code_row_costs = box_costs_plain, code_box_costs_plain, code_row_costs_plain
    lowest_bit, array_at = lowest_bit_plain, array_at_plain

    def local_floats() -> F32:
        return np.empty(SCRATCH, np.float32)

    def local_bytes() -> Any:
        return np.empty(SCRATCH, np.uint8)

    def local_ints() -> Any:
        return np.empty(SCRATCH, np.int64)
