"""The rows of the table: ours, and what it is measured against, each a setting that anybody can select."""

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
    camera: bool = False  # landmarks of a simulated camera are fused in
    true_facing: bool = False  # the truth's facing stands in for the predicted one

    def settings(self, base: AvatarSettings) -> AvatarSettings:
        out = base
        for stage, name, value in self.change:
            out = replace(out, **{stage: getattr(out, stage).with_values(**{name: value})})
        return out


CHAIN_ROWS: tuple[Row, ...] = (
    Row("ours", "the chain as it is"),
    Row("fused", "a camera's landmarks correct the facing: simulated before clips, a session's own", camera=True),
    Row("true_facing", "the true facing of the pelvis fed in: what remains is the matching's own", true_facing=True),
    Row("hmd_forward", "facing = headset forward", (("orientation", "predictor", "hmd_forward"),)),
    Row("drag", "no matching: a standing pose dragged along with IK", (("post", "foot_lock", False),), drag=True),
    Row("no_foot_lock", "matching without foot lock", (("post", "foot_lock", False),)),
    Row("brute", "search by brute force; must equal ours", (("matcher", "search_structure", "brute"),)),
    Row("learned", "networks instead of the database", (("matcher", "engine", "learned"),), asked_only=True),
)
GROUND_TRUTH, DATABASE = "ground_truth", "database"
ROW_NAMES = (*(r.name for r in CHAIN_ROWS[:1]), GROUND_TRUTH, DATABASE, *(r.name for r in CHAIN_ROWS[1:]))


def chosen(names: str) -> tuple[Row, ...]:
    """Rows of the chain by names with commas; ours always."""
    wanted = [n.strip() for n in names.split(",") if n.strip()]
    for name in wanted:
        if name not in ROW_NAMES:
            raise MmRosError(f"row '{name}' does not exist. Rows: {', '.join(ROW_NAMES)}")
    return tuple(r for r in CHAIN_ROWS if r.name == "ours" or r.name in wanted or not (wanted or r.asked_only))
