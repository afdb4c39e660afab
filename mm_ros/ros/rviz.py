"""Writes an RViz configuration with displays for the topics and frames of the given avatars.

The launch files write an RViz configuration at each start. The file `rviz/avatar.rviz` is the configuration for the
default avatar. In RViz 14, a property is expanded only if its parents are expanded. RViz joins the property `TF Prefix`
and a link's name by a slash. A display that is switched off in RViz does not subscribe to its topic. The property
`Namespaces` lists the hidden namespaces of a marker display.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import yaml

from mm_ros.body.types import F64
from mm_ros.ros import graph

_HEAD = "# Made by mm_ros/ros/rviz.py. The launch files write one for the avatars that they start (rviz:=true).\n"
FARTHEST_M = 30.0


@dataclass(frozen=True)
class MarkerDisplay:
    """RViz display for a topic with markers, which are not computed while the display is switched off in RViz."""

    title: str
    topic: str
    shown: bool
    namespaces: tuple[str, ...]


MARKERS: tuple[MarkerDisplay, ...] = (
    MarkerDisplay(
        "Markers", "markers", True,
        ("feet", "user_feet", "trackers", "facing", "trajectory", "matched_trajectory"),
    ),
    MarkerDisplay("Match", "markers/match", False, ("text", "features", "matched_pose", "candidates")),
    MarkerDisplay("Motion", "markers/motion", False, ("skeleton", "velocity")),
    MarkerDisplay("True body", "markers/truth", False, ("truth",)),
    MarkerDisplay("Path", "markers/path", True, ("path",)),
)


def rviz_config(
    avatars: Sequence[str], world_frame: str = "map", robot: bool = False,
    places: Sequence[tuple[float, float]] = ((0.0, 0.0),),
) -> str:  # fmt: skip
    """Return the text of an RViz configuration file for the avatars `avatars`. If `robot` is true, RViz also shows the
    user's robot, whose links are frames below `<avatar>/robot/`. `places` are the positions (x, y) of the users' rooms
    in the world [m]. The camera follows the first avatar and looks at the middle of the rooms."""
    each = [_avatar(name, robot) for name in avatars]
    displays = [_floor(), *(each[0] if len(each) == 1 else map(_group, avatars, each)), _frames()]
    paths = [""] if len(each) == 1 else [f"/{name}1" for name in avatars]
    expanded = [p for p in paths if p] + [f"{p}/Markers1{end}" for p in paths for end in ("", "/Namespaces1")]
    view = _view(avatars[0], np.array(places))
    return _HEAD + yaml.safe_dump(_window(displays, expanded, view, world_frame), sort_keys=False)


def _window(displays: list[Any], expanded: list[str], view: dict[str, Any], world_frame: str) -> dict[str, Any]:
    # With the RViz tools SetGoal and PublishPoint, the user sets a path for the avatar.
    tools = ("MoveCamera", "Select", "FocusCamera", "Measure", "SetGoal", "PublishPoint")
    return {
        "Panels": [
            {
                "Class": "rviz_common/Displays", "Help Height": 0, "Name": "Displays", "Tree Height": 500,
                "Property Tree Widget": {"Expanded": expanded, "Splitter Ratio": 0.5},
            },
            {"Class": "rviz_common/Views", "Expanded": ["/Current View1"], "Name": "Views", "Splitter Ratio": 0.5},
        ],
        "Visualization Manager": {
            "Class": "", "Displays": displays, "Enabled": True,
            "Global Options": {"Background Color": "40; 42; 48", "Fixed Frame": world_frame, "Frame Rate": 30},
            "Name": "root", "Tools": [{"Class": f"rviz_default_plugins/{t}"} for t in tools], "Value": True,
            "Views": {"Current": view, "Saved": None},
        },
        # Without the two keys, RViz 14 decides by an uninitialised variable whether it hides the panels at each side.
        "Window Geometry": {
            "Height": 900, "Width": 1400, "X": 60, "Y": 60, "Hide Left Dock": False, "Hide Right Dock": False,
        },
    }  # fmt: skip


def _view(avatar: str, places: F64) -> dict[str, Any]:
    low, high = places.min(0), places.max(0)
    x, y = ((low + high) / 2 - places[0]).tolist()
    return {
        "Class": "rviz_default_plugins/Orbit", "Distance": min(4.5 + math.dist(low, high), FARTHEST_M),
        "Focal Point": {"X": x, "Y": y, "Z": 0.9}, "Name": "Current View", "Near Clip Distance": 0.01,
        "Pitch": 0.25, "Target Frame": f"{avatar}/root", "Value": "Orbit (rviz)", "Yaw": 0.8,
    }  # fmt: skip


def _floor() -> dict[str, Any]:
    return {
        "Alpha": 0.4, "Cell Size": 0.5, "Class": "rviz_default_plugins/Grid", "Color": "130; 130; 135", "Enabled": True,
        "Line Style": {"Line Width": 0.03, "Value": "Lines"}, "Name": "Floor", "Normal Cell Count": 0,
        "Offset": {"X": 0, "Y": 0, "Z": 0}, "Plane": "XY", "Plane Cell Count": 40,
        "Reference Frame": "<Fixed Frame>", "Value": True,
    }  # fmt: skip


def _group(name: str, displays: list[dict[str, Any]]) -> dict[str, Any]:
    return {"Class": "rviz_common/Group", "Displays": displays, "Enabled": True, "Name": name}


def _avatar(name: str, robot: bool) -> list[dict[str, Any]]:
    bodies = [_model(name, "Body", "robot_description", "")]
    bodies += [_model(name, "Robot", "robot/robot_description", f"{name}/robot")] if robot else []
    return [*bodies, *(_markers(name, m) for m in MARKERS)]


def _model(avatar: str, title: str, topic: str, prefix: str) -> dict[str, Any]:
    return {
        "Alpha": 1, "Class": "rviz_default_plugins/RobotModel", "Collision Enabled": False, "Description File": "",
        "Description Source": "Topic", "Description Topic": _topic(avatar, topic), "Enabled": True,
        "Mass Properties": {"Inertia": False, "Mass": False}, "Name": title,
        "TF Prefix": prefix, "Update Interval": 0, "Value": True, "Visual Enabled": True,
    }  # fmt: skip


def _markers(name: str, m: MarkerDisplay) -> dict[str, Any]:
    return {
        "Class": "rviz_default_plugins/MarkerArray", "Enabled": m.shown, "Name": m.title,
        "Namespaces": dict.fromkeys(m.namespaces, True), "Topic": _topic(name, m.topic), "Value": m.shown,
    }  # fmt: skip


def _frames() -> dict[str, Any]:
    """Return the TF display, which is disabled by default, because hundreds of frames slow RViz down (rviz#1727)."""
    return {
        "Class": "rviz_default_plugins/TF", "Enabled": False, "Filter (blacklist)": "", "Filter (whitelist)": "",
        "Frame Timeout": 2, "Frames": {"All Enabled": True}, "Marker Scale": 0.3, "Name": "TF", "Show Arrows": False,
        "Show Axes": True, "Show Names": False, "Tree": {}, "Update Interval": 0.05, "Value": False,
    }  # fmt: skip


def _topic(avatar: str, name: str) -> dict[str, Any]:
    qos = graph.TOPICS[name].qos
    return {
        "Depth": qos.live_depth, "Durability Policy": "Transient Local" if qos.latched else "Volatile",
        "History Policy": "Keep Last", "Reliability Policy": "Reliable" if qos.reliable else "Best Effort",
        "Value": f"/{avatar}/{name}",
    }  # fmt: skip
