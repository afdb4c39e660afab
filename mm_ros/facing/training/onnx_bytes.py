"""Serializes an ONNX graph and its metadata, with a checksum, to the bytes of a file for onnxruntime."""

from collections.abc import Mapping
from typing import Any

from mm_ros.base.sealed_onnx import sealed


def onnx_bytes(graph: Any, metadata: Mapping[str, str]) -> bytes:
    import onnx
    from onnx import helper

    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="mm_ros")
    model.ir_version = 8
    for key, value in metadata.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    onnx.checker.check_model(model)
    return sealed(bytes(model.SerializeToString()))
