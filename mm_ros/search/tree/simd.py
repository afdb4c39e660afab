"""Functions in LLVM code (numba intrinsics) that process 16 numbers at once, or that numba compiles inefficiently.

Each intrinsic has an equivalent Python function with bit-identical results for `NUMBA_DISABLE_JIT=1`. The LLVM code has
no fast-math flags, so LLVM does not change the order of additions. This module uses internal names of numba, which were
checked with numba 0.68.
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
from numba.np.numpy_support import from_dtype

LANES = 16
SCRATCH = 128  # default number of entries of an array on the stack
# Option that disables numba's reference counts of arrays, because counting took longer than the search.
LEAN = {"_nrt": False}
COMPILED = not numba.config.DISABLE_JIT
GUARDED = bool(numba.config.BOUNDSCHECK)  # whether numba checks array indices; if so, the search checks node numbers

F, D, I1, I16, I32, I64 = ir.FloatType(), ir.DoubleType(), *(ir.IntType(bits) for bits in (1, 16, 32, 64))
FLOATS, INTS = ir.VectorType(F, LANES), ir.VectorType(I32, LANES)


def _cpu_features() -> str:
    if numba.config.CPU_FEATURES is not None:
        return str(numba.config.CPU_FEATURES)
    return "" if numba.config.CPU_NAME else str(binding.get_host_cpu_features().flatten())


CPU_FEATURES = frozenset(f[1:] for f in _cpu_features().split(",") if f.startswith("+"))


def splat(builder: Any, scalar: Any, lanes: int = LANES) -> Any:
    vector = ir.VectorType(scalar.type, lanes)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(I32, 0))
    zeros = ir.Constant(ir.VectorType(I32, lanes), [0] * lanes)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)


def constant(kind: Any, value: float, lanes: int = LANES) -> Any:
    return ir.Constant(ir.VectorType(kind, lanes), [value] * lanes)


def load(builder: Any, pointer: Any, vector: Any) -> Any:
    loaded = builder.load(builder.bitcast(pointer, vector.as_pointer()))
    loaded.align = 1
    return loaded


def store(builder: Any, vector: Any, pointer: Any) -> None:
    builder.store(vector, builder.bitcast(pointer, vector.type.as_pointer())).align = 1


def offset(builder: Any, pointer: Any, *factors: Any) -> Any:
    """Advance a pointer by the product of `factors`, in elements of the array."""
    product = factors[0]
    for factor in factors[1:]:
        product = builder.mul(product, factor if isinstance(factor, ir.Value) else ir.Constant(I64, factor))
    return builder.gep(pointer, [product])


def select(builder: Any, comparison: str, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(comparison, a, b), a, b)


def call(builder: Any, name: str, result: Any, *arguments: Any) -> Any:
    function_type = ir.FunctionType(result, [a.type for a in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, function_type, name), arguments)


class Arrays:
    """Data pointers and lengths of the arrays that are passed to an intrinsic."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self._made = [
            context.make_array(t)(context, builder, a) if isinstance(t, types.Array) else None
            for t, a in zip(signature.args, arguments, strict=True)
        ]
        self._builder = builder

    def data(self, i: int) -> Any:
        return self._made[i].data

    def length(self, i: int, axis: int = 0) -> Any:
        return self._builder.extract_value(self._made[i].shape, axis)


@intrinsic
def _tag_lanes(typing: Any, tags: Any, first: Any, all_of: Any, any_of: Any, none_of: Any) -> Any:
    words = ir.VectorType(I64, LANES)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        loaded = load(builder, builder.gep(data, [arguments[1]]), words)
        all_of, any_of, none_of = (splat(builder, bits) for bits in arguments[2:])
        zero = ir.Constant(words, [0] * LANES)
        every = builder.icmp_unsigned("==", builder.and_(loaded, all_of), all_of)
        free = builder.icmp_unsigned("==", builder.and_(loaded, none_of), zero)
        some = builder.icmp_unsigned("!=", builder.and_(loaded, any_of), zero)
        some = builder.or_(some, builder.icmp_unsigned("==", any_of, zero))
        lanes = builder.and_(builder.and_(every, free), some)
        return builder.zext(builder.bitcast(lanes, ir.IntType(LANES)), I64)

    return types.int64(tags, types.int64, types.uint64, types.uint64, types.uint64), codegen


def tag_lanes_plain(tags: Any, first: int, all_of: Any, any_of: Any, none_of: Any) -> int:
    """Return 16 bits, one for each frame from `first`, which are 1 if the tags match the conditions of `Mask`."""
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
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = context.make_array(signature.args[0])(context, builder, arguments[0])
        size = cgutils.unpack_tuple(builder, made.strides)[0]
        data = builder.gep(builder.bitcast(made.data, cgutils.voidptr_t), [builder.mul(arguments[1], size)])
        flags = [ir.Constant(I32, v) for v in (0, 3, 1)]  # LLVM's flags to prefetch data for reading
        with cgutils.for_range_slice(builder, ir.Constant(I64, 0), size, ir.Constant(I64, 64)) as (offset, _):
            call(builder, "llvm.prefetch.p0", ir.VoidType(), builder.gep(data, [offset]), *flags)
        return context.get_dummy_value()

    return types.none(array, types.int64), codegen


def _make_array(context: Any, builder: Any, array: Any, pointer: Any, lengths: Any) -> Any:
    """Create a C-contiguous numba array for existing memory; numba does not free this memory."""
    made = context.make_array(array)(context, builder)
    itemsize = ir.Constant(I64, array.dtype.bitwidth // 8)
    strides = [itemsize]
    for length in lengths[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    populate_array(made, data=pointer, shape=lengths, strides=strides, itemsize=itemsize, meminfo=None)
    return made._getvalue()


def _local_array(dtype: Any, entries: int = SCRATCH) -> Any:
    """Create an intrinsic that allocates an array on the stack, because an array on the heap would take 40 ns."""

    @intrinsic
    def local(typing: Any) -> Any:
        array = types.Array(dtype, 1, "C")

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            element = context.get_data_type(dtype)
            with builder.goto_entry_block():  # `cgutils.alloca_once` would also set the array to zero, which is slower
                data = builder.alloca(ir.ArrayType(element, entries))
            pointer = builder.bitcast(data, element.as_pointer())
            return _make_array(context, builder, array, pointer, [ir.Constant(I64, entries)])

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
    """Return the array at a memory address. The memory must not be freed while the array is in use."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape))
    if not count:
        return np.zeros(shape, dtype)
    raw = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(int(address))
    return np.frombuffer(raw, dtype).reshape(shape)


if COMPILED:
    tag_lanes, lowest_bit, prefetch, array_at = _tag_lanes, _lowest_bit, _prefetch, _array_at

    def local_array(dtype: Any, entries: int = SCRATCH) -> Any:
        return _local_array(from_dtype(np.dtype(dtype)), entries)

else:
    tag_lanes, lowest_bit, array_at = tag_lanes_plain, lowest_bit_plain, array_at_plain

    def prefetch(array: Any, index: int) -> None:
        pass

    def local_array(dtype: Any, entries: int = SCRATCH) -> Any:
        return lambda: np.empty(entries, dtype)
