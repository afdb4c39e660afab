"""Read the model file of the learned engine.

The ONNX file contains networks, feature layout, skeleton, height bands, tags and licence of the learned engine.
"""

from __future__ import annotations

import base64
import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.base.onnx_runtime import ort
from mm_ros.body.skeleton import Skeleton
from mm_ros.body.types import F32
from mm_ros.facing.model_file import MODELS, metadata_of, runnable, session
from mm_ros.matching.engines import pose_code as pc
from mm_ros.matching.engines.source import LEARNED
from mm_ros.matching.matcher import MatcherSettings
from mm_ros.motion.database import MotionDatabase
from mm_ros.motion.features import Feature, FeatureLayout

KIND = "learned"
VERSION = 1
DEFAULT_MODEL = MODELS / "learned_procedural.onnx"
DIGEST_ARRAYS = (
    "positions", "rotations", "velocities", "angular_velocities", "contacts", "head_height_ratio", "tags", "features",
)  # fmt: skip
NEEDED = ("kind", "version", "layout_hash", "layout", "skeleton_hash", "joint_names", "rate", "tag_names", "bands",
          "weights", "licence", "parameters", "pose_width", "digest")  # fmt: skip


class LearnedModel:
    """Networks of the learned engine, read from a file. Each method runs one of the networks for one frame."""

    def __init__(self, path: Path | str = "") -> None:
        self.path = Path(path) if path else DEFAULT_MODEL
        self._session = session(self.path)
        self.metadata = metadata_of(self._session, self.path)
        self._check()
        with runnable(self.path):
            self._prepare()

    def _prepare(self) -> None:
        self.digest = self._read_digest()
        self.weights, query, state = self._read_sizes()
        self._check_shapes(query, state)
        self._state, self._query = np.zeros((1, state), np.float32), np.zeros((1, query), np.float32)
        # `_run` compares the outputs with `_shapes`, because compiled code reads the outputs without checks.
        self._shapes = dict.fromkeys(("found", "next_state"), (1, state))
        self._shapes |= dict.fromkeys(("pose", "next_pose"), (1, pc.WIDTH))
        self._options = ort.RunOptions()
        # onnxruntime runs only the networks (decompressor, stepper or projector) that the requested outputs need.
        self._options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        self._options.only_execute_path_to_fetches = True
        self.project(self._query[0])  # The first run of a network allocates memory and must not happen during playback.
        self.step(self._state[0])
        self.pose(self._state[0])

    def project(self, query_and_condition: F32) -> F32:
        """Return the state (D + L,) that is nearest to a query among the frames that a condition allows.

        The argument (D + C,) contains the D numbers of the query and the C numbers of the condition (height band and
        tags). The state contains D features and L latent numbers.
        """
        self._query[0] = query_and_condition
        out: F32 = self._run(["found"])[0][0]
        return out

    def pose(self, state: F32) -> F32:
        """Return the pose vector that the decompressor computes from a state."""
        self._state[0] = state
        out: F32 = self._run(["pose"])[0][0]
        return out

    def step(self, state: F32) -> tuple[F32, F32]:
        """Return the state and the pose vector of the next frame."""
        self._state[0] = state
        after, pose = self._run(["next_state", "next_pose"])
        return after[0], pose[0]

    @property
    def weight_bytes(self) -> int:
        """Return the memory that the loaded weights of the networks take [bytes]."""
        return 4 * int(self.metadata["parameters"])

    def figures(self) -> dict[str, Any]:
        """Return the accuracy of the networks that was measured after the training."""
        out: dict[str, Any] = json.loads(self.metadata.get("figures", "{}"))
        return out

    def _run(self, outputs: list[str]) -> list[Any]:
        try:
            found: list[Any] = self._session.run(outputs, {"state": self._state, "query": self._query}, self._options)
        except Exception as error:  # `Exception`, because onnxruntime has no public exception classes.
            raise MmRosError(f"{self.path} cannot be run: {str(error).splitlines()[0][:200]}") from error
        for name, values in zip(outputs, found, strict=True):
            if values.shape != self._shapes[name] or values.dtype != np.float32:
                wanted, came = self._shapes[name], f"{values.dtype} {values.shape}"
                raise MmRosError(f"{self.path} is broken: '{name}' must be float32 {wanted}, came {came}")
        return found

    def _check(self) -> None:
        missing = [k for k in NEEDED if k not in self.metadata]
        if self.metadata.get("kind", KIND) != KIND:
            raise MmRosError(f"{self.path} is a network of kind '{self.metadata['kind']}', expected '{KIND}'")
        if missing:
            raise MmRosError(f"{self.path} is not a learned engine of mm_ros: its metadata lacks {', '.join(missing)}")
        version = self.metadata["version"]
        if version != str(VERSION):
            newer = version.isdecimal() and int(version) > VERSION
            what = "Update mm_ros" if newer else "Train it again with mm_ros train learned"
            raise MmRosError(f"{self.path} has version {version}; this mm_ros reads {VERSION}. {what}")
        if self.metadata["pose_width"] != str(pc.WIDTH):
            came = self.metadata["pose_width"]
            raise MmRosError(
                f"{self.path} outputs poses of {came} numbers, this mm_ros expects {pc.WIDTH}. Train it again"
            )

    def _read_sizes(self) -> tuple[F32, int, int]:
        """Return the feature weights (D,), and the sizes of the inputs `query` and `state` of the networks."""
        try:
            weights = np.array(json.loads(self.metadata["weights"]), np.float32)
            shapes = {i.name: int(i.shape[-1]) for i in self._session.get_inputs()}
            return weights, shapes["query"], shapes["state"]
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise MmRosError(f"{self.path} is broken: its weights or inputs cannot be read ({error})") from error

    def _check_shapes(self, query: int, state: int) -> None:
        features, tags = self.digest.layout.size, len(self.digest.tag_names)
        weights = self.weights
        if query != features + 3 * tags or state <= features or weights.shape != (features,):
            raise MmRosError(
                f"{self.path} is broken: its metadata has {features} features and {tags} tags, its networks take "
                f"queries of {query} and states of {state} numbers, and its weights have shape {weights.shape}"
            )
        if not np.isfinite(weights).all() or (weights < 0).any():
            raise MmRosError(f"{self.path} is broken: its weights must be 0 or more and finite")

    def _read_digest(self) -> MotionDatabase:
        m = self.metadata
        try:
            with np.load(io.BytesIO(base64.b64decode(m["digest"]))) as stored:
                arrays = {n: stored[n] for n in stored.files}
            layout = FeatureLayout(tuple(Feature(**{**f, "times": tuple(f["times"])}) for f in json.loads(m["layout"])))
            skeleton = Skeleton(arrays.pop("offsets"), tuple(json.loads(m["joint_names"])))
            rows = len(arrays["positions"])
            digest = MotionDatabase(
                skeleton=skeleton, rate=float(m["rate"]), layout=layout,
                range_starts=np.arange(rows, dtype=np.int32), range_stops=np.arange(1, rows + 1, dtype=np.int32),
                clip_names=tuple(f"learned {i}" for i in range(rows)), tag_names=tuple(json.loads(m["tag_names"])),
                provenance={"bands": json.loads(m["bands"]), "licence": m["licence"]}, **arrays,
            )  # fmt: skip
        except MmRosError as error:
            raise MmRosError(f"{self.path} is broken: {error}") from None
        except (KeyError, ValueError, TypeError, AttributeError, OSError, zlib.error, zipfile.BadZipFile) as error:
            raise MmRosError(f"{self.path} is broken: its motion description cannot be read ({error})") from error
        odd = [name for name, array in arrays.items() if not np.isfinite(array).all()]
        if odd:
            raise MmRosError(f"{self.path} is broken: {', '.join(odd)} of its motion must be finite")
        if layout.hash != m["layout_hash"]:
            raise MmRosError(
                f"{self.path} was trained for feature layout {m['layout_hash']}, but its description gives "
                f"{layout.hash} in this mm_ros. Train it again"
            )
        if f"{skeleton.hash:016x}" != m["skeleton_hash"]:
            raise MmRosError(
                f"{self.path} has skeleton {m['skeleton_hash']} in its metadata, but its joint offsets give "
                f"{skeleton.hash:016x}. Train it again"
            )
        return digest


def load_learned(settings: MatcherSettings) -> LearnedModel | None:
    """Load the model that the settings select, or return None if the selected engine needs no model."""
    return LearnedModel(settings.model) if settings.engine == LEARNED else None
