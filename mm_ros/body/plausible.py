"""Limits of all numbers that enter or leave a processing stage, which refuses values outside their limits.

A check for finite numbers is not enough: a head position of 1e308 m would make a spring overflow, and the state of the
spring would stay NaN. All limits are far above the values of people, rooms and robots, so that no real recording is
refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from mm_ros.base.errors import MmRosError
from mm_ros.body.landmarks import Landmarks
from mm_ros.body.skeleton import NAMES, Skeleton
from mm_ros.body.timeline import is_identity
from mm_ros.body.types import (
    IDENTITY_POSE,
    ROLES,
    WAIST_ROLE,
    AvatarPose,
    BodyOrientation,
    Calibration,
    FeetEstimate,
    TrackerFrame,
    Trajectory,
)
from mm_ros.maths.jit import njit

M = TypeVar("M")


class Implausible(MmRosError):
    """Error for a number that is not finite or outside its limits."""


class Limit(NamedTuple):
    low: float
    high: float
    unit: str


LIMITS = {
    "position": Limit(-1e4, 1e4, "m"),  # in map
    "offset": Limit(-10.0, 10.0, "m"),  # limit of the offset of a joint from its parent, or of a landmark from the hips
    "device": Limit(-1.0, 1.0, "m"),  # limit of the offset of a tracked device from the joint that carries it
    "velocity": Limit(-1e3, 1e3, "m/s"),
    "angular velocity": Limit(-1e4, 1e4, "rad/s"),
    # The limit is high, because velocities may come from differences of poses that are only a microsecond apart.
    "rate of a joint": Limit(-1e6, 1e6, "m/s or rad/s"),
    "command": Limit(-50.0, 50.0, "m/s or rad/s"),
    "stick": Limit(-10.0, 10.0, "of its way"),
    "angle": Limit(-1e3, 1e3, "rad"),
    "sigma": Limit(0.0, 1e3, "rad"),
    "foot error": Limit(0.0, 100.0, "m"),
    "height ratio": Limit(-10.0, 10.0, "of the standing height"),
    "time ahead": Limit(0.0, 60.0, "s"),
    "direction": Limit(-1.5, 1.5, "of a unit vector"),
    "share": Limit(-0.01, 1.01, "of 1"),
    "picture": Limit(-100.0, 100.0, "pictures"),
    "quaternion": Limit(-10.0, 10.0, "of a unit quaternion"),
    "head height": Limit(0.3, 3.0, "m"),
    "floor height": Limit(-10.0, 10.0, "m"),
    "uncertainty": Limit(0.0, 10.0, "m"),
    "arm span": Limit(0.0, 4.0, "m"),
    "seconds": Limit(0, 2**31 - 1, "s"),  # messages hold the seconds of a time stamp as a signed 32-bit number
    "nanoseconds": Limit(0, 999_999_999, "ns"),
    "state": Limit(0, 2, "(lost, extrapolated, tracked)"),
    "samples": Limit(0, 1_000, "samples"),
    "points": Limit(0, 100_000, "points"),
}
UNIT_TOLERANCE = 1e-3  # maximum deviation of a quaternion's length from 1 in messages of mm_ros
LOOSE_TOLERANCE = 0.1  # maximum deviation of a quaternion's length from 1 in messages of other programs
# Maximum distance [m] between the root positions in one output of a stage and the next, unless the input of the stage
# reports a transform of the play space.
LEAP_M = 50.0


def _check(what: str, values: Any, kind: str, rows: tuple[str, ...] = ()) -> None:
    """Raise Implausible for an array or number outside the limits of `kind`. The value NaN is outside all limits.
    `rows` holds the names of the rows of the checked array. The error text begins with `what`, in which `{}` is
    replaced by the name of the worst row."""
    limit = LIMITS[kind]
    if isinstance(values, (float, int)):
        if not limit.low <= values <= limit.high:
            _refuse(what, np.array([values], np.float64), limit, rows)
    else:
        _refuse(what, np.asarray(values, np.float64), limit, rows)


def _refuse(what: str, values: NDArray[np.float64], limit: Limit, rows: tuple[str, ...]) -> None:
    if ((values >= limit.low) & (values <= limit.high)).all():
        return
    beyond = np.where(np.isfinite(values), np.maximum(values - limit.high, limit.low - values), np.inf)
    worst = int(beyond.argmax())
    if rows:
        what = what.format(rows[int(np.unravel_index(worst, beyond.shape)[0])])
    if np.isinf(beyond.flat[worst]):
        raise Implausible(f"{what}: a number is NaN or infinite")
    raise Implausible(
        f"{what}: expected {limit.low:g} to {limit.high:g} {limit.unit}, came {values.flat[worst]:g}"
    )


def _check_rotation(
    what: str, quaternions: Any, tolerance: float = UNIT_TOLERANCE, rows: tuple[str, ...] = ()
) -> None:
    q = np.asarray(quaternions).reshape(-1, 4)
    _check(what, q, "quaternion", rows)
    off = np.abs(np.linalg.norm(q, axis=1) - 1.0)
    worst = int(off.argmax())
    if off[worst] > tolerance:
        length = float(np.linalg.norm(q[worst]))
        what = what.format(rows[worst]) if rows else what
        raise Implausible(f"{what}: expected a quaternion of length 1, came {length:g}")


def _check_pose(what: str, pose: Any, kind: str = "position", tolerance: float = UNIT_TOLERANCE) -> None:
    _check(what, pose[:3], kind)
    _check_rotation(f"rotation of {what}", pose[3:], tolerance)


# The square of a huge number overflows to infinity and is then refused, so numpy's warning about overflow is switched
# off. The warning is switched once for all checks of a message, because switching takes as long as a check.
_quietly = np.errstate(over="ignore")
check, check_pose = _quietly(_check), _quietly(_check_pose)


def stamp_ns(seconds: int, nanoseconds: int, what: str = "stamp") -> int:
    """Convert the time stamp of a message to nanoseconds. Raise Implausible if the seconds are negative or the
    nanoseconds reach a whole second."""
    _check(what, seconds, "seconds")
    _check(what, nanoseconds, "nanoseconds")
    return seconds * 1_000_000_000 + nanoseconds


# ---- Checks of the values that one stage passes to the next; each function returns the value that it checks.
#
# A fast compiled kernel decides whether all numbers of a value are surely within their limits. If the kernel does not
# confirm the limits, slower checks in Python raise an error with a sentence, or accept a value near its limit.


@njit
def _within(values: Any, most: float) -> bool:
    for v in values.flat:  # noqa: SIM110 (numba)
        if not abs(v) <= most:  # true for NaN
            return False
    return True


@njit
def _posed(pose: Any, positions: Any, rotations: Any, velocities: Any, angular: Any, most: Any) -> bool:
    """Whether a pose and the arrays of all devices or joints are surely within their limits. `most` holds the limits of
    positions, velocities and angular velocities."""
    for q in rotations:
        if not abs(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3] - 1.0) < UNIT_TOLERANCE:
            return False
    turned = abs(pose[3] * pose[3] + pose[4] * pose[4] + pose[5] * pose[5] + pose[6] * pose[6] - 1.0) < UNIT_TOLERANCE
    near = turned and _within(pose[:3], FARTHEST) and _within(positions, most[0])
    return near and _within(velocities, most[1]) and _within(angular, most[2])


@njit
def _ahead(position: Any, velocity: Any, times: Any, positions: Any, directions: Any) -> bool:
    far = _within(position, FARTHEST) and _within(velocity, FASTEST) and _within(positions, FARTHEST)
    for t in times:
        if not 0.0 <= t <= LONGEST_AHEAD:
            return False
    return far and len(times) <= MOST_TIMES and _within(directions, UNIT_DIRECTION)


@njit
def _standing(feet: Any) -> bool:
    """Whether the numbers (2, 10) of a `FeetEstimate` are surely within their limits."""
    for f in feet:
        shares = 0.0 <= f[0] <= 1.0 and 0.0 <= f[2] <= 1.0 and 0.0 <= f[9] <= LARGEST_FOOT_ERROR
        if not (shares and _within(f[3:6], FARTHEST) and _within(f[6:9], FASTEST)):
            return False
    return True


FARTHEST, FASTEST = LIMITS["position"].high, LIMITS["velocity"].high
LONGEST_AHEAD, MOST_TIMES = LIMITS["time ahead"].high, LIMITS["samples"].high
UNIT_DIRECTION, LARGEST_FOOT_ERROR = LIMITS["direction"].high, LIMITS["foot error"].high
OF_DEVICES = (FARTHEST, FASTEST, LIMITS["angular velocity"].high)
OF_JOINTS = (LIMITS["offset"].high, LIMITS["rate of a joint"].high, LIMITS["rate of a joint"].high)


def _check_feet(feet: FeetEstimate | None) -> None:
    if feet is not None and not _standing(feet.numbers):
        _check("ankles of the feet", feet.ankles, "position")
        _check("velocities of the feet", feet.velocities, "velocity")
        for name, values in (("contact", feet.contact), ("moves", feet.moves)):
            _check(f"{name} of the feet", values, "share")
        _check("sigma of the feet", feet.sigma, "foot error")


def trackers(frame: TrackerFrame) -> TrackerFrame:
    f = frame
    rows = f.positions, f.rotations, f.velocities, f.angular_velocities
    if not (_posed(f.new_from_old, *rows, OF_DEVICES) and max(f.state.tolist()) <= LIMITS["state"].high):
        _check_trackers(frame)
    return frame


@_quietly
def _check_trackers(frame: TrackerFrame) -> None:
    _check("position of {}", frame.positions, "position", ROLES)
    _check_rotation("rotation of {}", frame.rotations, rows=ROLES)
    _check("velocity of {}", frame.velocities, "velocity", ROLES)
    _check("angular velocity of {}", frame.angular_velocities, "angular velocity", ROLES)
    _check("state of {}", frame.state, "state", ROLES)
    _check_pose("new_from_old", frame.new_from_old)


def orientation(facing: BodyOrientation) -> BodyOrientation:
    _check("yaw of the body", facing.yaw, "angle")
    _check("yaw rate of the body", facing.yaw_rate, "angular velocity")
    _check("sigma of the body's yaw", facing.sigma, "sigma")
    return facing


def trajectory(desired: Trajectory) -> Trajectory:
    d = desired
    if not _ahead(d.position, d.velocity, d.times, d.positions, d.directions):
        _check_ahead(d)
    _check("yaw of the trajectory", desired.yaw, "angle")
    _check("yaw_sigma of the trajectory", desired.yaw_sigma, "sigma")
    _check("height ratio of the trajectory", desired.height_ratio, "height ratio")
    if d.new_from_old.tolist() != _STILL:
        _check_pose("new_from_old", desired.new_from_old)
    _check_feet(desired.feet)
    return desired


_STILL = list(IDENTITY_POSE)


@_quietly
def _check_ahead(desired: Trajectory) -> None:
    _check("position of the trajectory", desired.position, "position")
    _check("velocity of the trajectory", desired.velocity, "velocity")
    _check("number of times of the trajectory", len(desired.times), "samples")
    _check("times of the trajectory", desired.times, "time ahead")
    _check("positions of the trajectory", desired.positions, "position")
    _check("directions of the trajectory", desired.directions, "direction")


def avatar_pose(pose: AvatarPose) -> AvatarPose:
    p = pose
    if not _posed(p.root, p.positions, p.rotations, p.velocities, p.angular_velocities, OF_JOINTS):
        _check_joints(pose)
    _check_feet(pose.feet)
    return pose


@_quietly
def _check_joints(pose: AvatarPose) -> None:
    rows = *NAMES, *(f"joint {j}" for j in range(len(NAMES), len(pose.positions)))
    _check_pose("root", pose.root)
    _check("position of {}", pose.positions, "offset", rows)
    _check_rotation("rotation of {}", pose.rotations, rows=rows)
    _check("velocity of {}", pose.velocities, "rate of a joint", rows)
    _check("angular velocity of {}", pose.angular_velocities, "rate of a joint", rows)


@_quietly
def landmarks(seen: Landmarks) -> Landmarks:
    _check("positions of the landmarks", seen.positions, "offset")
    _check("visibility of the landmarks", seen.visibility, "share")
    _check("places of the landmarks in the picture", seen.image, "picture")
    _check("confidence of the landmarks", seen.confidence, "share")
    return seen


@_quietly
def calibration(measured: Calibration) -> Calibration:
    _check("head height of the calibration", measured.head_height, "head height")
    _check("floor height of the calibration", measured.floor_height, "floor height")
    _check("arm span of the calibration", measured.arm_span, "arm span")
    _check("forward yaw of the calibration", measured.forward_yaw, "angle")
    for name in ("head_height_sigma", "floor_sigma", "arm_span_sigma"):
        _check(f"{name} of the calibration", getattr(measured, name), "uncertainty")
    for name in ("headset_in_head", "left_grip_in_hand", "right_grip_in_hand"):
        _check_pose(f"{name} of the calibration", getattr(measured, name), "device")
    for role, pose in measured.mountings.items():
        if role not in ROLES[WAIST_ROLE:]:
            raise Implausible(f"mounting of {role} in the calibration: not among {', '.join(ROLES[WAIST_ROLE:])}")
        _check_pose(f"mounting of {role} in the calibration", pose, "device")
    # The height of the head joint is checked, because it determines the scale of the avatar.
    _check("head joint's height of the calibration", measured.head_height - measured.headset_in_head[2], "head height")
    return measured


@_quietly
def skeleton(bones: Skeleton) -> Skeleton:
    _check("offsets of the skeleton", bones.offsets, "offset")
    return bones


def warm_up(desired: Trajectory, pose: AvatarPose) -> None:
    """Compile the functions that check the outputs of stages."""
    trajectory(desired)
    avatar_pose(pose)
    trackers(TrackerFrame(0))


# ---- outputs of a stage


class ImplausibleOutput(Implausible):
    """Error for an implausible output of a stage. The stage with the implausible output is reset, and the output is not
    published."""


class Outputs:
    """Checks each output of one stage before publication: the values are plausible, and the position does not leap from
    one output to the next."""

    def __init__(self) -> None:
        self._last: tuple[int, NDArray[np.float64]] | None = None

    def orientation(self, facing: BodyOrientation) -> BodyOrientation:
        return self._checked(orientation, facing)

    def landmarks(self, seen: Landmarks) -> Landmarks:
        return self._checked(landmarks, seen)

    def trackers(self, frame: TrackerFrame) -> TrackerFrame:
        return self._checked(trackers, frame)

    def trajectory(self, desired: Trajectory) -> Trajectory:
        self._checked(trajectory, desired)
        self._leap(desired.epoch, np.asarray(desired.position, np.float64), not is_identity(desired.new_from_old))
        return desired

    def pose(self, pose: AvatarPose, moved: bool = False) -> AvatarPose:
        """Check a pose of the avatar, whose root may leap if `moved` (the stage's input moved the play space)."""
        self._checked(avatar_pose, pose)
        self._leap(pose.epoch, pose.root[:2], moved)
        return pose

    def _checked(self, judge: Callable[[M], M], made: M) -> M:
        try:
            return judge(made)
        except Implausible as error:
            self._last = None
            raise ImplausibleOutput(f"output not published: {error}") from None

    def _leap(self, epoch: int, place: NDArray[np.float64], moved: bool) -> None:
        last, self._last = self._last, (epoch, place.copy())
        if last is None or moved or last[0] != epoch:
            return
        away = max(abs(place[0] - last[1][0]), abs(place[1] - last[1][1]))
        if away > LEAP_M:
            self._last = None
            raise ImplausibleOutput(f"output not published: a leap of {away:.0f} m")
