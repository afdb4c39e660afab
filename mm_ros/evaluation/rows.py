"""Rows of the evaluation table: the avatar (`ours`) and its baselines, each defined by its settings."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mm_ros.avatar import AvatarSettings
from mm_ros.base.errors import MmRosError


@dataclass(frozen=True)
class Row:
    name: str
    meaning: str
    change: tuple[tuple[str, str, object], ...] = ()  # stage, setting, value
    drag: bool = False
    asked_only: bool = False
    camera: bool = False  # fuses the landmarks of a camera
    true_facing: bool = False  # uses the true facing

    def settings(self, base: AvatarSettings) -> AvatarSettings:
        out = base
        for stage, name, value in self.change:
            out = replace(out, **{stage: getattr(out, stage).with_values(**{name: value})})
        return out


CHAIN_ROWS: tuple[Row, ...] = (
    Row("ours", "the chain with the given settings"),
    Row("fused", "camera landmarks correct the facing: simulated for clips, recorded for sessions", camera=True),
    Row(
        "true_facing",
        "the true pelvis facing replaces the predicted one, which leaves the errors of matching",
        true_facing=True,
    ),
    Row("hmd_forward", "the facing is the headset's forward direction", (("orientation", "predictor", "hmd_forward"),)),
    Row(
        "drag",
        "no matching: a standing pose that follows the target, with IK",
        (("post", "foot_lock", False),),
        drag=True,
    ),
    Row("no_foot_lock", "matching without foot lock", (("post", "foot_lock", False),)),
    Row("brute", "brute-force search; its poses must equal ours", (("matcher", "search_structure", "brute"),)),
    Row("learned", "networks instead of the database", (("matcher", "engine", "learned"),), asked_only=True),
)
GROUND_TRUTH, DATABASE = "ground_truth", "database"
ROW_NAMES = (*(r.name for r in CHAIN_ROWS[:1]), GROUND_TRUTH, DATABASE, *(r.name for r in CHAIN_ROWS[1:]))


def chosen(names: str) -> tuple[Row, ...]:
    """Rows named in a comma-separated list (default: all but `asked_only`); `ours` is always included."""
    wanted = [n.strip() for n in names.split(",") if n.strip()]
    for name in wanted:
        if name not in ROW_NAMES:
            raise MmRosError(f"row '{name}' does not exist. Rows: {', '.join(ROW_NAMES)}")
    return tuple(r for r in CHAIN_ROWS if r.name == "ours" or r.name in wanted or not (wanted or r.asked_only))
