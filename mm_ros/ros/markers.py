"""Markers of one avatar for RViz. One function a thing; the visualizer puts them together."""

from __future__ import annotations

from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Point
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from mm_ros.core.body_shape import room_joints
from mm_ros.core.skeleton import LEFT_FOOT, LEFT_TOES, PARENTS, RIGHT_FOOT, RIGHT_TOES
from mm_ros.core.types import LOST, ROLES, AvatarPose, TrackerFrame, Trajectory
from mm_ros.ros.conversions import WORLD, pose_to_ros, stamp_to_ros

BODY = (0.85, 0.85, 0.9, 1.0)
MATCHED = (0.5, 0.5, 0.55, 0.4)
WISHED = (0.1, 0.6, 1.0, 1.0)
TRACKER = (0.2, 0.9, 0.4, 1.0)
CONTACT = (1.0, 0.8, 0.1, 1.0)
LOCKED = (1.0, 0.3, 0.1, 1.0)
FEATURE = (0.8, 0.3, 1.0, 1.0)


def start_afresh(namespace: str) -> Marker:
    """Goes first: what an earlier run left in RViz is removed."""
    return Marker(ns=namespace, action=Marker.DELETEALL)


def _marker(name: str, index: int, kind: int, color: tuple[float, ...], size: tuple[float, ...]) -> Marker:
    out = Marker(ns=name, id=index, type=kind, action=Marker.ADD)
    out.pose.orientation.w = 1.0
    out.color = ColorRGBA(r=color[0], g=color[1], b=color[2], a=color[3])
    out.scale.x, out.scale.y, out.scale.z = size
    return out


def _points(p: Any) -> list[Point]:
    return [Point(x=x, y=y, z=z) for x, y, z in np.asarray(p, np.float64).tolist()]


def skeleton_lines(name: str, pose: AvatarPose, color: tuple[float, ...], width: float) -> Marker:
    p, _ = room_joints(pose)
    bones = np.stack([p[PARENTS[2:]], p[2:]], axis=1).reshape(-1, 3)
    out = _marker(name, 0, Marker.LINE_LIST, color, (width, 0.0, 0.0))
    out.points = _points(bones)
    return out


def joint_spheres(name: str, pose: AvatarPose) -> Marker:
    p, _ = room_joints(pose)
    out = _marker(name, 0, Marker.SPHERE_LIST, BODY, (0.07, 0.07, 0.07))
    out.points = _points(p[1:])
    return out


def contacts(name: str, pose: AvatarPose) -> list[Marker]:
    p, _ = room_joints(pose)
    out = []
    for side, (foot, toes) in enumerate(((LEFT_FOOT, LEFT_TOES), (RIGHT_FOOT, RIGHT_TOES))):
        if not pose.contacts[side] and not pose.locked[side]:
            gone = _marker(name, side, Marker.CYLINDER, CONTACT, (0.1, 0.1, 0.01))
            gone.action = Marker.DELETE
            out.append(gone)
            continue
        m = _marker(name, side, Marker.CYLINDER, LOCKED if pose.locked[side] else CONTACT, (0.16, 0.16, 0.01))
        middle = (p[foot] + p[toes]) / 2
        m.pose.position.x, m.pose.position.y = float(middle[0]), float(middle[1])
        out.append(m)
    return out


def trackers(name: str, frame: TrackerFrame) -> list[Marker]:
    out = []
    for r in range(len(ROLES)):
        size = (0.08, 0.18, 0.1) if r == 0 else (0.1, 0.04, 0.04)
        m = _marker(name, r, Marker.CUBE, TRACKER, size)
        if frame.state[r] == LOST:
            m.action = Marker.DELETE
        else:
            m.pose = pose_to_ros(np.concatenate([frame.positions[r], frame.rotations[r]]))
        out.append(m)
    return out


def trajectory(name: str, wish: Trajectory) -> list[Marker]:
    """A line over the future places and an arrow for each facing."""
    xy = np.vstack([np.asarray(wish.position, np.float32)[None], wish.positions])
    line = _marker(name, 0, Marker.LINE_STRIP, WISHED, (0.02, 0.0, 0.0))
    line.points = _points(np.column_stack([xy, np.full(len(xy), 0.01)]))
    out = [line]
    for i, (p, d) in enumerate(zip(wish.positions, wish.directions, strict=True), start=1):
        out.append(_arrow(name, i, WISHED, [*p, 0.01], [*d, 0.0], 0.25))
    return out


def _arrow(name: str, index: int, color: tuple[float, ...], at: Any, direction: Any, length: float) -> Marker:
    m = _marker(name, index, Marker.ARROW, color, (0.02, 0.04, 0.05))
    tip = np.asarray(at, float) + length * np.asarray(direction, float)
    m.points = _points([at, tip])
    return m


def feature_vectors(name: str, pose: AvatarPose) -> list[Marker]:
    """Positions of the feet from the root, and velocities of feet and hips: the pose part of the query."""
    p, _ = room_joints(pose)
    line = _marker(name, 0, Marker.LINE_LIST, FEATURE, (0.01, 0.0, 0.0))
    line.points = _points([p[0], p[LEFT_FOOT], p[0], p[RIGHT_FOOT]])
    return [line]


def array(markers: list[Marker], stamp_ns: int, frame: str = WORLD) -> MarkerArray:
    stamp: Time = stamp_to_ros(stamp_ns)
    for m in markers:
        m.header.frame_id, m.header.stamp = frame, stamp
    return MarkerArray(markers=markers)
