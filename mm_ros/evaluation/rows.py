"""Rows that the evaluation compares: the avatar (row `ours`) and baselines, each defined by changed settings."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mm_ros.avatar import AvatarSettings
from mm_ros.base.errors import MmRosError


@dataclass(frozen=True)
class Row:
    name: str
    meaning: str
    change: tuple[tuple[str, str, object], ...] = ()  # changed settings: (stage, setting, value)
    drag: bool = False
    asked_only: bool = False
    camera: bool = False  # True if camera landmarks correct the avatar's facing in this row
    true_facing: bool = False  # True if the user's true facing replaces the predicted facing
    true_feet: bool = False  # True if the user's true feet replace the estimated feet

    @property
    def needs_truth(self) -> bool:
        return self.true_facing or self.true_feet

    def settings(self, base: AvatarSettings) -> AvatarSettings:
        out = base
        for stage, name, value in self.change:
            out = replace(out, **{stage: getattr(out, stage).with_values(**{name: value})})
        return out


# The user's estimated feet affect search, foot lock, inverse kinematics and prediction; the settings SEARCH, HOLD,
# FOLLOW and AHEAD switch these four effects off.
SEARCH = ("matcher", "feet_weight", 0.0)
HOLD = ("post", "hold_feet", False)
FOLLOW = ("post", "follow_feet", 0.0)
AHEAD = ("trajectory", "learned_ahead", 0.0)
OURS, STEPS, CHANCE, GROUND_TRUTH, DATABASE = "ours", "steps", "chance", "ground_truth", "database"
CHAIN_ROWS: tuple[Row, ...] = (
    Row(OURS, "the avatar with the given settings"),
    Row("fused", "camera landmarks correct the facing: simulated for clips, recorded for sessions", camera=True),
    Row("true_facing", "the true facing of the pelvis replaces the predicted one", true_facing=True),
    Row(
        "hmd_forward",
        "the facing is the forward direction of the headset",
        (("orientation", "predictor", "hmd_forward"),),
    ),
    Row(
        "drag",
        "no matching: a standing pose follows the desired position",
        (("post", "foot_lock", False),),
        drag=True,
    ),
    Row("no_foot_lock", "matching without foot lock", (("post", "foot_lock", False),)),
    Row(
        "brute",
        "brute-force search; its poses must equal those of 'ours'",
        (("matcher", "search_structure", "brute"),),
    ),
    Row(
        "learned",
        "learned engine instead of the search; only if --rows names it",
        (("matcher", "engine", "learned"),),
        asked_only=True,
    ),
    Row(
        "no_steps",
        "no use of the user's estimated feet; only if --rows names it",
        (SEARCH, HOLD, FOLLOW, AHEAD),
        asked_only=True,
    ),
    Row(
        "steps_search",
        "estimated feet used only in the search; only if --rows names it",
        (HOLD, FOLLOW, AHEAD),
        asked_only=True,
    ),
    Row(
        "steps_hold",
        "estimated feet used only in the foot lock; only if --rows names it",
        (SEARCH, FOLLOW, AHEAD),
        asked_only=True,
    ),
    Row(
        "steps_follow",
        "estimated feet used only by IK; only if --rows names it",
        (SEARCH, HOLD, AHEAD),
        asked_only=True,
    ),
    Row(
        "true_feet",
        "the user's true feet replace the estimated ones (upper limit); only if --rows names it",
        asked_only=True,
        true_feet=True,
    ),
)
# For the rows in DERIVED, no avatar is run: their values are computed from runs of other rows or from the data.
DERIVED = {
    STEPS: "the estimator of the user's feet alone, without the avatar",
    CHANCE: "feet of 'ours' compared with the user's feet at other times, which shows agreement by chance",
    GROUND_TRUTH: "the motion of the clips themselves",
    DATABASE: "the motion of the database",
}
ROW_NAMES = (OURS, *DERIVED, *(r.name for r in CHAIN_ROWS[1:]))
MEANINGS = {**{r.name: r.meaning for r in CHAIN_ROWS}, **DERIVED}


def chosen(names: str) -> tuple[Row, ...]:
    """Return the rows of the evaluation that the comma-separated list `names` names, and the row `ours`. An empty list
    selects all rows that are not marked `asked_only`."""
    wanted = [n.strip() for n in names.split(",") if n.strip()]
    for name in wanted:
        if name not in ROW_NAMES:
            raise MmRosError(f"row '{name}' does not exist. Rows: {', '.join(ROW_NAMES)}")
    return tuple(r for r in CHAIN_ROWS if r.name == "ours" or r.name in wanted or not (wanted or r.asked_only))
