"""Export decompressor, stepper and projector to one ONNX file with 16-bit weights and metadata."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import numpy as np

from mm_ros.facing.training.onnx_bytes import onnx_bytes
from mm_ros.matching.engines import pose_code as pc
from mm_ros.matching.model_file import DIGEST_ARRAYS, KIND, VERSION
from mm_ros.matching.training.networks import Layers
from mm_ros.motion.database import MotionDatabase


class _Graph:
    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.made: dict[str, str] = {}

    def exact(self, name: str, value: Any) -> str:
        from onnx import numpy_helper

        if name not in self.made:
            self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value, np.float32), name))
            self.made[name] = name
        return name

    def half(self, name: str, value: Any) -> str:
        """Store a constant in 16 bits, and convert it to 32 bits when onnxruntime loads the file."""
        from onnx import TensorProto, helper, numpy_helper

        if name not in self.made:
            self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value, np.float16), f"{name}_half"))
            self.nodes.append(helper.make_node("Cast", [f"{name}_half"], [name], to=TensorProto.FLOAT))
            self.made[name] = name
        return name

    def node(self, op: str, inputs: list[str], output: str) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(op, inputs, [output]))
        return output

    def layers(self, x: str, layers: Layers, weights: str, output: str) -> str:
        """Add the layers of a network to the graph. If a network is added twice with the same name `weights`, both
        share their constants."""
        h = x
        for i, layer in enumerate(layers.hidden):
            w = self.half(f"{weights}_w{i}", layer.weight.detach().numpy().T)
            b = self.exact(f"{weights}_b{i}", layer.bias.detach().numpy())
            h = self.node("Relu", [self.node("Gemm", [h, w, b], f"{output}_g{i}")], f"{output}_r{i}")
        straight = self.half(f"{weights}_straight", layers.straight.weight.detach().numpy().T)
        bias = self.exact(f"{weights}_bias", layers.straight.bias.detach().numpy())
        direct = self.node("Gemm", [x, straight, bias], f"{output}_direct")
        last = self.half(f"{weights}_last", layers.last.weight.detach().numpy().T)
        return self.node("Gemm", [h, last, direct], output)

    def within(self, x: str, name: str, low: Any, high: Any, output: str) -> str:
        x = self.node("Max", [x, self.exact(f"{name}_low", low)], f"{output}_above")
        return self.node("Min", [x, self.exact(f"{name}_high", high)], output)


def onnx_of(networks: Any, states: Any, features: int, conditions: int, metadata: dict[str, str]) -> bytes:
    """Return the content of the ONNX file for the networks `decompressor`, `stepper` and `projector`.

    The ONNX graph limits states and queries to the motion's range plus a margin, so that the stepper cannot diverge.
    """
    from onnx import TensorProto, helper

    g = _Graph()
    low, high = states.min(0), states.max(0)
    room = 0.1 * (high - low)
    wide = 1.0 + 0.1 * (high - low)[:features]
    g.layers("state", networks.decompressor, "decompressor", "pose")
    change = g.layers("state", networks.stepper.layers, "stepper", "change")
    scaled = g.node("Mul", [change, g.exact("step_scale", networks.stepper.scale.numpy())], "scaled_change")
    stepped = g.node("Add", ["state", scaled], "stepped")
    g.within(stepped, "state", low - room, high + room, "next_state")
    g.layers("next_state", networks.decompressor, "decompressor", "next_pose")
    free = np.full(conditions, 10.0)
    query = g.within(
        "query", "query", np.concatenate([low[:features] - wide, -free]),
        np.concatenate([high[:features] + wide, free]), "known_query",
    )  # fmt: skip
    g.within(g.layers(query, networks.projector.layers, "projector", "projected"), "state", low, high, "found")

    def tensor(name: str, width: int) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, width])

    size = states.shape[1]
    graph = helper.make_graph(
        g.nodes, "learned",
        [tensor("state", size), tensor("query", features + conditions)],
        [tensor("pose", pc.WIDTH), tensor("next_state", size), tensor("next_pose", pc.WIDTH), tensor("found", size)],
        g.constants,
    )  # fmt: skip
    return onnx_bytes(graph, metadata)


def metadata_of(database: MotionDatabase, weights: Any, parameters: int, **more: str) -> dict[str, str]:
    from dataclasses import asdict

    return {
        "kind": KIND,
        "version": str(VERSION),
        "layout_hash": database.layout.hash,
        "layout": json.dumps([asdict(f) for f in database.layout.features]),
        "skeleton_hash": f"{database.skeleton.hash:016x}",
        "joint_names": json.dumps(database.skeleton.names),
        "rate": repr(database.rate),
        "tag_names": json.dumps(database.tag_names),
        "bands": json.dumps(database.provenance.get("bands", [])),
        "weights": json.dumps([float(w) for w in weights]),
        "licence": str(database.provenance.get("licence", "")),
        "parameters": str(parameters),
        "pose_width": str(pc.WIDTH),
        "digest": _digest(database),
        **more,
    }


def _digest(database: MotionDatabase) -> str:
    """Return some frames of the database as text: one frame of each combination of tags, and the frame with the least
    motion. The learned engine needs example frames for masks, height bands and the first pose."""
    _, first = np.unique(np.asarray(database.tags), return_index=True)
    still = int(np.argmin(np.abs(np.asarray(database.angular_velocities)).sum((1, 2))))
    rows = np.unique([*first.tolist(), still])
    arrays = {n: np.asarray(getattr(database, n))[rows] for n in DIGEST_ARRAYS}
    arrays |= {n: np.asarray(getattr(database, n)) for n in ("feature_mean", "feature_std")}
    arrays["offsets"] = database.skeleton.offsets
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return base64.b64encode(out.getvalue()).decode()
