"""ONNX networks: loaded with one thread, their metadata checked before the first frame."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from mm_ros.core.errors import MmRosError
from mm_ros.core.orientation import OrientationSettings
from mm_ros.core.orientation_inputs import layout_hash, paper_layout_hash
from mm_ros.core.types import F32

VERSION = 1
MODELS = Path(__file__).resolve().parent.parent / "models"


def session(path: Path) -> ort.InferenceSession:
    """One thread and no spinning: beside the other nodes more would only compete."""
    if not path.is_file():
        here = ", ".join(sorted(p.name for p in MODELS.glob("*.onnx"))) or "none"
        raise MmRosError(f"network {path} does not exist. Networks that come with the package: {here}")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    options.log_severity_level = 3
    try:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own exception classes are not public
        reason = str(error).splitlines()[0][:200]
        raise MmRosError(f"{path} is not a network that onnxruntime can load: {reason}") from error


class OnnxModel:
    """One input, one output, float32; `metadata` as written by the trainer (values are text)."""

    def __init__(self, path: Path | str, kind: str = "", layout: str = "") -> None:
        """`kind` and `layout`, where given, must be the file's own."""
        self.path = Path(path)
        self._session = session(self.path)
        self.metadata: dict[str, str] = dict(self._session.get_modelmeta().custom_metadata_map)
        self._check(kind, layout)
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        self._input = inputs[0].name
        self._outputs = [outputs[0].name]
        self.width = int(inputs[0].shape[-1])
        # The first run allocates; not in a frame.
        self.run(np.zeros((1, self.width), np.float32))

    @property
    def layout(self) -> str:
        return self.metadata["layout_hash"]

    def run(self, inputs: F32) -> F32:
        out: F32 = self._session.run(self._outputs, {self._input: inputs})[0]
        return out

    def figures(self) -> dict[str, Any]:
        """What the training measured."""
        out: dict[str, Any] = json.loads(self.metadata.get("figures", "{}"))
        return out

    def _check(self, kind: str, layout: str) -> None:
        missing = [k for k in ("kind", "version", "layout_hash") if k not in self.metadata]
        if missing:
            names = ", ".join(missing)
            raise MmRosError(f"{self.path} is not a network of mm_ros: its metadata lacks {names}")
        if not self.metadata["version"].isdigit() or int(self.metadata["version"]) > VERSION:
            raise MmRosError(
                f"{self.path} has version {self.metadata['version']}; this mm_ros reads up to {VERSION}. "
                "Update mm_ros."
            )
        if kind and self.metadata["kind"] != kind:
            raise MmRosError(f"{self.path} is a network of kind '{self.metadata['kind']}', expected '{kind}'")
        if layout and self.layout != layout:
            raise MmRosError(
                f"{self.path} was trained for input layout {self.layout}, this mm_ros makes {layout}. "
                "Train it again, or take the mm_ros that trained it."
            )


def load_facing_model(settings: OrientationSettings) -> OnnxModel | None:
    """The network that these settings ask for; none for headset forward."""
    if settings.predictor == "hmd_forward":
        return None
    if settings.predictor == "paper":
        path = Path(settings.model) if settings.model else MODELS / f"facing_paper_r{settings.paper_r}.onnx"
        return OnnxModel(path, "facing_paper", paper_layout_hash())
    path = Path(settings.model) if settings.model else MODELS / "facing.onnx"
    return OnnxModel(path, "facing", layout_hash())
