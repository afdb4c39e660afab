"""Load the step network."""

from __future__ import annotations

from pathlib import Path

from mm_ros.base.files import identity
from mm_ros.facing.model_file import MODELS, OnnxModel, shared_model
from mm_ros.steps.estimator import StepSettings
from mm_ros.steps.inputs import layout_hash


def load_step_model(settings: StepSettings) -> OnnxModel | None:
    """Load the step network that the settings select, or return None if the setting `steps` is off. All avatars of one
    process share the network."""
    if not settings.steps:
        return None
    path = Path(settings.steps_model) if settings.steps_model else MODELS / "steps.onnx"
    return shared_model(path, "steps", layout_hash(), identity(path))
