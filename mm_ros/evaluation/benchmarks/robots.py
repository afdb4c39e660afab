"""Measure how well robots follow the avatar's poses, by limb directions, feet, joint limits, smoothness and balance."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.avatar import AvatarSettings
from mm_ros.base.errors import MmRosError
from mm_ros.body.clip import Clip
from mm_ros.body.shape import room_joints
from mm_ros.body.skeleton import (
    LEFT_FOOT,
    LEFT_HAND,
    LEFT_LOWER_ARM,
    LEFT_LOWER_LEG,
    LEFT_TOES,
    LEFT_UPPER_ARM,
    LEFT_UPPER_LEG,
    RIGHT_FOOT,
    RIGHT_HAND,
    RIGHT_LOWER_ARM,
    RIGHT_LOWER_LEG,
    RIGHT_TOES,
    RIGHT_UPPER_ARM,
    RIGHT_UPPER_LEG,
    Skeleton,
)
from mm_ros.body.types import F64, AvatarPose
from mm_ros.evaluation.benchmarks.gmr import GmrFollower
from mm_ros.evaluation.run import track_of_frames
from mm_ros.maths import rotations as rot
from mm_ros.motion.contacts import contacts_of
from mm_ros.robot.capsules import LimbDistance
from mm_ros.robot.figure import SIDES, Figure
from mm_ros.robot.follow import FollowSettings, make_follower
from mm_ros.robot.kinematics import LinkPoses
from mm_ros.robot.roles import LEG
from mm_ros.sessions.session import Session
from mm_ros.tracking.simulation import resample, sample_times

RATE = 60.0
METHODS = ("follow", "decompose", "gmr")
AT_LIMIT = 0.005  # A joint counts as being at its limit if it is nearer to the limit than 0.5 % of its range.
JUMP_RAD = 0.3
JOINTS = {
    "left leg": (LEFT_UPPER_LEG, LEFT_LOWER_LEG, LEFT_FOOT),
    "right leg": (RIGHT_UPPER_LEG, RIGHT_LOWER_LEG, RIGHT_FOOT),
    "left arm": (LEFT_UPPER_ARM, LEFT_LOWER_ARM, LEFT_HAND),
    "right arm": (RIGHT_UPPER_ARM, RIGHT_LOWER_ARM, RIGHT_HAND),
}
TOES = (LEFT_TOES, RIGHT_TOES)
# Quantities that are measured for each robot, with units, in the order of the printed table.
ROWS = {
    "leg_direction_deg": "°", "arm_direction_deg": "°", "ankle_error_cm": "cm", "wrist_error_cm": "cm",
    "leg_limit_percent": "%", "arm_limit_percent": "%", "beyond_limits": "", "jumps_per_min": "1/min",
    "slide_cm_s": "cm/s", "slide_beyond_avatar_cm_s": "cm/s", "sole_height_mm": "mm", "sole_height_sd_mm": "mm",
    "penetration_mm": "mm", "self_collision_percent": "%", "com_outside_percent": "%", "com_outside_cm": "cm",
    "ms_median": "ms", "ms_p99": "ms",
}  # fmt: skip


@dataclass(frozen=True)
class Walk:
    """Motion for the robots of the benchmark to follow: poses of an avatar at 60 Hz."""

    name: str
    skeleton: Skeleton
    poses: list[AvatarPose]


def walk_of_clip(clip: Clip, seconds: float = 0.0) -> Walk:
    """Return the poses in the first `seconds` seconds of a clip at 60 Hz, or in the whole clip if `seconds` is 0."""
    if clip.rate != RATE:
        times = sample_times(len(clip), clip.rate, RATE)
        p, q = resample(clip.positions.astype(np.float64), clip.rotations.astype(np.float64), clip.rate, times)
        clip = Clip(clip.name, RATE, clip.skeleton, p.astype(np.float32), q.astype(np.float32))
    if seconds:
        clip = clip.cut(0, int(seconds * RATE))
    standing, none = contacts_of(clip), np.zeros(2, np.bool_)
    poses = []
    for i in range(len(clip)):
        positions, rotations = clip.positions[i].copy(), clip.rotations[i].copy()
        root = np.concatenate([positions[0], rotations[0]]).astype(np.float64)
        positions[0], rotations[0] = 0.0, (1.0, 0.0, 0.0, 0.0)
        zero = np.zeros_like(positions)
        stamp = int(i * 1e9 / RATE)
        poses.append(
            AvatarPose(stamp, 0, clip.skeleton.hash, root, positions, rotations, zero, zero, standing[i], none)
        )
    return Walk(clip.name, clip.skeleton, poses)


def walk_of_session(name: str, session: Session, database: Path, seconds: float = 0.0) -> Walk:
    """Return the poses of the avatar when the recorded trackers of a session drive it."""
    from mm_ros.body.types import Calibration
    from mm_ros.evaluation.rows import CHAIN_ROWS
    from mm_ros.evaluation.run import make_avatar
    from mm_ros.motion.files import read_database

    track = track_of_frames(session.frames)
    avatar = make_avatar(CHAIN_ROWS[0], AvatarSettings(), read_database(database), session.calibration or Calibration())
    poses: list[AvatarPose] = []
    for i in range(len(track)):
        pose = avatar.step(track.frame(i))
        if pose is not None and (not poses or pose.stamp_ns - poses[-1].stamp_ns > 0.5e9 / RATE):
            poses.append(pose)
        if seconds and poses and poses[-1].stamp_ns - poses[0].stamp_ns > seconds * 1e9:
            break
    if len(poses) < 10:
        raise MmRosError(f"{name}: the avatar has {len(poses)} poses; at least 10 are needed")
    return Walk(name, avatar.skeleton, poses)


def measure(
    figure: Figure, walk: Walk, method: str = "follow", settings: FollowSettings | None = None
) -> dict[str, Any]:
    """Measure all quantities that ROWS lists, for one robot, one sequence of poses and one method. A quantity is None
    if the robot lacks the limbs to which the quantity refers."""
    follower: Any
    if method == "gmr":
        follower = GmrFollower(figure, walk.skeleton)
    else:
        settings = (settings or FollowSettings()).with_values(method=method)
        follower = make_follower(figure, walk.skeleton, settings)
    follower.step(walk.poses[0])
    follower.reset()
    states, took = [], []
    for pose in walk.poses:
        began = time.thread_time()  # CPU time is measured, because it does not include the load of other processes.
        states.append(follower.step(pose))
        took.append(time.thread_time() - began)
    avatar = [room_joints(pose) for pose in walk.poses]
    place = LinkPoses(figure.robot)
    links = [place(s.by_name(), s.base) for s in states]
    dt = np.diff([p.stamp_ns for p in walk.poses]) * 1e-9
    out: dict[str, Any] = dict.fromkeys(ROWS)
    for kind, end_name in (("leg", "ankle"), ("arm", "wrist")):
        limbs = [name for name in figure.limbs if name.endswith(kind)]
        if limbs:
            errors, ends = zip(*(_limb(figure, name, links, avatar) for name in limbs), strict=True)
            out[f"{kind}_direction_deg"] = float(np.mean(errors))
            out[f"{end_name}_error_cm"] = float(100 * np.mean(ends))
    angles = np.array([s.angles for s in states])
    out |= _limits(figure, states[0].names, angles) | _jumps(angles, dt)
    if figure.soles:
        out |= _feet(figure, walk, links, avatar, dt)
    distance = LimbDistance(figure)
    finite = [d for s in states if math.isfinite(d := distance(s.by_name(), s.base))]
    out["self_collision_percent"] = 100 * float(np.mean(np.array(finite) < 0)) if finite else None
    out["ms_median"], out["ms_p99"] = 1e3 * float(np.median(took)), 1e3 * float(np.percentile(took, 99))
    return out


def _limb(figure: Figure, name: str, links: Sequence[dict[str, F64]], avatar: Sequence[Any]) -> tuple[float, float]:
    """Return the mean angle [deg] between a limb of the robot and that of the avatar. Also return the mean distance [m]
    between the ends of the robot's limb and of the avatar's limb, scaled to the same length."""
    limb, joints = figure.limbs[name], JOINTS[name]
    root = figure.in_link(limb.upper, limb.root)
    middle, low = figure.in_link(limb.upper, limb.bend), figure.in_link(limb.lower, limb.bend)
    end = figure.in_link(limb.lower, limb.end)
    angles, ends = [], []
    for at, (p, _) in zip(links, avatar, strict=True):
        upper, lower = at[limb.upper], at[limb.lower]
        lines = (rot.rotate(upper[3:], middle - root), rot.rotate(lower[3:], end - low))
        human = (p[joints[1]] - p[joints[0]], p[joints[2]] - p[joints[1]])
        for a, b in zip(lines, human, strict=True):
            angles.append(math.degrees(math.atan2(float(np.linalg.norm(np.cross(a, b))), float(a @ b))))
        length = sum(float(np.linalg.norm(h)) for h in human)
        ends.append(float(np.linalg.norm(lines[0] + lines[1] - (human[0] + human[1]) * limb.length / length)))
    return float(np.mean(angles)), float(np.mean(ends))


def _limits(figure: Figure, names: Sequence[str], angles: F64) -> dict[str, Any]:
    roles, out, beyond = figure.roles, {}, 0
    low = np.array([figure.robot.joint(n).lower for n in names])
    high = np.array([figure.robot.joint(n).upper for n in names])
    beyond = int(((angles < low - 1e-6) | (angles > high + 1e-6)).sum())
    for kind in ("leg", "arm"):
        chains = [c for part, c in roles.chains.items() if part.startswith(("left", "right"))
                  and (part.split("_", 1)[1] in LEG) == (kind == "leg")]  # fmt: skip
        index = [names.index(j) for c in chains for j in c if j in names]
        bounded = [i for i in index if math.isfinite(high[i] - low[i])]
        if bounded:
            a, lo, hi = angles[:, bounded], low[bounded], high[bounded]
            margin = AT_LIMIT * (hi - lo)
            out[f"{kind}_limit_percent"] = 100 * float(((a < lo + margin) | (a > hi - margin)).mean())
    return {**out, "beyond_limits": beyond}


def _jumps(angles: F64, dt: F64) -> dict[str, Any]:
    steps = np.abs(np.diff(angles, axis=0)) * np.minimum(1.0, (1 / RATE) / np.maximum(dt, 1e-3))[:, None]
    return {"jumps_per_min": float((steps.max(axis=1) > JUMP_RAD).sum() / max(dt.sum() / 60, 1e-9))}


def _feet(
    figure: Figure, walk: Walk, links: Sequence[dict[str, F64]], avatar: Sequence[Any], dt: F64
) -> dict[str, Any]:
    scale = figure.leg_length / walk.skeleton.leg_length
    contact = np.array([p.contacts | p.locked for p in walk.poses])
    heights, slides, own, below = [], [], [], np.zeros(len(links))
    soles: dict[str, F64] = {}
    for i, side in enumerate(SIDES):
        sole = figure.soles.get(side)
        if sole is None:
            continue
        points = np.array([at[sole.link][:3] + rot.rotate(at[sole.link][3:], sole.points) for at in links])
        ball = np.array([at[sole.link][:3] + rot.rotate(at[sole.link][3:], sole.ball) for at in links])
        toes = np.array([p[TOES[i]] for p, _ in avatar])
        low = points[:, :, 2].min(axis=1)
        below = np.maximum(below, -low)
        both = contact[1:, i] & contact[:-1, i]
        heights.append(low[contact[:, i]])
        slides.append((np.linalg.norm(np.diff(ball[:, :2], axis=0), axis=1) / dt / scale)[both])
        own.append((np.linalg.norm(np.diff(toes[:, :2], axis=0), axis=1) / dt)[both])
        soles[side] = points
    height, slide, avatars = np.concatenate(heights), np.concatenate(slides), np.concatenate(own)
    out: dict[str, Any] = {"penetration_mm": 1e3 * float(np.maximum(below, 0).mean())}
    if len(height):
        out |= {"sole_height_mm": 1e3 * float(height.mean()), "sole_height_sd_mm": 1e3 * float(height.std())}
    if len(slide):
        out["slide_cm_s"] = 100 * float(slide.mean())
        out["slide_beyond_avatar_cm_s"] = 100 * float(slide.mean() - avatars.mean())
    return out | _balance(figure, links, soles, contact)


def _balance(
    figure: Figure, links: Sequence[dict[str, F64]], soles: dict[str, F64], contact: NDArray[np.bool_]
) -> dict[str, Any]:
    parts = [p for p in figure.robot.parts.values() if p.mass > 0]
    if not parts:
        return {}
    masses = np.array([p.mass for p in parts])
    outside = []
    for f, at in enumerate(links):
        standing = [soles[side][f][:, :2] for i, side in enumerate(SIDES) if side in soles and contact[f, i]]
        if standing:
            centres = np.array([at[p.name][:3] + rot.rotate(at[p.name][3:], p.centre) for p in parts])
            outside.append(outside_of(np.concatenate(standing), masses @ centres[:, :2] / masses.sum()))
    if not outside:
        return {}
    distance = np.array(outside)
    return {"com_outside_percent": 100 * float((distance > 0).mean()), "com_outside_cm": 100 * float(distance.mean())}


def outside_of(points: F64, at: F64) -> float:
    """Return the distance of the point `at` from the convex hull of `points` in the plane, or 0 if the point is
    inside."""
    order = points[np.lexsort((points[:, 1], points[:, 0]))]
    hull: list[F64] = []
    for half in (order, order[::-1]):
        start = len(hull)
        for p in half:
            while len(hull) - start > 1 and _area(hull[-1] - hull[-2], p - hull[-2]) <= 0:
                hull.pop()
            hull.append(p)
        hull.pop()
    best, inside = math.inf, len(hull) > 2
    for a, b in zip(hull, [*hull[1:], hull[0]], strict=True):
        way = b - a
        inside &= _area(way, at - a) >= 0
        t = min(max(float((at - a) @ way) / max(float(way @ way), 1e-12), 0.0), 1.0)
        best = min(best, float(np.linalg.norm(at - a - t * way)))
    return 0.0 if inside else best


def _area(a: F64, b: F64) -> float:
    return float(a[0] * b[1] - a[1] * b[0])


def walks_of(paths: Sequence[Path], database: Path, seconds: float, progress: Any) -> list[Walk]:
    """Read sessions and motion files, and return the poses of the avatar for each of them."""
    from mm_ros.motion.importing import load_clips
    from mm_ros.sessions.paths import is_session
    from mm_ros.sessions.session import read_session

    out = []
    for path in paths:
        if is_session(path):
            out.append(walk_of_session(path.name, read_session(path), database, seconds))
        else:
            out += [walk_of_clip(clip, seconds) for clip in load_clips([path], progress=progress)]
    if not out:
        raise MmRosError("there is no motion to follow")
    return out


def medians(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the median of each measured quantity over the results that contain this quantity."""
    out: dict[str, Any] = {}
    for name in ROWS:
        values = [r[name] for r in results if r[name] is not None]
        out[name] = float(np.median(values)) if values else None
    return out
