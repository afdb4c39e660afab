"""The networks of facing and steps that are part of the package, each as one compiled function.

A compiled function is faster than onnxruntime, which needs about half a microsecond for each node of the graph, and
reads the weights of the facing network twice, the second time for the mirrored input. The function `compiled`
recognizes the graphs that `mm_ros train orientation` and `mm_ros train steps` write. Networks with other graphs run in
the library onnxruntime. The outputs of a compiled function and of onnxruntime differ by at most 1e-6.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import Any, Protocol

import numba
import numpy as np
from numpy.typing import NDArray

from mm_ros.body.types import F32
from mm_ros.maths.jit import njit

FACING, STEPS = "29dcb3abfba5042f", "818d2cff2882511f"  # hashes of the graphs of facing network and step network
ROWS = 2  # rows that the facing network computes at once: the inputs, and the inputs of the mirrored motion


class Network(Protocol):
    def step(self, inputs: F32, remembered: F32, tick: bool) -> tuple[F32, F32]:
        """Return the outputs (1, K) for the inputs (1, D) of one frame, and the new state of the network."""


def compiled(nodes: list[bytes], weights: dict[str, NDArray[Any]]) -> Network | None:
    """Return the compiled network of an ONNX graph, or None if no class of this module computes this graph."""
    if numba.config.DISABLE_JIT:
        return None  # as plain Python, a network would need half a second per frame
    kinds: dict[str, Callable[[dict[str, NDArray[Any]]], Network]] = {FACING: Ensemble, STEPS: Layers}
    graph = hashlib.blake2b(b"".join(nodes), digest_size=8).hexdigest()
    try:
        return kinds[graph](weights)
    except (KeyError, ValueError, IndexError):
        return None


class Ensemble:
    """The facing network: an ensemble of members, of which the last have a memory (GRU); their outputs are averaged.

    The constructor raises ValueError or KeyError if `step` cannot use the shapes of the weights `w`.
    """

    def __init__(self, w: dict[str, NDArray[Any]]) -> None:
        members, _, inputs, hidden = w["w0_half"].shape
        recurrent, _, seen, gates = w["into_half"].shape
        memory = gates // 3
        shapes = {
            "order": (inputs,), "signs": (inputs,), "mean": (inputs,), "inverse_scale": (inputs,),
            "w0_half": (members, inputs, hidden), "b0_half": (members, hidden),
            "into_half": (recurrent, seen, 3 * memory), "into_bias_half": (recurrent, 3 * memory),
            "back_half": (recurrent, memory, 3 * memory), "back_bias_half": (recurrent, memory),
            "hears_half": (recurrent, memory, hidden),
            "w1_half": (members, hidden, hidden), "b1_half": (members, hidden),
            "w2_half": (members, hidden, 4), "b2_half": (members, 4), "unmirror": (ROWS, 4),
        }  # fmt: skip
        self._weights: Any = tuple(
            np.ascontiguousarray(w[name].reshape(shape), np.int64 if name == "order" else np.float32)
            for name, shape in shapes.items()
        )
        order = self._weights[0]
        if order.min() < 0 or order.max() >= inputs or seen > inputs or recurrent > members:
            raise ValueError("indices beyond the inputs")
        plan = {
            "halves": [members - recurrent, recurrent], "from": [0], "to": [seen], "axis": [2], "first": [0],
            "gates_and_new": [2 * memory, memory], "keep_and_reset": [memory, memory], "two_two": [2, 2],
        }  # fmt: skip
        if any(w[name].tolist() != numbers for name, numbers in plan.items()):
            raise ValueError("another division of the members, gates or inputs")
        self._limits = np.array([w["low"][0], w["high"][0], w["tiny"][0]], np.float32)
        self._memory = (recurrent, ROWS, memory)

    def step(self, inputs: F32, remembered: F32, tick: bool) -> tuple[F32, F32]:
        """Return the outputs (1, 4) for the inputs (1, D) of one frame, and the new state. If `tick` is false, the
        state does not change, and the array `remembered` is returned."""
        out, now = np.empty((1, 4), np.float32), np.empty_like(remembered) if tick else remembered
        before, after = remembered.reshape(self._memory), now.reshape(self._memory)
        run_ensemble(inputs[0], before, after, out[0], tick, self._limits, *self._weights)
        return out, now


class Layers:
    """The step network: a dense layer, two layers with a memory (GRU), and a dense layer.

    The constructor raises ValueError or KeyError if `step` cannot use the shapes of the weights `w`.
    """

    def __init__(self, w: dict[str, NDArray[Any]]) -> None:
        inputs, width = w["w_first_half"].shape
        memory, outputs = w["w_last_half"].shape
        shapes: dict[str, tuple[int, ...]] = {
            "mean": (inputs,), "inverse": (inputs,), "w_first_half": (inputs, width), "b_first": (width,),
            "into_0_half": (1, 3 * memory, width), "back_0_half": (1, 3 * memory, memory), "bias_0": (1, 6 * memory),
            "into_1_half": (1, 3 * memory, memory), "back_1_half": (1, 3 * memory, memory), "bias_1": (1, 6 * memory),
            "w_last_half": (memory, outputs), "b_last": (outputs,),
        }  # fmt: skip
        if any(w[name].shape != shape for name, shape in shapes.items()):
            raise ValueError("another size of a layer")
        if w["ones"].tolist() != [1, 1] or w["time"].tolist() != [0]:
            raise ValueError("another division of the state")
        # The matrices of a GRU have one row per output; `add_row` needs their transposes, with one row per input.
        turned = {name: w[name][0].T if name.startswith(("into", "back")) else w[name] for name in shapes}
        self._weights: Any = tuple(np.ascontiguousarray(values, np.float32) for values in turned.values())
        self._limits = np.array([w["low"][0], w["high"][0]], np.float32)
        self._memory, self._outputs = (2, memory), outputs

    def step(self, inputs: F32, remembered: F32, tick: bool) -> tuple[F32, F32]:
        """Return the outputs (1, K) for the inputs (1, D) of one frame, and the new state; `tick` has no effect."""
        out, now = np.empty((1, self._outputs), np.float32), np.empty_like(remembered)
        before, after = remembered.reshape(self._memory), now.reshape(self._memory)
        run_layers(inputs[0], before, after, out[0], self._limits, *self._weights)
        return out, now


@njit
def add_product(x: Any, w: Any, out: Any) -> None:
    """Add the product x @ w of (2, N) and (N, M) to `out` (2, M).

    Four rows of `w` are processed at a time, so that `out` is read less often.
    """
    n, m = w.shape
    for i in range(0, n - n % 4, 4):
        a0, a1, a2, a3 = x[0, i], x[0, i + 1], x[0, i + 2], x[0, i + 3]
        b0, b1, b2, b3 = x[1, i], x[1, i + 1], x[1, i + 2], x[1, i + 3]
        for j in range(m):
            w0, w1, w2, w3 = w[i, j], w[i + 1, j], w[i + 2, j], w[i + 3, j]
            out[0, j] += a0 * w0 + a1 * w1 + a2 * w2 + a3 * w3
            out[1, j] += b0 * w0 + b1 * w1 + b2 * w2 + b3 * w3
    for i in range(n - n % 4, n):
        for j in range(m):
            out[0, j] += x[0, i] * w[i, j]
            out[1, j] += x[1, i] * w[i, j]


@njit
def add_row(x: Any, w: Any, out: Any) -> None:
    """Add the product x @ w of (N,) and (N, M) to `out` (M,)."""
    n, m = w.shape
    for i in range(0, n - n % 4, 4):
        a0, a1, a2, a3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        for j in range(m):
            out[j] += a0 * w[i, j] + a1 * w[i + 1, j] + a2 * w[i + 2, j] + a3 * w[i + 3, j]
    for i in range(n - n % 4, n):
        for j in range(m):
            out[j] += x[i] * w[i, j]


@njit
def run_layers(
    x: Any, h: Any, h_now: Any, out: Any, limits: Any, mean: Any, inverse: Any, w_first: Any, b_first: Any,
    into_0: Any, back_0: Any, bias_0: Any, into_1: Any, back_1: Any, bias_1: Any, w_last: Any, b_last: Any,
) -> None:  # fmt: skip
    """Compute the step network: read the inputs `x` (D,) and the state `h` (2, R), and write the outputs `out` (K,) and
    the new state `h_now` (2, R)."""
    seen, first = np.empty(len(x), np.float32), b_first.copy()
    for i in range(len(x)):
        seen[i] = min(max((x[i] - mean[i]) * inverse[i], limits[0]), limits[1])
    add_row(seen, w_first, first)
    np.maximum(first, np.float32(0.0), first)
    gru(first, h[0], into_0, back_0, bias_0[0], h_now[0])
    gru(h_now[0], h[1], into_1, back_1, bias_1[0], h_now[1])
    out[:] = b_last
    add_row(h_now[1], w_last, out)


@njit
def gru(x: Any, h: Any, into: Any, back: Any, bias: Any, now: Any) -> None:
    """Compute one step of a GRU layer as ONNX defines it: read the input `x` and the state `h` (R,), and write the new
    state `now` (R,). The first half of `bias` (6 R,) is the bias of the input, the second half the bias of the state.
    """
    memory = len(h)
    heard, own = bias[: 3 * memory].copy(), bias[3 * memory :].copy()
    add_row(x, into, heard)
    add_row(h, back, own)
    for j in range(memory):
        keep = 1.0 / (1.0 + math.exp(-(heard[j] + own[j])))
        reset = 1.0 / (1.0 + math.exp(-(heard[memory + j] + own[memory + j])))
        new = math.tanh(heard[2 * memory + j] + reset * own[2 * memory + j])
        now[j] = (1.0 - keep) * new + keep * h[j]


@njit
def run_ensemble(
    x: Any, h: Any, h_now: Any, out: Any, tick: bool, limits: Any, order: Any, signs: Any, mean: Any,
    inverse_scale: Any, w0: Any, b0: Any, into: Any, into_bias: Any, back: Any, back_bias: Any, hears: Any, w1: Any,
    b1: Any, w2: Any, b2: Any, unmirror: Any,
) -> None:  # fmt: skip
    """Compute the facing network: read the inputs `x` (D,) and the state `h` (G, 2, R), and write the outputs `out`
    (4,). If `tick` is true, the new state is written to `h_now`; if `tick` is false, the caller must pass `h` as
    `h_now`."""
    members, inputs, hidden = w0.shape
    first, memory = members - into.shape[0], h.shape[2]
    both = np.empty((ROWS, inputs), np.float32)
    for i in range(inputs):
        both[0, i] = min(max((x[i] - mean[i]) * inverse_scale[i], limits[0]), limits[1])
        both[1, i] = min(max((x[order[i]] * signs[i] - mean[i]) * inverse_scale[i], limits[0]), limits[1])
    one, two = np.empty((ROWS, hidden), np.float32), np.empty((ROWS, hidden), np.float32)
    heard, own = np.empty((ROWS, 3 * memory), np.float32), np.empty((ROWS, 3 * memory), np.float32)
    said = np.empty((ROWS, 4), np.float32)
    total = np.zeros(4)
    for k in range(members):
        one[0], one[1] = b0[k], b0[k]
        add_product(both, w0[k], one)
        g = k - first
        if g >= 0:
            if tick:
                heard[0], heard[1] = into_bias[g], into_bias[g]
                own[:] = np.float32(0.0)
                add_product(both[:, : into.shape[1]], into[g], heard)
                add_product(h[g], back[g], own)
                remember(h[g], heard, own, back_bias[g], h_now[g])
            add_product(h_now[g], hears[g], one)
        np.maximum(one, np.float32(0.0), one)
        two[0], two[1] = b1[k], b1[k]
        add_product(one, w1[k], two)
        np.maximum(two, np.float32(0.0), two)
        said[0], said[1] = b2[k], b2[k]
        add_product(two, w2[k], said)
        for r in range(ROWS):
            x0, x1 = said[r, 0] * unmirror[r, 0], said[r, 1] * unmirror[r, 1]
            length = math.sqrt(x0 * x0 + x1 * x1) + limits[2]
            total[0] += x0 / length
            total[1] += x1 / length
            total[2] += said[r, 2] * unmirror[r, 2]
            total[3] += said[r, 3] * unmirror[r, 3]
    for i in range(4):
        out[i] = total[i] / (ROWS * members)


@njit
def remember(h: Any, heard: Any, own: Any, bias: Any, now: Any) -> None:
    """Write to `now` the state that follows the state `h` in gated recurrent units (GRU). The
    activations of both gates and of the new value are sums of `heard`, which comes from the inputs, and `own`, which
    comes from the state.
    """
    memory = h.shape[1]
    for r in range(ROWS):
        for j in range(memory):
            keep = 1.0 / (1.0 + math.exp(-(heard[r, j] + own[r, j])))
            reset = 1.0 / (1.0 + math.exp(-(heard[r, memory + j] + own[r, memory + j])))
            new = math.tanh(heard[r, 2 * memory + j] + reset * (own[r, 2 * memory + j] + bias[j]))
            now[r, j] = h[r, j] + (1.0 - keep) * (new - h[r, j])
