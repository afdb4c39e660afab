"""Makes the RViz markers of one avatar; each kind of marker has its own function.

RViz removes a marker that is not sent again within LIFETIME_S, so the markers disappear after the node `visualizer`
ends. Single markers are removed by DELETE. DELETEALL is not sent: RViz 14 would remove all markers of the namespace, or
of the whole topic if the namespace is empty, and would draw them anew in each frame.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from builtin_interfaces.msg import Duration, Time
from geometry_msgs.msg import Point
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from mm_ros.body.shape import room_joints
from mm_ros.body.skeleton import HEAD, LEFT_FOOT, LEFT_TOES, RIGHT_FOOT, RIGHT_TOES, default_skeleton
from mm_ros.body.types import LOST, ROLES, AvatarPose, BodyOrientation, FeetEstimate, TrackerFrame, Trajectory
from mm_ros.maths import rotations as rot
from mm_ros.msg import Match
from mm_ros.ros.conversions import WORLD, pose_to_ros, stamp_to_ros

Color = tuple[float, float, float, float]

JOINTS: Color = (0.95, 0.95, 1.0, 1.0)
MATCHED: Color = (0.6, 0.6, 0.65, 0.6)
CANDIDATE: Color = (0.6, 0.45, 0.8, 0.35)
TRUTH: Color = (0.84, 0.72, 0.5, 0.9)
DESIRED: Color = (0.12, 0.55, 1.0, 1.0)
FOUND: Color = (0.95, 0.55, 0.12, 1.0)
FACING: Color = (0.3, 0.85, 0.9, 1.0)
TRACKER: Color = (0.2, 0.9, 0.4, 1.0)
CONTACT: Color = (1.0, 0.8, 0.1, 0.9)
LOCKED: Color = (1.0, 0.25, 0.05, 1.0)
VELOCITY: Color = (1.0, 0.3, 0.8, 1.0)
USER_FEET: Color = (0.2, 0.9, 0.4, 0.5)
PATH: Color = (0.5, 0.8, 0.5, 1.0)
WALKED: Color = (0.5, 0.8, 0.5, 0.35)
TEXT: Color = (1.0, 1.0, 1.0, 1.0)

LIFETIME_S = 0.5
ABOVE_FLOOR_M = 0.012
SHORTEST_M = 1e-3
FACING_M, FAN_STEPS = 0.7, 12
SMALLEST_BALL_M, LARGEST_BALL_M = 0.06, 0.4
VELOCITY_S = 0.2  # The arrow for a joint's velocity shows how far the joint moves in this time [s].
TEXT_M = 0.09
KEY_M = 0.1
# Size and centre of the ellipsoid that marks a locked foot, as multiples of the horizontal distance from ankle to toes.
FOOT_SIZE, FOOT_MIDDLE = np.array([2.5, 1.0, 0.9]), np.array([0.57, 0.0, 0.0])


def _marker(name: str, index: int, kind: int, color: Color, size: Any) -> Marker:
    out = Marker(ns=name, id=index, type=kind, action=Marker.ADD)
    out.pose.orientation.w = 1.0
    out.color = ColorRGBA(r=color[0], g=color[1], b=color[2], a=color[3])
    out.scale.x, out.scale.y, out.scale.z = (float(v) for v in size)
    return out


def _deleted(name: str, index: int) -> Marker:
    return Marker(ns=name, id=index, action=Marker.DELETE)


def _points(p: Any) -> list[Point]:
    return [Point(x=x, y=y, z=z) for x, y, z in np.asarray(p, np.float64).reshape(-1, 3).tolist()]


def _on_floor(xy: Any) -> Any:
    xy = np.asarray(xy, np.float64)
    return np.column_stack([xy[:, :2], np.full(len(xy), ABOVE_FLOOR_M)])


def _strip(name: str, index: int, color: Color, points: Any) -> Marker:
    out = _marker(name, index, Marker.LINE_STRIP, color, (0.02, 0.0, 0.0))
    out.points = _points(points)
    return out


def _lines(name: str, index: int, color: Color, pairs: Any, width: float) -> Marker:
    out = _marker(name, index, Marker.LINE_LIST, color, (width, 0.0, 0.0))
    out.points = _points(pairs)
    return out


def _arrow(name: str, index: int, color: Color, start: Any, end: Any) -> Marker:
    if np.linalg.norm(np.subtract(end, start)) < SHORTEST_M:  # RViz cannot draw arrows of length 0.
        return _deleted(name, index)
    out = _marker(name, index, Marker.ARROW, color, (0.018, 0.045, 0.06))
    out.points = _points([start, end])
    return out


_PARENTS = default_skeleton().parents


def bones(name: str, index: int, pose: AvatarPose, color: Color, width: float) -> Marker:
    """Return lines from each joint to its parent joint, without the line from the root to the hips."""
    p, _ = room_joints(pose)
    return _lines(name, index, color, np.stack([p[_PARENTS[2:]], p[2:]], axis=1), width)


def skeleton(name: str, pose: AvatarPose) -> list[Marker]:
    p, _ = room_joints(pose)
    joints = _marker(name, 1, Marker.SPHERE_LIST, JOINTS, (0.05, 0.05, 0.05))
    joints.points = _points(p[1:])
    return [bones(name, 0, pose, JOINTS, 0.02), joints]


def truth(name: str, pose: AvatarPose) -> list[Marker]:
    """Return markers that show the true body as thick lines and its head as an ellipsoid."""
    p, q = room_joints(pose)
    head = _marker(name, 1, Marker.SPHERE, TRUTH, (0.2, 0.16, 0.24))
    head.pose = pose_to_ros(np.concatenate([p[HEAD] + rot.rotate(q[HEAD], np.array([0.02, 0.0, 0.09])), q[HEAD]]))
    return [bones(name, 0, pose, TRUTH, 0.06), head]


def feet(name: str, pose: AvatarPose) -> list[Marker]:
    """Return markers of foot contacts: an ellipsoid around each locked foot, a disc below each other foot in
    contact."""
    p, q = room_joints(pose)
    out = []
    for side, (foot, toes) in enumerate(((LEFT_FOOT, LEFT_TOES), (RIGHT_FOOT, RIGHT_TOES))):
        ahead = np.asarray(pose.positions[toes], np.float64)
        reach = float(np.hypot(ahead[0], ahead[1]))
        middle = p[foot] + rot.rotate(q[foot], reach * FOOT_MIDDLE + (0.0, 0.0, 0.75 * ahead[2]))
        if pose.locked[side]:
            shell = _marker(name, side, Marker.SPHERE, LOCKED, reach * FOOT_SIZE)
            shell.pose = pose_to_ros(np.concatenate([middle, q[foot]]))
            out += [shell, _deleted(name, 2 + side)]
        elif pose.contacts[side]:
            mark = _marker(name, 2 + side, Marker.CYLINDER, CONTACT, (*(1.1 * reach * FOOT_SIZE[:2]), 0.008))
            way = p[toes] - p[foot]
            turn = rot.from_yaw(float(np.arctan2(way[1], way[0])))
            mark.pose = pose_to_ros(np.concatenate([middle[:2], [0.004], turn]))
            out += [mark, _deleted(name, side)]
        else:
            out += [_deleted(name, side), _deleted(name, 2 + side)]
    return out


def user_feet(name: str, estimate: FeetEstimate) -> list[Marker]:
    """Return markers of the user's estimated feet: a ball at each ankle, whose size shows the expected error, and a
    disc below each standing foot."""
    out = []
    for side in range(2):
        x, y, z = (float(v) for v in estimate.ankles[side])
        wide = min(max(2 * float(estimate.sigma[side]), SMALLEST_BALL_M), LARGEST_BALL_M)
        ball = _marker(name, side, Marker.SPHERE, USER_FEET, (wide, wide, wide))
        ball.pose.position = Point(x=x, y=y, z=z)
        out.append(ball)
        if estimate.contact[side] < 0.5:
            out.append(_deleted(name, 2 + side))
            continue
        disc = _marker(name, 2 + side, Marker.CYLINDER, (*USER_FEET[:3], 0.9), (0.2, 0.2, 0.008))
        disc.pose.position = Point(x=x, y=y, z=0.004)
        out.append(disc)
    return out


def trackers(name: str, frame: TrackerFrame) -> list[Marker]:
    out = []
    for r in range(len(ROLES)):
        if frame.state[r] == LOST:
            out.append(_deleted(name, r))
            continue
        m = _marker(name, r, Marker.CUBE, TRACKER, (0.08, 0.18, 0.1) if r == 0 else (0.1, 0.04, 0.04))
        m.pose = pose_to_ros(np.concatenate([frame.positions[r], frame.rotations[r]]))
        out.append(m)
    return out


def facing(name: str, predicted: BodyOrientation, root: Any) -> list[Marker]:
    """Return markers of the predicted facing: an arrow on the floor, and a fan of one standard deviation to each
    side."""
    start = np.array([root[0], root[1], ABOVE_FLOOR_M])
    sigma = min(float(predicted.sigma), np.pi)
    angles = predicted.yaw + np.linspace(-sigma, sigma, FAN_STEPS + 1)
    rim = start + FACING_M * np.stack([np.cos(angles), np.sin(angles), np.zeros_like(angles)], -1)
    fan = _marker(name, 1, Marker.TRIANGLE_LIST, (*FACING[:3], 0.35), (1.0, 1.0, 1.0))
    fan.points = _points(np.stack([np.broadcast_to(start, rim[1:].shape), rim[:-1], rim[1:]], axis=1))
    ahead = np.array([np.cos(predicted.yaw), np.sin(predicted.yaw), 0.0])
    return [_arrow(name, 0, FACING, start, start + FACING_M * ahead), fan]


def desired(name: str, trajectory: Trajectory) -> list[Marker]:
    xy = np.vstack([np.asarray(trajectory.position, np.float32)[None], trajectory.positions])
    return _trajectory(name, DESIRED, xy, np.vstack([np.zeros(2), trajectory.directions]))


def found(name: str, places: Any, directions: Any) -> list[Marker]:
    """Return markers that show the future path of the played clip. `places` and `directions` (N, 3) of the path are in
    world coordinates; row 0 belongs to the present."""
    return _trajectory(name, FOUND, places, directions)


def _trajectory(name: str, color: Color, places: Any, directions: Any) -> list[Marker]:
    line = _on_floor(places)
    tips = line + 0.25 * np.column_stack([np.asarray(directions, np.float64)[:, :2], np.zeros(len(line))])
    arrows = [_arrow(name, i, color, line[i], tips[i]) for i in range(1, len(line))]
    return [_strip(name, 0, color, line), *arrows]


def path(name: str, points: Any, following: int, keys: Any, progress: float) -> list[Marker]:
    """Return markers of a path: the curve through `points` (N, 2), the key points and the progress of the character.
    The character moves toward the point `following` of the curve."""
    points, dots = _on_floor(points), _marker(name, 2, Marker.SPHERE_LIST, PATH, (KEY_M, KEY_M, KEY_M))
    dots.points = _points(_on_floor(keys))
    at = max(following - 1, 0)
    return [
        _strip(name, 0, WALKED, points[: at + 1]) if at else _deleted(name, 0),
        _strip(name, 1, PATH, points[at:]) if at + 1 < len(points) else _deleted(name, 1),
        dots,
        _text(name, 3, f"{progress:.0%}", points[at] + np.array([0.0, 0.0, TEXT_M])),
    ]


def features(name: str, first: int, color: Color, places: Any, velocities: Any) -> list[Marker]:
    """Return markers of a feature vector: lines to the positions of the joints, and arrows for their velocities.
    `places` and `velocities` (N, 2, 3) hold start and end of the lines and of the arrows."""
    arrows = [_arrow(name, first + 1 + i, color, start, end) for i, (start, end) in enumerate(velocities)]
    return [_lines(name, first, color, places, 0.01), *arrows]


def velocity(name: str, pose: AvatarPose) -> list[Marker]:
    start = np.asarray(pose.root[:3], np.float64) + np.array([0.0, 0.0, 1.0])
    way = rot.rotate(np.asarray(pose.root[3:], np.float64), np.asarray(pose.velocities[0], np.float64))
    text = _text(name, 1, f"{np.linalg.norm(way[:2]):.2f} m/s", start + np.array([0.0, 0.0, 0.15]))
    return [_arrow(name, 0, VELOCITY, start, start + VELOCITY_S * way), text]


def match_text(name: str, match: Match, searched: Match | None, pose: AvatarPose) -> list[Marker]:
    """Return a text marker above the head of the avatar with clip, time, frame, and the costs of the last search."""
    p, _ = room_joints(pose)
    lines = [f"{match.clip or match.engine}  {match.time:.2f} s  frame {match.frame}"]
    if searched is not None:
        lines.append(f"cost {searched.cost:.2f}  continuing {searched.continue_cost:.2f}  ({searched.reason})")
    return [_text(name, 0, "\n".join(lines), p[HEAD] + (0.0, 0.0, 0.4))]


def _text(name: str, index: int, text: str, at: Any) -> Marker:
    out = _marker(name, index, Marker.TEXT_VIEW_FACING, TEXT, (0.0, 0.0, TEXT_M))
    out.text = text
    out.pose.position = _points([at])[0]
    return out


def array(markers: list[Marker], stamp_ns: int, frame: str = WORLD) -> MarkerArray:
    stamp: Time = stamp_to_ros(stamp_ns)
    lifetime = Duration(sec=int(LIFETIME_S), nanosec=int(LIFETIME_S % 1 * 1e9))
    for m in markers:
        m.header.frame_id, m.header.stamp, m.lifetime = frame, stamp, lifetime
    return MarkerArray(markers=markers)
