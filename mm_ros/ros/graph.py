"""The graph, described once: topics with type and QoS, nodes with inputs, outputs and settings.

Nodes, launch files, `mm_ros up`, the docs' tables and the tests all read this file. It imports no ROS.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from mm_ros.base.errors import MmRosError
from mm_ros.base.settings import Settings, setting
from mm_ros.sessions.paths import KEPT

LIVE = 5  # messages


@dataclass(frozen=True)
class Qos:
    """What a topic's publisher offers, and what a subscription inside the live chain asks for.

    A publisher keeps `depth` messages, so that a reliable listener that stalls for 2 s loses nothing. A subscription of
    the chain keeps `live_depth`: after a stall the newest samples are processed, and the older ones are dropped.
    """

    reliable: bool = True
    latched: bool = False  # transient local
    depth: int = KEPT
    live_depth: int = LIVE
    live_reliable: bool | None = None  # None: as the publisher


STREAM = Qos()
DRAWN = Qos(depth=64)  # 2 s at 30 Hz
TRACKERS = Qos(live_reliable=False)
LATCHED = Qos(latched=True, depth=1, live_depth=1)
TF = Qos(live_depth=100)
SENSOR = Qos(reliable=False, depth=LIVE)
CLOCK = Qos(live_reliable=False)


@dataclass(frozen=True)
class Topic:
    """A relative name lives in the avatar's namespace."""

    name: str
    type: str
    qos: Qos
    meaning: str
    rate: str = "trackers' rate"

    @property
    def in_world(self) -> bool:
        """Its header names the world frame; landmarks are in the camera's."""
        return self.type.startswith("mm_ros/msg/") and self.name != "landmarks"


TOPICS: dict[str, Topic] = {
    t.name: t
    for t in (
        Topic("trackers", "mm_ros/msg/TrackerArray", TRACKERS, "head, hands and what else is worn, gated, in `map`"),
        Topic("calibration", "mm_ros/msg/Calibration", LATCHED, "the user's measures", "when it changes"),
        Topic("truth", "mm_ros/msg/AvatarPose", STREAM, "the body of a synthetic or mocap user, for comparison"),
        Topic("truth_skeleton", "mm_ros/msg/Skeleton", LATCHED, "the skeleton of `truth`", "when it changes"),
        Topic("body_orientation", "mm_ros/msg/BodyOrientation", STREAM, "where the pelvis faces, with uncertainty"),
        Topic("trajectory", "mm_ros/msg/Trajectory", STREAM, "where the body is and goes, up to 1 s ahead"),
        Topic("matched_pose", "mm_ros/msg/AvatarPose", STREAM, "what motion matching plays"),
        Topic("match", "mm_ros/msg/Match", STREAM, "why that pose"),
        Topic("skeleton", "mm_ros/msg/Skeleton", LATCHED, "the avatar's joints and rest pose", "when it changes"),
        Topic("feature_layout", "mm_ros/msg/FeatureLayout", LATCHED, "what the matcher compares, and the times that `trajectory` is to give", "when it changes"),
        Topic("pose", "mm_ros/msg/AvatarPose", STREAM, "the avatar"),
        Topic("joint_states", "sensor_msgs/msg/JointState", STREAM, "revolute joints of a URDF given by the user"),
        Topic("robot_description", "std_msgs/msg/String", LATCHED, "URDF: the avatar's capsules, or the user's robot", "when it changes"),
        Topic("markers", "visualization_msgs/msg/MarkerArray", DRAWN, "for RViz: feet, trackers, facing, trajectories, path", "30 Hz"),
        Topic("markers/match", "visualization_msgs/msg/MarkerArray", DRAWN, "for RViz: clip and cost, features, matched pose, candidates", "30 Hz, when subscribed"),
        Topic("markers/motion", "visualization_msgs/msg/MarkerArray", DRAWN, "for RViz: the avatar's joints and velocity", "30 Hz, when subscribed"),
        Topic("markers/truth", "visualization_msgs/msg/MarkerArray", DRAWN, "for RViz: the body of a synthetic or mocap user", "30 Hz, when subscribed"),
        Topic("image", "sensor_msgs/msg/Image", SENSOR, "a camera's pictures, for `pose_estimator`", "camera's rate"),
        Topic("landmarks", "mm_ros/msg/Landmarks", STREAM, "webcam pose estimate", "camera's rate"),
        Topic("joy", "sensor_msgs/msg/Joy", SENSOR, "gamepad for `control:=joystick`", "device's rate"),
        Topic("cmd_vel", "geometry_msgs/msg/Twist", SENSOR, "velocity command for `control:=joystick`", "device's rate"),
        Topic("path", "nav_msgs/msg/Path", Qos(depth=1, live_depth=1), "key points for `control:=path`", "when it changes"),
        Topic("head_pose", "geometry_msgs/msg/PoseStamped", SENSOR, "headset of another bridge", "device's rate"),
        Topic("left_pose", "geometry_msgs/msg/PoseStamped", SENSOR, "left controller of another bridge", "device's rate"),
        Topic("right_pose", "geometry_msgs/msg/PoseStamped", SENSOR, "right controller of another bridge", "device's rate"),
        Topic("/tf", "tf2_msgs/msg/TFMessage", TF, "map → <avatar>/root → joints; trackers"),
        Topic("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", STREAM, "health of each node", "1 Hz"),
        Topic("/clock", "rosgraph_msgs/msg/Clock", CLOCK, "simulated time of a replay", "replay only"),
    )
}  # fmt: skip


@dataclass(frozen=True)
class FrameSettings(Settings):
    """Parameters of every node."""

    world_frame: str = setting(
        "map", "name of the room's frame: parent of <avatar>/root on TF, and in the header of each message", live=False
    )


@dataclass(frozen=True)
class Node:
    """`settings`: "module:Class" of each settings dataclass whose fields are the node's own parameters."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    settings: tuple[str, ...]
    meaning: str
    controls: tuple[str, ...] = ("vr", "joystick", "path")  # values of control:= that start it
    optional: bool = False  # started only when asked for

    def settings_types(self) -> tuple[Any, ...]:
        return tuple(_load(path) for path in self.settings)

    def node_class(self) -> Any:
        """`motion_matcher` → mm_ros.ros.nodes.motion_matcher.MotionMatcher"""
        return _load(f"mm_ros.ros.nodes.{self.name}:{self.name.title().replace('_', '')}")


def _load(path: str) -> Any:
    module, name = path.split(":")
    return getattr(importlib.import_module(module), name)


NODES: tuple[Node, ...] = (
    Node(
        "tracker_bridge",
        ("head_pose", "left_pose", "right_pose"),
        ("trackers", "calibration", "truth", "truth_skeleton", "landmarks", "/tf"),
        (
            "mm_ros.ros.nodes.tracker_bridge:BridgeSettings",
            "mm_ros.tracking.gate:GateSettings",
            "mm_ros.tracking.calibration:CalibrationSettings",
        ),
        "one clock, one frame, validity gate, calibration",
        controls=("vr",),
    ),
    Node(
        "orientation_predictor",
        ("trackers", "landmarks", "calibration"),
        ("body_orientation",),
        ("mm_ros.facing.orientation:OrientationSettings", "mm_ros.facing.fusion:FusionSettings"),
        "where the body faces, by a small network, corrected by camera or worn trackers where there are any",
        controls=("vr",),
    ),
    Node(
        "pose_estimator",
        ("image",),
        ("landmarks",),
        ("mm_ros.ros.nodes.pose_estimator:EstimatorSettings",),
        "a person's landmarks in a camera's pictures, by BlazePose",
        controls=("vr",),
        optional=True,
    ),
    Node(
        "trajectory_predictor",
        ("trackers", "body_orientation", "calibration", "feature_layout"),
        ("trajectory",),
        ("mm_ros.trajectory.from_trackers:TrajectorySettings", "mm_ros.ros.nodes.trajectory_predictor:StaleSettings"),
        "where the body is and where it goes",
        controls=("vr",),
    ),
    Node(
        "joystick_control",
        ("joy", "cmd_vel", "feature_layout"),
        ("trajectory",),
        ("mm_ros.trajectory.joystick:JoystickSettings",),
        "gamepad or Twist instead of trackers",
        controls=("joystick",),
    ),
    Node(
        "path_control",
        ("path", "feature_layout"),
        ("trajectory",),
        ("mm_ros.trajectory.path:PathSettings",),
        "key points instead of trackers",
        controls=("path",),
    ),
    Node(
        "motion_matcher",
        ("trajectory", "landmarks", "calibration"),
        ("matched_pose", "match", "skeleton", "feature_layout"),
        ("mm_ros.matching.matcher:MatcherSettings", "mm_ros.ros.nodes.motion_matcher:DatabaseSettings"),
        "search, play, root control",
    ),
    Node(
        "pose_postprocessor",
        ("matched_pose", "trackers", "calibration", "skeleton"),
        ("pose", "/tf", "joint_states", "robot_description"),
        ("mm_ros.pose.postprocess:PostSettings", "mm_ros.ros.nodes.pose_postprocessor:TfSettings"),
        "inertialization, head and hands on the trackers, foot lock, TF",
    ),
    Node(
        "visualizer",
        ("pose", "matched_pose", "truth", "trackers", "body_orientation", "trajectory", "match", "path"),
        ("markers", "markers/match", "markers/motion", "markers/truth"),
        ("mm_ros.ros.nodes.visualizer:VisualizerSettings",),
        "markers for RViz",
        optional=True,
    ),
    Node(
        "viewer",
        ("pose", "matched_pose", "truth", "trackers", "trajectory", "match", "landmarks", "skeleton", "truth_skeleton"),
        (),
        ("mm_ros.ros.nodes.viewer:ViewerSettings",),
        "a page in the browser, for all avatars",
        optional=True,
    ),
)


def node(name: str) -> Node:
    for n in NODES:
        if n.name == name:
            return n
    raise MmRosError(f"node '{name}' does not exist. Nodes: {', '.join(n.name for n in NODES)}")


def nodes_for(control: str = "vr", extra: Collection[str] = ()) -> tuple[Node, ...]:
    """Nodes that a launch starts: those of this control, and the optional ones named in `extra`."""
    chosen = tuple(n for n in NODES if control in n.controls and (not n.optional or n.name in extra))
    if not any("trajectory" in n.outputs for n in chosen):
        raise MmRosError(f"control '{control}' does not exist. Controls: vr, joystick, path")
    return chosen
