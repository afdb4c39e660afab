"""Loads ONNX networks of facing and steps, and checks their metadata before the first frame."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.base.errors import MmRosError
from mm_ros.base.files import identity
from mm_ros.base.onnx_runtime import ort
from mm_ros.base.sealed_onnx import read_checked
from mm_ros.body.types import F32, F64
from mm_ros.facing.compiled import Network, compiled
from mm_ros.facing.inputs import layout_hash, paper_layout_hash
from mm_ros.facing.orientation import OrientationSettings

VERSION = 2  # newest version of network files that can be read; version 2 added recurrent networks
_TICK, _NO_TICK = np.ones(1, np.float32), np.zeros(1, np.float32)
MODELS = Path(__file__).resolve().parent.parent / "models"


def session(path: Path) -> ort.InferenceSession:
    """Open a network in onnxruntime with a single thread, because more threads would slow down the other nodes."""
    if not path.is_file():
        here = ", ".join(sorted(p.name for p in MODELS.glob("*.onnx"))) or "none"
        raise MmRosError(f"network {path} does not exist. Networks that come with the package: {here}")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    options.log_severity_level = 3
    content = read_checked(path)
    try:
        return ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # catch all, because the exception classes of onnxruntime are not public
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise MmRosError(f"{path} is not a network that onnxruntime can load: {reason}") from error


def metadata_of(opened: ort.InferenceSession, path: Path) -> dict[str, str]:
    try:
        for value in (*opened.get_inputs(), *opened.get_outputs()):
            value.name  # noqa: B018 - reading the name raises an error if it is not UTF-8 text
        return dict(opened.get_modelmeta().custom_metadata_map)
    except UnicodeDecodeError as error:
        raise MmRosError(f"{path} is broken: its names or metadata are not UTF-8 text ({error.reason})") from error


@contextmanager
def runnable(path: Path) -> Iterator[None]:
    """Raise MmRosError, which names the network file `path`, for every exception inside this context."""
    try:
        yield
    except MmRosError:
        raise
    except Exception as error:  # catch all, because the exception classes of onnxruntime are not public
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise MmRosError(f"{path} is broken: it cannot be run ({reason})") from error


def graph_of(path: Path) -> tuple[list[bytes], dict[str, NDArray[Any]]]:
    """Return the serialized nodes and, by name, the weights of an ONNX file that onnxruntime has accepted."""
    nodes, weights = [], {}
    for number, graph in _fields(path.read_bytes()):
        for part, content in _fields(graph) if number == 7 else ():
            if part == 1:
                nodes.append(content)
            elif part == 5:
                tensor = list(_fields(content))
                shape = [size for n, size in tensor if n == 1]
                named = dict(tensor)
                if named.get(2) in _NUMBERS and 9 in named:
                    weights[named[8].decode()] = np.frombuffer(named[9], _NUMBERS[named[2]]).reshape(shape)
    return nodes, weights


_NUMBERS = {1: "<f4", 7: "<i8", 10: "<f2"}


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    at = 0

    def whole() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at, value, shift = at + 1, value | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = whole()
        if key & 7 == 0:
            yield key >> 3, whole()
            continue
        size = whole() if key & 7 == 2 else {1: 8, 5: 4}[key & 7]
        yield key >> 3, message[at : at + size]
        at += size


class OnnxModel:
    """ONNX network with float32 inputs and outputs, and the texts `metadata` that its training wrote.

    The constructor refuses a network of another `kind` or input `layout`; an empty text accepts any network. A
    recurrent network (`remembers` is true) takes and returns a state, which is None for other networks.
    """

    def __init__(self, path: Path | str, kind: str = "", layout: str = "") -> None:
        self.path = Path(path)
        self._session = session(self.path)
        self.metadata = metadata_of(self._session, self.path)
        self._check(kind, layout)
        with runnable(self.path):
            self._prepare()

    def _prepare(self) -> None:
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        self._outputs = [o.name for o in outputs]
        self.remembers = "remembered" in [i.name for i in inputs]
        self.tick_s = self._tick_s() if self.remembers else 0.0
        self._input = inputs[0].name
        self.width = int(inputs[0].shape[-1])
        self._shape = [d if isinstance(d, int) else 1 for d in inputs[1].shape] if self.remembers else []
        self._compiled = self._recognized() if self.remembers else None
        # The network runs here once, because its first run allocates memory, which would delay the first frame.
        self.step(np.zeros((1, self.width), np.float32), self.nothing(), True)

    def _recognized(self) -> Network | None:
        try:
            return compiled(*graph_of(self.path))
        except (IndexError, KeyError, ValueError):  # if mm_ros did not write the graph, onnxruntime runs the network
            return None

    @property
    def layout(self) -> str:
        return self.metadata["layout_hash"]

    def nothing(self) -> F32 | None:
        """Return the state with which a recurrent network starts, or None for other networks."""
        return np.zeros(self._shape, np.float32) if self.remembers else None

    def step(self, inputs: F32, remembered: F32 | None, tick: bool) -> tuple[F32, F32 | None]:
        """Return the outputs (1, K) for the inputs (1, D) of one frame, and the new state of a recurrent network.

        The new state of the facing network differs from `remembered` only if `tick` is true.
        """
        if not self.remembers:
            return self._session.run(self._outputs, {self._input: inputs})[0], None
        if self._compiled is not None and remembered is not None and len(inputs) == 1:
            return self._compiled.step(inputs, remembered, tick)
        feed = {self._input: inputs, "remembered": remembered, "tick": _TICK if tick else _NO_TICK}
        out, now = self._session.run(self._outputs, feed)
        return out, now

    def sequence(self, inputs: F32, dt: F64) -> F32:
        """Return the outputs (F, K) for F frames with the inputs (F, D) and the time steps `dt` (F,) [s]."""
        if not self.remembers:
            return self.step(inputs, None, True)[0]
        remembered, since, rows = self.nothing(), np.inf, []
        for row, passed in zip(inputs, dt.tolist(), strict=True):
            since += passed
            tick = since >= self.tick_s
            since = 0.0 if tick else since
            out, remembered = self.step(row[None], remembered, tick)
            rows.append(out)
        return np.concatenate(rows)

    def figures(self) -> dict[str, Any]:
        """Return the prediction errors of the network that were measured after its training and stored in its file."""
        out: dict[str, Any] = json.loads(self.metadata.get("figures", "{}"))
        return out

    def _tick_s(self) -> float:
        try:
            return float(self.metadata["tick_s"])
        except (KeyError, ValueError):
            found = self.metadata.get("tick_s", "nothing")
            raise MmRosError(f"{self.path} is recurrent: expected tick_s in seconds, came {found}") from None

    def _check(self, kind: str, layout: str) -> None:
        missing = [k for k in ("kind", "version", "layout_hash") if k not in self.metadata]
        if missing:
            names = ", ".join(missing)
            raise MmRosError(f"{self.path} is not a network of mm_ros: its metadata lacks {names}")
        if not self.metadata["version"].isdecimal() or int(self.metadata["version"]) > VERSION:
            raise MmRosError(
                f"{self.path} has version {self.metadata['version']}; this mm_ros reads up to {VERSION}. "
                "Update mm_ros."
            )
        if kind and self.metadata["kind"] != kind:
            raise MmRosError(f"{self.path} is a network of kind '{self.metadata['kind']}', expected '{kind}'")
        if layout and self.layout != layout:
            raise MmRosError(
                f"{self.path} was trained for input layout {self.layout}, but this mm_ros has layout {layout}. "
                "Train it again, or use the mm_ros that trained it."
            )


def load_facing_model(settings: OrientationSettings) -> OnnxModel | None:
    """Load the network that `settings` select, or return None for the predictor `hmd_forward`, which uses no network.

    All avatars of a process share one network, because the object of the network keeps no state between two steps.
    """
    if settings.predictor == "hmd_forward":
        return None
    if settings.predictor == "paper":
        path = Path(settings.model) if settings.model else MODELS / f"facing_paper_r{settings.paper_r}.onnx"
        return shared_model(path, "facing_paper", paper_layout_hash(), identity(path))
    path = Path(settings.model) if settings.model else MODELS / "facing.onnx"
    return shared_model(path, "facing", layout_hash(), identity(path))


@lru_cache(maxsize=4)
def shared_model(path: Path, kind: str, layout: str, _identity: tuple[int, ...]) -> OnnxModel:
    return OnnxModel(path, kind, layout)

