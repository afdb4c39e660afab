"""Make serialized messages for every input of the ROS graph, and read them in the same way as the nodes.

The first line of each damaged file is the topic of the message. All numbers of an
accepted message must be finite, and so must the results of the stages that process messages of other programs.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from geometry_msgs.msg import PointStamped, PoseStamped, Twist
from nav_msgs.msg import Path as PathMsg
from rclpy.serialization import serialize_message
from sensor_msgs.msg import Image, Joy
from std_msgs.msg import Float64

from mm_ros.base.errors import MmRosError
from mm_ros.body.clip import Clip
from mm_ros.body.landmarks import Landmarks
from mm_ros.body.skeleton import default_skeleton
from mm_ros.body.types import BodyOrientation, Calibration, rest_pose, still_trajectory
from mm_ros.motion.features import HORIZON_S, default_layout
from mm_ros.ros import cdr, foreign, graph
from mm_ros.ros import conversions as convert
from mm_ros.ros.qos import message_class
from mm_ros.ros.wire import KINDS, Wire
from mm_ros.tracking.simulation import Simulation, simulate_clip
from mm_ros.trajectory.joystick import JoystickSettings, JoystickStage
from mm_ros.trajectory.path import PathSettings, PathStage

STAMP_NS = 1_000_000_000


def _steered(**input_: Any) -> Any:
    stage = JoystickStage(JoystickSettings(), HORIZON_S)
    stage.step(STAMP_NS, **input_)
    return stage.step(2 * STAMP_NS, **input_)


def _twisted(forward: float, left: float, turn: float) -> Any:
    stage = JoystickStage(JoystickSettings(), HORIZON_S)
    stage.step_twist(STAMP_NS, (forward, left), turn)
    return stage.step_twist(2 * STAMP_NS, (forward, left), turn)


def _along(msg: PathMsg) -> Any:
    stage = PathStage(PathSettings(), HORIZON_S)
    stage.set_path(foreign.path_from_ros(msg))
    stage.step(STAMP_NS)
    return stage.step(2 * STAMP_NS)


READERS = {
    "calibration": convert.calibration_from_ros,
    "skeleton": convert.skeleton_from_ros,
    "feature_layout": convert.trajectory_times_from_ros,
    "landmarks": convert.landmarks_from_ros,
    "joy": lambda msg: _steered(**foreign.joy_from_ros(msg)),
    "cmd_vel": lambda msg: _twisted(*foreign.twist_from_ros(msg)),
    "camera_heading": foreign.heading_from_ros,
    "/goal_pose": foreign.goal_from_ros,
    "/clicked_point": foreign.point_from_ros,
    "path": _along,
    "head_pose": foreign.pose_stamped_from_ros,
    "image": foreign.image_from_ros,
}


def messages(clip: Clip) -> tuple[bytes, ...]:
    frame = simulate_clip(clip, Simulation()).frame(5)
    skeleton = default_skeleton()
    path = PathMsg(poses=[PoseStamped() for _ in range(4)])
    for i, pose in enumerate(path.poses):
        pose.pose.position.x, pose.pose.orientation.w = float(i), 1.0
    goal, image = PoseStamped(), Image(height=4, width=4, encoding="rgb8", step=12, data=bytes(48))
    goal.pose.orientation.w = 1.0
    made = {
        "trackers": convert.trackers_to_ros(frame),
        "body_orientation": convert.orientation_to_ros(BodyOrientation(STAMP_NS, 1, 0.1, 0.0, 0.1, "network")),
        "trajectory": convert.trajectory_to_ros(still_trajectory(HORIZON_S)),
        "matched_pose": convert.avatar_pose_to_ros(rest_pose(skeleton, STAMP_NS)),
        "calibration": convert.calibration_to_ros(Calibration(), STAMP_NS),
        "skeleton": convert.skeleton_to_ros(skeleton, STAMP_NS, "avatar"),
        "feature_layout": convert.feature_layout_to_ros(default_layout(), STAMP_NS),
        "landmarks": convert.landmarks_to_ros(Landmarks(0, np.zeros((33, 3)), np.ones(33, np.float32))),
        "joy": Joy(axes=[0.1, 0.9, 0.0, 0.2, 0.3], buttons=[0, 1, 0, 0, 1, 0]),
        "cmd_vel": Twist(), "camera_heading": Float64(data=0.5), "/goal_pose": goal, "head_pose": goal,
        "/clicked_point": PointStamped(), "path": path, "image": image,
    }  # fmt: skip
    return tuple(topic.encode() + b"\n" + bytes(serialize_message(msg)) for topic, msg in made.items())


def take(path: Path) -> None:
    name, _, raw = path.read_bytes().partition(b"\n")
    topic = name.decode(errors="replace")
    cdr.stamp_of(raw)
    if topic in KINDS:
        value = Wire(topic, "map").value(raw)
    elif topic in READERS:
        value = READERS[topic](cdr.deserialized(raw, message_class(graph.TOPICS[topic].type)))
    else:
        raise MmRosError("no topic of the graph")
    assert _is_finite(value), f"{topic}: a number that is not finite"


def _is_finite(value: Any) -> bool:
    if is_dataclass(value):
        return all(_is_finite(getattr(value, f.name)) for f in fields(value))
    if isinstance(value, (tuple, list)):
        return all(map(_is_finite, value))
    if isinstance(value, (float, np.ndarray)) and np.asarray(value).dtype.kind == "f":
        return bool(np.isfinite(value).all())
    return True
