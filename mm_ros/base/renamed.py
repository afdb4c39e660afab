"""Former names of parameters and values, which are refused with an error message that states the new name."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from mm_ros.base.errors import MmRosError
from mm_ros.base.files import read_yaml

# Maps a node and a former name of a parameter to its present name, or to NODE.NAME if another node has it now.
PARAMETERS: dict[tuple[str, str], str] = {
    ("trajectory_predictor", "aside"): "lateral",
    ("trajectory_predictor", "aside_halflife"): "lateral_halflife",
    ("orientation_predictor", "use_worn"): "use_body_trackers",
    ("orientation_predictor", "learn_worn"): "learn_mounting",
    ("orientation_predictor", "network_doubt"): "network_sigma_factor",
    ("pose_estimator", "least_detection"): "min_detection_confidence",
    ("pose_estimator", "least_presence"): "min_presence_confidence",
    ("pose_postprocessor", "urdf"): "robot_follower.urdf",
    ("pose_postprocessor", "urdf_t_pose"): "robot_follower.urdf_t_pose",
}
VALUES: dict[tuple[str, str, str], str] = {  # maps a node, a parameter and its former value to the present setting
    ("motion_matcher", "engine", name): f"search_structure: {name}" for name in ("tree", "boxes", "brute")
}


def refuse_renamed(node: str, name: str, value: Any = None, for_all_nodes: bool = False) -> None:
    """Refuse a parameter that has a former name or a former value. `for_all_nodes` states that the parameter may have
    been given to all nodes. Then a name is valid that another node has now."""
    present = PARAMETERS.get((node, name), "")
    if present and not (for_all_nodes and present.endswith(f".{name}")):
        raise MmRosError(f"{node}: the parameter '{name}' is now named '{present}'")
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
        for_all = name in ("*", "**")
        for node in {n for n, *_ in (*PARAMETERS, *VALUES)} if for_all else (name,):
            for parameter, value in values.items() if isinstance(values, dict) else ():
                refuse_renamed(node, str(parameter), value, for_all)


def refuse_renamed_arguments(node: str, words: Sequence[str]) -> None:
    """Refuse former names of parameters in the ROS arguments `words` of a process that runs the one node `node`."""
    if not any(node == owner for owner, *_ in (*PARAMETERS, *VALUES)):
        return
    for option, text in pairwise(words):
        if option == "--params-file":
            refuse_renamed_in(read_yaml(text))
        elif option in ("-p", "--param"):
            name, _, value = text.partition(":=")
            refuse_renamed(node, name, value)
