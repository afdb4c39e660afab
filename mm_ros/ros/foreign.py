"""Conversions from messages of other ROS packages: images, gamepads, velocity commands, paths and device poses."""

from __future__ import annotations

from typing import Any

import numpy as np
from geometry_msgs.msg import PointStamped, PoseStamped, Twist
from nav_msgs.msg import Path
from numpy.typing import NDArray
from sensor_msgs.msg import Image, Joy
from std_msgs.msg import Float64

from mm_ros.base.errors import MmRosError
from mm_ros.body import plausible
from mm_ros.body.types import U8
from mm_ros.maths.rotations import yaw_of
from mm_ros.ros.conversions import WORLD, pose_from_ros, stamp_from_ros

# Maps each image encoding to the bytes per pixel and to the indices of red, green and blue.
ENCODINGS: dict[str, tuple[int, tuple[int, int, int]]] = {
    "rgb8": (3, (0, 1, 2)), "bgr8": (3, (2, 1, 0)), "rgba8": (4, (0, 1, 2)), "bgra8": (4, (2, 1, 0)),
    "mono8": (1, (0, 0, 0)),
}  # fmt: skip


def image_from_ros(msg: Image) -> U8:
    """Return the pixels (H, W, 3) of an image message; the channels are red, green and blue."""
    if msg.encoding not in ENCODINGS:
        raise MmRosError(f"image encoding '{msg.encoding}' is not among {', '.join(ENCODINGS)}")
    channels, order = ENCODINGS[msg.encoding]
    height, width, step = int(msg.height), int(msg.width), int(msg.step)
    data = np.frombuffer(msg.data, np.uint8)
    if step < width * channels or len(data) < height * step:
        raise MmRosError(f"image: {len(data)} bytes, {step} per row, are too few for {width} × {height} {msg.encoding}")
    rows = data[: height * step].reshape(height, step)[:, : width * channels]
    return np.ascontiguousarray(rows.reshape(height, width, channels)[:, :, list(order)])


# Indices of the gamepad's axes and buttons in messages of the ROS package `joy`. With the left stick the user moves the
# avatar, and with the right stick the user turns it.
_MOVE_AXES, _LOOK_AXES = (1, 0), (4, 3)
_STRAFE_BUTTON, _JOG_BUTTON, _SPRINT_BUTTON = 4, 5, 0


def joy_from_ros(msg: Joy) -> dict[str, Any]:
    """Return the arguments of `JoystickStage.step` from a message of a gamepad. Axes that the message lacks are 0, and
    buttons that the message lacks count as released."""

    def axis(i: int) -> float:
        return float(msg.axes[i]) if i < len(msg.axes) else 0.0

    def pressed(i: int) -> bool:
        return i < len(msg.buttons) and bool(msg.buttons[i])

    plausible.check("joy axes", np.array(msg.axes, np.float64), "stick")
    gait = "sprint" if pressed(_SPRINT_BUTTON) else "jog" if pressed(_JOG_BUTTON) else "walk"
    return {
        "move": (axis(_MOVE_AXES[0]), axis(_MOVE_AXES[1])),
        "look": (axis(_LOOK_AXES[0]), axis(_LOOK_AXES[1])),
        "gait": gait,
        "strafe": pressed(_STRAFE_BUTTON),
    }


def twist_from_ros(msg: Twist) -> tuple[float, float, float]:
    """Return the forward velocity [m/s], the left velocity [m/s] and the turn rate [rad/s] of a velocity command."""
    plausible.check("cmd_vel", np.array([msg.linear.x, msg.linear.y, msg.angular.z]), "command")
    return msg.linear.x, msg.linear.y, msg.angular.z


def heading_from_ros(msg: Float64) -> float:
    """Return the yaw of a camera in the world [rad] from a message of the topic `camera_heading`."""
    plausible.check("camera_heading", np.array([msg.data]), "command")
    return float(msg.data)


def _check_frame(what: str, came: str, frame: str) -> None:
    if came not in ("", frame):
        raise MmRosError(f"{what}: expected frame '{frame}', came '{came}'")


def goal_from_ros(msg: PoseStamped, frame: str = WORLD) -> tuple[NDArray[np.float64], float]:
    """Return the point (2,) on the floor [m] and the heading [rad] of a goal pose."""
    _check_frame("goal_pose", msg.header.frame_id, frame)
    pose = pose_from_ros(msg.pose)
    plausible.check_pose("goal_pose", pose, tolerance=plausible.LOOSE_TOLERANCE)
    return pose[:2], float(yaw_of(pose[3:]))


def point_from_ros(msg: PointStamped, frame: str = WORLD) -> NDArray[np.float64]:
    """Return the position (2,) on the floor [m] of a point that the user has clicked in RViz."""
    _check_frame("clicked_point", msg.header.frame_id, frame)
    point = np.array([msg.point.x, msg.point.y], np.float64)
    plausible.check("clicked_point", point, "position")
    return point


def headings_from_ros(msg: Path) -> NDArray[np.float64]:
    """Return the headings (N,) [rad] of the N poses in a message with a path."""
    q = np.array([[getattr(p.pose.orientation, k) for k in "wxyz"] for p in msg.poses], np.float64)
    if not (np.abs(np.linalg.norm(q, axis=-1) - 1) < plausible.LOOSE_TOLERANCE).all():
        raise MmRosError("path: `headings` needs orientations of length 1 in all poses")
    return np.asarray(yaw_of(q), np.float64)


def path_from_ros(msg: Path, frame: str = WORLD) -> NDArray[np.float64]:
    """Return the key points (N, 2) on the floor [m] of a path message."""
    _check_frame("path", msg.header.frame_id, frame)
    plausible.check("path", len(msg.poses), "points")
    points = np.array([(p.pose.position.x, p.pose.position.y) for p in msg.poses], np.float64)
    plausible.check("path", points, "position")
    return points


def pose_stamped_from_ros(msg: PoseStamped) -> tuple[int, NDArray[np.float64]]:
    """Return the stamp [ns] (0 if the message has no stamp) and the pose (x, y, z, qw, qx, qy, qz) of a device."""
    pose = pose_from_ros(msg.pose)
    plausible.check_pose("pose of a device", pose, tolerance=plausible.LOOSE_TOLERANCE)
    return stamp_from_ros(msg.header.stamp), pose
