"""Former names of parameters and values, which are refused with an error message that states the new name."""

from __future__ import annotations

from typing import Any

from mm_ros.base.errors import MmRosError

PARAMETERS: dict[tuple[str, str], str] = {  # maps a node and a former name of a parameter to its present name
    ("trajectory_predictor", "aside"): "lateral",
    ("trajectory_predictor", "aside_halflife"): "lateral_halflife",
    ("orientation_predictor", "use_worn"): "use_body_trackers",
    ("orientation_predictor", "learn_worn"): "learn_mounting",
    ("orientation_predictor", "network_doubt"): "network_sigma_factor",
    ("pose_estimator", "least_detection"): "min_detection_confidence",
    ("pose_estimator", "least_presence"): "min_presence_confidence",
}
VALUES: dict[tuple[str, str, str], str] = {  # maps a node, a parameter and its former value to the present setting
    ("motion_matcher", "engine", name): f"search_structure: {name}" for name in ("tree", "boxes", "brute")
}


def refuse_renamed(node: str, name: str, value: Any = None) -> None:
    if (node, name) in PARAMETERS:
        raise MmRosError(f"{node}: the parameter '{name}' is now named '{PARAMETERS[node, name]}'")
    if isinstance(value, str) and (node, name, value) in VALUES:
        raise MmRosError(f"{node}: '{name}: {value}' is now written '{VALUES[node, name, value]}'")


def refuse_renamed_in(content: Any) -> None:
    """Refuse a parameter file that contains former names of parameters or values. All other mistakes in a parameter
    file are reported by the nodes."""
    for key, section in content.items() if isinstance(content, dict) else ():
        values = section.get("ros__parameters") if isinstance(section, dict) else None
        if values is None:
            refuse_renamed_in(section)  # `key` is a namespace, whose section in the parameter file contains nodes.
            continue
        name = str(key).rsplit("/", 1)[-1]
        for node in {n for n, *_ in (*PARAMETERS, *VALUES)} if name in ("*", "**") else (name,):
            for parameter, value in values.items() if isinstance(values, dict) else ():
                refuse_renamed(node, str(parameter), value)
