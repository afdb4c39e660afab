"""The results of an evaluation as tables of text."""

from __future__ import annotations

from typing import Any

from mm_ros.evaluation.look_ahead import SUFFIXES
from mm_ros.evaluation.rows import ROW_NAMES

# Lines of the printed table: metric, heading, factor, number of digits and statistic.
COLUMNS = (
    ("predicted_facing_error_deg", "predicted facing °", 1, 1, "mean"),
    ("facing_error_deg", "facing °", 1, 1, "mean"),
    ("facing_error_deg", "facing p95 °", 1, 1, "p95"),
    ("facing_error_root_deg", "facing (root) °", 1, 1, "mean"),
    ("target_error_m", "target cm", 100, 1, "mean"),
    ("root_error_m", "root cm", 100, 1, "mean"),
    ("head_error_m", "head cm", 100, 2, "mean"),
    ("head_error_deg", "head °", 1, 2, "mean"),
    ("hand_error_m", "hands p99 cm", 100, 2, "p99"),
    ("hand_error_all_m", "hands, all samples cm", 100, 2, "mean"),
    ("hand_error_all_m", "hands, all samples p99 cm", 100, 2, "p99"),
    ("wrist_bend_deg", "wrist bend, median °", 1, 1, "median"),
    ("wrist_limit_share", "wrist at its limit", 1, 3, ""),
    ("reach_share", "within the user's reach", 1, 3, ""),
    ("solver_reach_share", "within the avatar's reach", 1, 3, ""),
    ("hips_error_cm", "hips cm", 1, 1, "mean"),
    ("hips_height_error_cm", "hips height cm", 1, 1, "mean"),
    ("ankle_error_cm", "ankle, median cm", 1, 1, "median"),
    ("ankle_error_cm", "ankle p95 cm", 1, 1, "p95"),
    ("ankle_error_cm", "ankle, mean cm", 1, 1, "mean"),
    ("knee_error_cm", "knee cm", 1, 1, "mean"),
    ("elbow_error_cm", "elbow cm", 1, 1, "mean"),
    ("chest_error_cm", "chest cm", 1, 1, "mean"),
    ("footfall_f1", "footfalls F1", 1, 2, ""),
    ("footfall_delay_s", "footfall delay s", 1, 3, ""),
    ("same_foot", "same foot", 1, 2, ""),
    ("same_foot_matches", "… of matches", 1, 0, ""),
    ("contact_agreement", "contact agreement", 1, 2, ""),
    ("steps_per_minute", "steps/min", 1, 1, ""),
    ("true_steps_per_minute", "steps/min of the user", 1, 1, ""),
    ("phantom_steps_per_minute", "phantom steps/min", 1, 1, ""),
    ("lean_deg", "added lean p95 °", 1, 1, "p95"),
    ("stance_drift_m", "drift cm", 100, 2, "median"),
    ("stance_twist_deg", "twist °", 1, 1, "median"),
    ("locked_motion_m", "locked foot p99 cm", 100, 2, "p99"),
    ("skate_ratio", "skate", 1, 3, ""),
    ("floor_penetration_m", "floor p99 cm", 100, 2, "p99"),
    ("knee_beyond_straight_deg", "knee beyond straight p99 °", 1, 2, "p99"),
    ("jitter", "jitter m/s³", 1, 0, ""),
    ("jumps_per_s", "jumps/s", 1, 2, ""),
    ("pops_per_min", "pops/min", 1, 1, ""),
    ("start_lag_s", "start lag s", 1, 2, "median"),
    ("stop_lag_s", "stop lag s", 1, 2, "median"),
    *((f"ahead_{k}_error_m", f"{k} ahead cm", 100, 1, "mean") for k in SUFFIXES),
    *((f"ahead_{k}_share", f"{k} ahead / raw", 1, 2, "") for k in SUFFIXES),
    ("standing_ahead_m", "standing ahead p95 cm", 100, 1, "p95"),
    ("step_ms", "step ms", 1, 2, "median"),
)
KIND_COLUMNS = tuple(c for c in COLUMNS if c[0] in (
    "predicted_facing_error_deg", "facing_error_deg", "target_error_m", "root_error_m", "lean_deg"))  # fmt: skip


def cell(row: dict[str, Any], column: tuple[str, str, float, int, str]) -> str:
    metric, _, factor, digits, statistic = column
    value = row.get(metric)
    if isinstance(value, dict):
        value = value.get(statistic)
    return "–" if value is None else f"{value * factor:.{digits}f}"


def lines(summary: dict[str, Any]) -> list[list[str]]:
    """Return the table of an evaluation: first the headings, then one line per metric. The table has one column for the
    avatar and one for each baseline, and leaves out metrics without a value."""
    names = [n for n in ROW_NAMES if n in summary]
    body = [[c[1], *(cell(summary[n], c) for n in names)] for c in COLUMNS]
    return [["", *names], *(line for line in body if set(line[1:]) != {"–"})]


def offset_lines(row: dict[str, Any]) -> list[list[str]]:
    """Return the lines of a table with the offsets between body trackers and joints, or [] without body trackers."""
    offsets = row.get("offsets") or {}
    head = ["offset of", "mean cm", "largest cm", "mean °", "largest °"]
    names = ("mean_cm", "largest_cm", "mean_deg", "largest_deg")
    return [head, *([role, *(f"{v[n]:.1f}" for n in names)] for role, v in offsets.items())] if offsets else []


def interval_line(row: dict[str, Any]) -> str:
    """Return one line with the 95 % confidence intervals of the avatar or a baseline, or "" without intervals."""
    within = row.get("interval_95") or {}
    return "; ".join(f"{name.replace('_', ' ')} {low:.3g} to {high:.3g}" for name, (low, high) in within.items())


def missing_line(missing: dict[str, str]) -> str:
    """Return one sentence that lists the metrics for which the recording lacks reference data, grouped by the missing
    data. If no reference data are missing, return ""."""
    groups: dict[str, list[str]] = {}
    for key, why in missing.items():
        groups.setdefault(why, []).append(key)
    return "; ".join(f"{', '.join(keys)}: {why}" for why, keys in groups.items())


def kind_lines(kinds: dict[str, Any]) -> list[list[str]]:
    head = ["kind", "seconds", *(c[1] for c in KIND_COLUMNS)]
    return [head, *([k, f"{v['seconds']:.0f}", *(cell(v, c) for c in KIND_COLUMNS)] for k, v in kinds.items())]


# Facing errors [deg] of the avatar's hips with real users in Fletcher 2023: with the facing network of Ponton 2022,
# with camera landmarks, and with a waist tracker.
FLETCHER = (28.9, 16.7, 13.3)
FED_IN = ("ours", "fused", "true_facing")


def fletcher_lines(summary: dict[str, Any]) -> list[list[str]]:
    """Return a table that compares the mean errors of the facing with those of Fletcher 2023. The table is empty if
    neither the row `fused` nor the row `true_facing` was evaluated."""
    if not any(n in summary for n in FED_IN[1:]):
        return []
    ours = [
        [name, *(cell(summary.get(n, {}), (metric, "", 1, 1, "mean")) for n in FED_IN)]
        for name, metric in (
            ("ours, hips of the avatar", "facing_error_pelvis_deg"),
            ("ours, hips and shoulders of the avatar", "facing_error_deg"),
            ("ours, predicted facing against the hips", "predicted_facing_error_pelvis_deg"),
        )
    ]
    theirs = ["Fletcher 2023 (other people), hips of the avatar", *(f"{v:.1f}" for v in FLETCHER)]
    return [["facing, mean °", "network", "fused", "true pelvis"], theirs, *ours]


def text(rows: list[list[str]]) -> str:
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    padded = [[v.rjust(w) for v, w in zip(r, widths, strict=True)] for r in rows]
    return "\n".join("  ".join([r[0].ljust(widths[0]), *p[1:]]) for r, p in zip(rows, padded, strict=True))
