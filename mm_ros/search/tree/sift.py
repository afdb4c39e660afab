"""Compare a query with 16 boxes or 16 frames at once, and append those that may cost less than a limit to a list.

The comparison uses 16-bit codes (see codes.py) and has no conditional branches, so that the CPU cannot mispredict them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from mm_ros.search.tree.codes import MAX_COLUMNS, PAIR, STEP
from mm_ros.search.tree.simd import (
    COMPILED,
    CPU_FEATURES,
    FLOATS,
    I1,
    I16,
    I32,
    I64,
    INTS,
    LANES,
    Arrays,
    call,
    constant,
    load,
    offset,
    splat,
    store,
)

WORDS = PAIR * LANES
_WORDS = ir.VectorType(I16, WORDS)
NO_LIMIT = 2**31 - 1


def _sum_of_two_products(builder: Any, a: Any, b: Any) -> Any:
    """Return a0 · b0 + a1 · b1 for each pair of adjacent 16-bit words, whose values must be below 2^15."""
    if "avx512bw" in CPU_FEATURES:
        return call(builder, "llvm.x86.avx512.pmaddw.d.512", INTS, a, b)
    if "avx2" in CPU_FEATURES:
        halves = []
        for half in range(2):
            pick = ir.Constant(INTS, [LANES * half + i for i in range(LANES)])
            parts = [builder.shuffle_vector(v, v, pick) for v in (a, b)]
            halves.append(call(builder, "llvm.x86.avx2.pmadd.wd", ir.VectorType(I32, LANES // 2), *parts))
        return builder.shuffle_vector(*halves, ir.Constant(INTS, list(range(LANES))))
    (low_a, high_a), (low_b, high_b) = (_columns(builder, v) for v in (a, b))
    return builder.add(builder.mul(low_a, low_b), builder.mul(high_a, high_b))


def _columns(builder: Any, words: Any) -> tuple[Any, Any]:
    pairs = builder.bitcast(words, INTS)
    return builder.and_(pairs, constant(I32, 0xFFFF)), builder.lshr(pairs, constant(I32, 16))


def _share(builder: Any, a: Any, factor: Any) -> Any:
    """a · factor / 65536, rounded down."""
    wide = ir.VectorType(I32, WORDS)
    product = builder.mul(builder.zext(a, wide), builder.zext(factor, wide))
    return builder.trunc(builder.lshr(product, constant(I32, 16, WORDS)), _WORDS)


def _append(builder: Any, alive: Any, first: Any, totals: Any, ids: Any, costs: Any, count: Any) -> Any:
    """Append each box or frame whose bit in `alive` is 1 to the lists `ids` and `costs`.

    Up to 16 entries after the end of the lists `ids` and `costs` may be overwritten.
    """
    lanes = ir.Constant(INTS, list(range(LANES)))
    numbers = builder.add(splat(builder, builder.trunc(first, I32)), lanes)
    ids, costs = builder.gep(ids, [count]), builder.gep(costs, [count])
    if "avx512f" in CPU_FEATURES:
        mask = builder.bitcast(alive, ir.VectorType(I1, LANES))
        for values, target in ((numbers, ids), (totals, costs)):
            packed = call(builder, "llvm.x86.avx512.mask.compress.v16i32", INTS, values, constant(I32, 0), mask)
            store(builder, packed, target)
    else:
        to = cgutils.alloca_once_value(builder, ir.Constant(I64, 0))
        for lane in range(LANES):  # the next entry overwrites the entry of a box or frame that is not selected
            here = builder.load(to)
            for values, target in ((numbers, ids), (totals, costs)):
                builder.store(builder.extract_element(values, ir.Constant(I32, lane)), builder.gep(target, [here]))
            bit = builder.and_(builder.lshr(alive, ir.Constant(I16, lane)), ir.Constant(I16, 1))
            builder.store(builder.add(here, builder.zext(bit, I64)), to)
    return builder.add(count, builder.zext(builder.ctpop(alive), I64))


def _emit_sift(of_rows: bool, in_floats: bool) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = Arrays(context, builder, signature, arguments)
        codes, query, more = arrays.data(0), arrays.data(2), 2 if in_floats else 0
        pairs, limit, lanes, first = arguments[3 + more : 7 + more]
        ids, costs, count = arrays.data(7 + more), arrays.data(8 + more), arguments[9 + more]
        size = WORDS * (1 if of_rows else 2)
        node = offset(builder, codes, arguments[1], pairs, size)
        one = constant(I16, 1, WORDS)

        def of_query(column: Any) -> Any:
            pair = load(builder, builder.gep(query, [column]), I32)
            return builder.bitcast(splat(builder, pair), _WORDS)

        def outside(pair: Any) -> Any:
            """Return the distance in codes from the query to each of 16 boxes or frames, in two feature columns."""
            low = offset(builder, node, pair, size)
            high = low if of_rows else builder.gep(low, [ir.Constant(I64, WORDS)])
            floor = of_query(builder.mul(pair, ir.Constant(I64, PAIR)))
            below = call(builder, "llvm.usub.sat.v32i16", _WORDS, load(builder, low, _WORDS), builder.add(floor, one))
            if of_rows:
                floor = call(builder, "llvm.usub.sat.v32i16", _WORDS, floor, one)
            above = call(builder, "llvm.usub.sat.v32i16", _WORDS, floor, load(builder, high, _WORDS))
            return builder.or_(below, above)

        def in_whole(pair: Any) -> Any:
            d = outside(pair)
            factor = of_query(builder.add(builder.mul(pair, ir.Constant(I64, PAIR)), ir.Constant(I64, MAX_COLUMNS)))
            return _sum_of_two_products(builder, d, _share(builder, d, factor))

        def in_float(pair: Any) -> Any:
            total = None
            for k, distance in enumerate(_columns(builder, outside(pair))):
                column = builder.add(builder.mul(pair, ir.Constant(I64, PAIR)), ir.Constant(I64, k))
                line, square = (splat(builder, builder.load(builder.gep(arrays.data(i), [column]))) for i in (3, 4))
                d = builder.sitofp(distance, FLOATS)
                term = builder.fmul(builder.fadd(line, builder.fmul(square, d)), d)
                total = term if total is None else builder.fadd(total, term)
            return total

        kind, term_of, add = (FLOATS, in_float, builder.fadd) if in_floats else (INTS, in_whole, builder.add)
        sums = [cgutils.alloca_once_value(builder, ir.Constant(kind, [0] * LANES)) for _ in range(STEP // PAIR)]
        with cgutils.for_range_slice(builder, ir.Constant(I64, 0), pairs, ir.Constant(I64, STEP // PAIR)) as (pair, _):
            for i, part in enumerate(sums):  # two sums of costs, which the CPU computes in parallel
                here = builder.add(pair, ir.Constant(I64, i))
                builder.store(add(builder.load(part), term_of(here)), part)
        total = add(*(builder.load(part) for part in sums))
        if in_floats:
            total = builder.fptosi(total, INTS)
        within = builder.bitcast(builder.icmp_signed("<=", total, splat(builder, limit)), I16)
        return _append(builder, builder.and_(within, builder.trunc(lanes, I16)), first, total, ids, costs, count)

    return codegen


def _sift_in_whole(of_rows: bool) -> Any:
    @intrinsic
    def sift(
        typing: Any, codes: Any, node: Any, query: Any, pairs: Any, limit: Any, lanes: Any, first: Any,
        ids: Any, costs: Any, count: Any,
    ) -> Any:  # fmt: skip
        whole = types.int64
        arguments = (codes, whole, query, whole, types.int32, whole, whole, ids, costs, whole)
        return whole(*arguments), _emit_sift(of_rows, in_floats=False)

    return sift


def _sift_in_floats(of_rows: bool) -> Any:
    @intrinsic
    def sift(
        typing: Any, codes: Any, node: Any, query: Any, line: Any, square: Any, pairs: Any, limit: Any, lanes: Any,
        first: Any, ids: Any, costs: Any, count: Any,
    ) -> Any:  # fmt: skip
        whole = types.int64
        arguments = (codes, whole, query, line, square, whole, types.int32, whole, whole, ids, costs, whole)
        return whole(*arguments), _emit_sift(of_rows, in_floats=True)

    return sift


def _outside_plain(codes: Any, node: int, query: Any, pairs: int, of_rows: bool) -> Any:
    floor = query[: pairs * PAIR].reshape(pairs, 1, PAIR).astype(np.int32)
    low, high = (codes[node], codes[node]) if of_rows else (codes[node, :, 0], codes[node, :, 1])
    low, high = (v.reshape(pairs, LANES, PAIR).astype(np.int32) for v in (low, high))
    d = np.maximum(low - floor - 1, 0) | np.maximum(np.maximum(floor - of_rows, 0) - high, 0)
    return d.transpose(0, 2, 1).reshape(pairs * PAIR, LANES)


def _append_plain(totals: Any, limit: Any, lanes: int, first: int, ids: Any, costs: Any, count: int) -> int:
    alive = np.flatnonzero((totals <= limit) & ((int(lanes) >> np.arange(LANES)) & 1 == 1))
    stop = count + len(alive)
    ids[count:stop], costs[count:stop] = first + alive, totals[alive]
    return int(stop)


def _plain(of_rows: bool) -> Any:
    def sift(codes: Any, node: int, query: Any, pairs: int, *rest: Any) -> int:
        d = _outside_plain(codes, node, query, pairs, of_rows)
        factor = query[MAX_COLUMNS : MAX_COLUMNS + len(d), None].astype(np.int64)
        return _append_plain((d * (d * factor >> 16)).sum(axis=0), *rest)

    return sift


def _plain_in_floats(of_rows: bool) -> Any:
    def sift(codes: Any, node: int, query: Any, line: Any, square: Any, pairs: int, *rest: Any) -> int:
        d = _outside_plain(codes, node, query, pairs, of_rows).astype(np.float32)
        terms = (line[: len(d), None] + square[: len(d), None] * d) * d
        sums = np.zeros((STEP // PAIR, LANES), np.float32)
        for pair in range(pairs):
            sums[pair % len(sums)] += terms[2 * pair] + terms[2 * pair + 1]
        return _append_plain(sums.sum(axis=0).astype(np.int32), *rest)

    return sift


_kind, _kind_in_floats = (_sift_in_whole, _sift_in_floats) if COMPILED else (_plain, _plain_in_floats)
sift_boxes, sift_rows = _kind(of_rows=False), _kind(of_rows=True)
sift_boxes_in_floats, sift_rows_in_floats = _kind_in_floats(of_rows=False), _kind_in_floats(of_rows=True)
