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
MAX_CODE_DISTANCE = 127  # of one factor: the products of bytes are signed on one side
MAX_COLUMNS = 128
CODE_ROWS = 5  # of a query, each MAX_COLUMNS long
SCRATCH = CODE_ROWS * MAX_COLUMNS  # entries of a local array
# Views of views of arrays that nobody frees meanwhile: counting references to them took longer than the search.
LEAN = {"_nrt": False}
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


def _sum_of_four_products(builder: Any, a: Any, b: Any) -> Any:
    """Of each four neighbouring bytes: 0 … 255 in a, 0 … 127 in b."""
    if "+avx512vnni" in _FEATURES:
        words = (builder.bitcast(a, _INTS), builder.bitcast(b, _INTS))
        return _call(builder, "llvm.x86.avx512.vpdpbusd.512", _INTS, ir.Constant(_INTS, [0] * LANES), *words)
    if "+avx2" in _FEATURES:
        return _sum_of_four_products_avx2(builder, a, b)
    total = ir.Constant(_INTS, [0] * LANES)
    for k in range(BYTES):
        every_fourth = ir.Constant(_INTS, [BYTES * lane + k for lane in range(LANES)])
        columns = [builder.zext(builder.shuffle_vector(v, v, every_fourth), _INTS) for v in (a, b)]
        total = builder.add(total, builder.mul(*columns))
    return total


def _sum_of_four_products_avx2(builder: Any, a: Any, b: Any) -> Any:
    """Even and odd bytes apart: the sum of two such products would not fit the instruction's 16 bits."""
    bytes_, pairs, sums = ir.VectorType(_I8, 32), ir.VectorType(_I16, 16), ir.VectorType(_I32, 8)
    parts = []
    for half in range(2):
        pick = ir.Constant(ir.VectorType(_I32, 32), list(range(32 * half, 32 * half + 32)))
        left, right = (builder.shuffle_vector(v, v, pick) for v in (a, b))
        part = ir.Constant(sums, [0] * 8)
        for odd in range(2):
            mask = ir.Constant(bytes_, [255 * (i % 2 == odd) for i in range(32)])
            products = _call(builder, "llvm.x86.avx2.pmadd.ub.sw", pairs, builder.and_(left, mask), right)
            ones = ir.Constant(pairs, [1] * 16)
            part = builder.add(part, _call(builder, "llvm.x86.avx2.pmadd.wd", sums, products, ones))
        parts.append(part)
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
            row_at = builder.gep(query, [ir.Constant(_I64, row * MAX_COLUMNS)])
            four = _load(builder, _at(builder, row_at, group, BYTES), _I32)
            return builder.bitcast(_splat(builder, four), _CODES)

        with cgutils.for_range(builder, groups) as loop:
            low = _at(builder, block, loop.index, size)
            high = low if of_rows else builder.gep(low, [ir.Constant(_I64, LANES * BYTES)])
            low, high = _load(builder, low, _CODES), _load(builder, high, _CODES)
            below = _call(builder, "llvm.usub.sat.v64i8", _CODES, low, query_codes(CEILING, loop.index))
            floor = query_codes(FLOOR_LESS_ONE if of_rows else FLOOR, loop.index)
            above = _call(builder, "llvm.usub.sat.v64i8", _CODES, floor, high)
            d = builder.and_(builder.or_(below, above), query_codes(KEEP, loop.index))
            capped = builder.select(builder.icmp_unsigned("<", d, cap), d, cap)
            squares = _sum_of_four_products(builder, d, capped)
            crossed = _sum_of_four_products(builder, d, query_codes(BEYOND_QUARTER, loop.index))
            crossed = builder.shl(crossed, ir.Constant(_INTS, [3] * LANES))  # (a + d)² ≥ a² + 2 a d + d², a in quarters
            squares = builder.uitofp(builder.add(squares, crossed), _FLOATS)
            w = _splat(builder, builder.load(builder.gep(weights, [loop.index])))
            builder.store(builder.fadd(builder.load(total), builder.fmul(w, squares)), total)
        _store(builder, builder.load(total), costs)
        return _lanes_within(builder, builder.load(total), limit)

    return codegen


# rows of a query in codes
FLOOR, CEILING, FLOOR_LESS_ONE, KEEP, BEYOND_QUARTER = range(5)


@intrinsic
def _code_box_costs(typing: Any, codes: Any, block: Any, query: Any, weights: Any, limit: Any, costs: Any) -> Any:
    return _signature(codes, block, query, weights, limit, costs), _emit_code_costs(of_rows=False)


@intrinsic
def _code_row_costs(typing: Any, codes: Any, leaf: Any, query: Any, weights: Any, limit: Any, costs: Any) -> Any:
    return _signature(codes, leaf, query, weights, limit, costs), _emit_code_costs(of_rows=True)


def code_box_costs_plain(codes: Any, block: int, query: Any, weights: F32, limit: Any, costs: F32) -> int:
    """Codes (blocks, groups, 2, 64); a query's rows FLOOR … BEYOND_QUARTER; weights (groups,)."""
    low, high = codes[block, :, 0], codes[block, :, 1]
    return _code_costs_plain(low, high, query, FLOOR, weights, limit, costs)


def code_row_costs_plain(codes: Any, leaf: int, query: Any, weights: F32, limit: Any, costs: F32) -> int:
    """Codes (leaves, groups, 64): each row lies between its code and its code + 1."""
    return _code_costs_plain(codes[leaf], codes[leaf], query, FLOOR_LESS_ONE, weights, limit, costs)


def _code_costs_plain(low: Any, high: Any, query: Any, floor: int, weights: F32, limit: Any, costs: F32) -> int:
    groups = len(weights)
    rows = query.reshape(CODE_ROWS, MAX_COLUMNS)[:, : groups * BYTES]
    codes = rows.reshape(CODE_ROWS, groups, 1, BYTES).astype(np.int32)
    low, high = (v.reshape(groups, LANES, BYTES).astype(np.int32) for v in (low, high))
    d = np.maximum(np.maximum(low - codes[CEILING], codes[floor] - high), 0) & codes[KEEP]
    squares = (d * np.minimum(d, MAX_CODE_DISTANCE) + 8 * d * codes[BEYOND_QUARTER]).sum(axis=2)
    total = np.zeros(LANES, np.float32)
    for group in range(groups):
        total += weights[group] * squares[group].astype(np.float32)
    costs[:LANES] = total
    return _mask_plain(total, limit)


# ---- a query in codes ---------------------------------------------------------------------------------------------

MARGIN = 0.01  # codes; more than float32 rounds away within the range
LAST_CODE = 255
_BEYOND_MARGIN = 0.1
_LOST_CODES = 4.0
BAD_NUMBER, UNEVEN, FAR = 1, 2, 4  # what `encode16` finds: NaN, infinite or negative; weights differ; beyond is capped


def _constant(value: float) -> Any:
    return ir.Constant(_FLOATS, [float(np.float32(value))] * LANES)


def _emit_encode(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    arrays = _Arrays(context, builder, signature, arguments)
    first, codes = arguments[0], arrays.data(5)
    inputs = (_load(builder, builder.gep(arrays.data(i), [first]), _FLOATS) for i in (1, 2, 3, 4, 8, 9))
    base, per_unit, q, w, closed_below, closed_above = inputs
    zero = _ZEROS

    def anywhere(lanes: Any) -> Any:
        return builder.icmp_unsigned("!=", builder.bitcast(lanes, ir.IntType(LANES)), ir.Constant(ir.IntType(LANES), 0))

    def put(row: int, values: Any) -> None:
        at = builder.add(ir.Constant(_I64, row * MAX_COLUMNS), first)
        _store(builder, builder.trunc(values, ir.VectorType(_I8, LANES)), builder.gep(codes, [at]))

    def whole(values: Any) -> Any:
        return builder.fptosi(values, _INTS)

    def shifted(values: Any, step: int) -> Any:
        return builder.shuffle_vector(values, values, ir.Constant(_INTS, [lane ^ step for lane in range(LANES)]))

    finite = builder.fcmp_ordered("==", builder.fsub(q, q), zero)
    weighs = builder.and_(builder.fcmp_ordered(">=", w, zero), builder.fcmp_ordered("==", builder.fsub(w, w), zero))
    bad = anywhere(builder.not_(builder.and_(finite, weighs)))
    keep = builder.fcmp_ordered(">", w, zero)
    at = builder.fmul(builder.fsub(q, base), per_unit)
    at = builder.select(keep, at, zero)
    last = _constant(LAST_CODE)
    inside = _select(builder, "<", _select(builder, ">", at, zero), last)
    # Clamped first: converting a number that no int32 can hold is undefined.
    below, above = builder.fsub(zero, at), builder.fsub(at, last)
    outside = _select(builder, ">", below, above)
    below, above = builder.fmul(below, closed_below), builder.fmul(above, closed_above)
    beyond = builder.fsub(_select(builder, ">", below, above), _constant(_BEYOND_MARGIN))
    beyond = _select(builder, ">", beyond, zero)
    quarter = builder.fmul(beyond, _constant(0.25))
    capped = builder.fcmp_ordered(">", quarter, _constant(MAX_CODE_DISTANCE))
    lost = builder.fcmp_ordered(">", builder.fsub(outside, beyond), _constant(_LOST_CODES))
    far = anywhere(builder.or_(capped, lost))
    put(BEYOND_QUARTER, whole(_select(builder, "<", quarter, _constant(MAX_CODE_DISTANCE))))
    low = whole(_select(builder, ">", builder.fsub(inside, _constant(MARGIN)), zero))
    ones, lasts = ir.Constant(_INTS, [1] * LANES), ir.Constant(_INTS, [LAST_CODE] * LANES)
    none = ir.Constant(_INTS, [0] * LANES)
    high = builder.add(whole(builder.fadd(inside, _constant(MARGIN))), ones)
    put(FLOOR, low)
    put(CEILING, builder.select(builder.icmp_signed("<", high, lasts), high, lasts))
    less = builder.sub(low, ones)
    put(FLOOR_LESS_ONE, builder.select(builder.icmp_signed(">", less, none), less, none))
    put(KEEP, builder.select(keep, lasts, none))
    scale = builder.fmul(per_unit, per_unit)
    in_codes = builder.fdiv(w, scale)
    smallest = builder.select(keep, in_codes, _constant(np.inf))
    smallest = _select(builder, "<", smallest, shifted(smallest, 1))
    smallest = _select(builder, "<", smallest, shifted(smallest, 2))
    uneven = anywhere(builder.and_(keep, builder.fcmp_ordered(">", in_codes, builder.fmul(_constant(2), smallest))))
    _store(builder, smallest, builder.gep(arrays.data(6), [first]))
    beyond_cost = builder.fdiv(builder.fmul(builder.fmul(w, beyond), beyond), scale)
    _store(builder, beyond_cost, builder.gep(arrays.data(7), [first]))
    found = ir.Constant(_I64, 0)
    for bit, condition in ((BAD_NUMBER, bad), (UNEVEN, uneven), (FAR, far)):
        flag = builder.select(condition, ir.Constant(_I64, bit), ir.Constant(_I64, 0))
        found = builder.or_(found, flag)
    return found


@intrinsic
def _encode16(
    typing: Any, first: Any, base: Any, per_unit: Any, query: Any, weights: Any, codes: Any,
    smallest: Any, beyond: Any, closed_below: Any, closed_above: Any,
) -> Any:  # fmt: skip
    arguments = (types.int64, base, per_unit, query, weights, codes, smallest, beyond, closed_below, closed_above)
    return types.int64(*arguments), _emit_encode


def encode16_plain(
    first: int, base: F32, per_unit: F32, query: F32, weights: F32, codes: Any,
    smallest: F32, beyond: F32, closed_below: F32, closed_above: F32,
) -> int:  # fmt: skip
    """16 columns from `first`: rows FLOOR … BEYOND_QUARTER of `codes`, the smallest weight of each
    group of four in units of codes, and what the part beyond the range costs at least; gives what is wrong, as bits.

    The part beyond counts only on a side that no frame lies beyond (`closed` is 1, else 0): there it is between the
    query and every frame."""
    part = slice(first, first + LANES)
    q, w, per = query[part], weights[part], per_unit[part]
    bad = not (np.isfinite(q).all() and np.isfinite(w).all() and (w >= 0).all())
    keep = w > 0
    f = np.float32
    with np.errstate(all="ignore"):
        code = np.where(keep, (q - base[part]) * per, f(0))
        inside = np.minimum(np.maximum(code, f(0)), f(LAST_CODE))
        outside = np.maximum(-code, code - f(LAST_CODE))
        out = np.fmax(-code * closed_below[part], (code - f(LAST_CODE)) * closed_above[part]) - f(_BEYOND_MARGIN)
        out = np.fmax(out, f(0))
        quarter = out * f(0.25)
        low = np.maximum(inside - f(MARGIN), f(0)).astype(np.int32)
        high = np.minimum((inside + f(MARGIN)).astype(np.int32) + 1, LAST_CODE)
        capped = np.minimum(quarter, f(MAX_CODE_DISTANCE))
        rows = (low, high, np.maximum(low - 1, 0), np.where(keep, LAST_CODE, 0), np.nan_to_num(capped))
        for row, values in enumerate(rows):
            at = row * MAX_COLUMNS + first
            codes[at : at + LANES] = values.astype(np.uint8)
        in_codes = w / (per * per)
        least = np.where(keep, in_codes, f(np.inf)).reshape(-1, BYTES).min(axis=1).repeat(BYTES)
        smallest[part] = least
        beyond[part] = (w * out) * out / (per * per)
        uneven = (keep & (in_codes > f(2) * least)).any()
    far = ((quarter > MAX_CODE_DISTANCE) | (outside - out > _LOST_CODES)).any()
    return BAD_NUMBER * bad + UNEVEN * int(uneven) + FAR * int(far)


# ---- small things ------------------------------------------------------------------------------------------------


@intrinsic
def _tag_lanes(typing: Any, tags: Any, first: Any, all_of: Any, any_of: Any, none_of: Any) -> Any:
    words = ir.VectorType(_I64, LANES)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        loaded = _load(builder, builder.gep(data, [arguments[1]]), words)
        all_of, any_of, none_of = (_splat(builder, bits) for bits in arguments[2:])
        zero = ir.Constant(words, [0] * LANES)
        every = builder.icmp_unsigned("==", builder.and_(loaded, all_of), all_of)
        free = builder.icmp_unsigned("==", builder.and_(loaded, none_of), zero)
        some = builder.icmp_unsigned("!=", builder.and_(loaded, any_of), zero)
        some = builder.or_(some, builder.icmp_unsigned("==", any_of, zero))
        lanes = builder.and_(builder.and_(every, free), some)
        return builder.zext(builder.bitcast(lanes, ir.IntType(LANES)), _I64)

    return types.int64(tags, types.int64, types.uint64, types.uint64, types.uint64), codegen


def tag_lanes_plain(tags: Any, first: int, all_of: Any, any_of: Any, none_of: Any) -> int:
    """Which of 16 frames from `first` have all bits of the one, some of the other (0: no matter), none of the third."""
    here = tags[first : first + LANES]
    wanted = ((here & all_of) == all_of) & ((here & none_of) == 0) & (((here & any_of) != 0) | (any_of == 0))
    return int((wanted * (1 << np.arange(LANES))).sum())


@intrinsic
def _lowest_bit(typing: Any, bits: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen


def lowest_bit_plain(bits: int) -> int:
    return int(bits & -bits).bit_length() - 1


@intrinsic
def _prefetch(typing: Any, array: Any, index: Any) -> Any:
    """Asks for array[index], all its cache lines, and does not wait."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = context.make_array(signature.args[0])(context, builder, arguments[0])
        size = cgutils.unpack_tuple(builder, made.strides)[0]
        data = builder.gep(builder.bitcast(made.data, cgutils.voidptr_t), [builder.mul(arguments[1], size)])
        flags = [ir.Constant(_I32, v) for v in (0, 3, 1)]  # read, keep in all caches, data
        with cgutils.for_range_slice(builder, ir.Constant(_I64, 0), size, ir.Constant(_I64, 64)) as (offset, _):
            _call(builder, "llvm.prefetch.p0", ir.VoidType(), builder.gep(data, [offset]), *flags)
        return context.get_dummy_value()

    return types.none(array, types.int64), codegen


@intrinsic
def _lanes_within_limit(typing: Any, costs: Any, at: Any, limit: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return _lanes_within(builder, _load(builder, builder.gep(data, [arguments[1]]), _FLOATS), arguments[2])

    return types.int64(costs, types.int64, types.float32), codegen


def lanes_within_limit_plain(costs: F32, at: int, limit: Any) -> int:
    return _mask_plain(costs[at : at + LANES], limit)


@intrinsic
def _nearest(typing: Any, costs: Any, at: Any, alive: Any, limit: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        # Floats that are not negative are in the order of their bits.
        loaded = _load(builder, builder.gep(data, [arguments[1]]), _INTS)
        lanes = builder.bitcast(builder.trunc(arguments[2], ir.IntType(LANES)), ir.VectorType(ir.IntType(1), LANES))
        loaded = builder.select(lanes, loaded, ir.Constant(_INTS, [0x7FFFFFFF] * LANES))
        least = _call(builder, "llvm.vector.reduce.umin.v16i32", _I32, loaded)
        equal = builder.bitcast(builder.icmp_unsigned("==", loaded, _splat(builder, least)), ir.IntType(LANES))
        lane = builder.cttz(builder.zext(equal, _I64), ir.Constant(ir.IntType(1), 1))
        within = builder.fcmp_ordered("<=", builder.bitcast(least, _F), arguments[3])
        return builder.select(within, lane, ir.Constant(_I64, -1))

    return types.int64(costs, types.int64, types.int64, types.float32), codegen


def nearest_plain(costs: F32, at: int, alive: int, limit: Any) -> int:
    """The lane of least cost among the 16 from `at` that are alive; -1 when none is within the limit."""
    lanes = (int(alive) >> np.arange(LANES)) & 1
    here = np.where(lanes == 1, costs[at : at + LANES], np.float32(np.inf))
    lane = int(np.argmin(here))
    return lane if alive and here[lane] <= limit else -1


def _make_array(context: Any, builder: Any, array: Any, pointer: Any, lengths: Any) -> Any:
    """A C-contiguous numba array over memory that others own."""
    made = context.make_array(array)(context, builder)
    itemsize = ir.Constant(_I64, array.dtype.bitwidth // 8)
    strides = [itemsize]
    for length in lengths[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    populate_array(made, data=pointer, shape=lengths, strides=strides, itemsize=itemsize, meminfo=None)
    return made._getvalue()


def _local_array(dtype: Any) -> Any:
    """An array of SCRATCH entries on the stack of the function that asks: the heap would cost 40 ns each."""

    @intrinsic
    def local(typing: Any) -> Any:
        array = types.Array(dtype, 1, "C")

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            element = context.get_data_type(dtype)
            with builder.goto_entry_block():  # cgutils.alloca_once would also clear it, at every call
                data = builder.alloca(ir.ArrayType(element, SCRATCH))
            pointer = builder.bitcast(data, element.as_pointer())
            return _make_array(context, builder, array, pointer, [ir.Constant(_I64, SCRATCH)])

        return array(), codegen

    return local


@intrinsic
def _array_at(typing: Any, address: Any, shape: Any, dtype: Any) -> Any:
    array = types.Array(dtype.dtype, len(shape), "C")

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lengths = [
            context.cast(builder, value, kind, types.int64)
            for value, kind in zip(cgutils.unpack_tuple(builder, arguments[1]), signature.args[1], strict=True)
        ]
        pointer = builder.inttoptr(arguments[0], context.get_data_type(array.dtype).as_pointer())
        return _make_array(context, builder, array, pointer, lengths)

    return array(types.int64, shape, dtype), codegen


def array_at_plain(address: int, shape: Any, dtype: Any) -> Any:
    """The array that lives at an address. The caller keeps its owner alive."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape))
    if not count:
        return np.zeros(shape, dtype)
    raw = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(int(address))
    return np.frombuffer(raw, dtype).reshape(shape)


if COMPILED:
    box_costs, code_box_costs, code_row_costs = _box_costs, _code_box_costs, _code_row_costs
    encode16, lowest_bit, nearest, prefetch, tag_lanes = _encode16, _lowest_bit, _nearest, _prefetch, _tag_lanes
    lanes_within_limit = _lanes_within_limit
    local_floats, local_bytes = _local_array(types.float32), _local_array(types.uint8)
    local_ints = _local_array(types.int64)
    array_at = _array_at

else:
    box_costs, code_box_costs, code_row_costs = box_costs_plain, code_box_costs_plain, code_row_costs_plain
    encode16, nearest, array_at = encode16_plain, nearest_plain, array_at_plain
    lowest_bit, lanes_within_limit = lowest_bit_plain, lanes_within_limit_plain

    tag_lanes = tag_lanes_plain

    def prefetch(array: Any, index: int) -> None:
        pass

    def local_floats() -> F32:
        return np.empty(SCRATCH, np.float32)

    def local_bytes() -> Any:
        return np.empty(SCRATCH, np.uint8)

    def local_ints() -> Any:
        return np.empty(SCRATCH, np.int64)
