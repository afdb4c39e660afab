"""Data types that pass between the stages: one dataclass per ROS topic, with arrays of fixed shapes.

Time stamps are integer nanoseconds of the source's clock. Poses of 7 numbers are x, y, z, qw, qx, qy, qz. Positions and
rotations are in the frame `map` unless a name or comment states another frame.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mm_ros.base.errors import MmRosError
from mm_ros.body.skeleton import (
    HEAD,
    HIPS,
    LEFT_FOOT,
    LEFT_HAND,
    LEFT_LOWER_ARM,
    LEFT_LOWER_LEG,
    RIGHT_FOOT,
    RIGHT_HAND,
    RIGHT_LOWER_ARM,
    RIGHT_LOWER_LEG,
    UPPER_CHEST,
    Skeleton,
)

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
U8 = NDArray[np.uint8]

ROLES: tuple[str, ...] = (
    "head", "left_hand", "right_hand", "waist", "left_foot", "right_foot",
    "chest", "left_knee", "right_knee", "left_forearm", "right_forearm",
)  # fmt: skip
(HEAD_ROLE, LEFT_HAND_ROLE, RIGHT_HAND_ROLE, WAIST_ROLE, LEFT_FOOT_ROLE, RIGHT_FOOT_ROLE,
 CHEST_ROLE, LEFT_KNEE_ROLE, RIGHT_KNEE_ROLE, LEFT_FOREARM_ROLE, RIGHT_FOREARM_ROLE) = range(len(ROLES))  # fmt: skip
R = len(ROLES)
BODY_ROLES: tuple[int, ...] = tuple(range(WAIST_ROLE, R))  # indices in `ROLES` of the trackers worn on the body
JOINT_OF_ROLE: tuple[int, ...] = (
    HEAD, LEFT_HAND, RIGHT_HAND, HIPS, LEFT_FOOT, RIGHT_FOOT,
    UPPER_CHEST, LEFT_LOWER_LEG, RIGHT_LOWER_LEG, LEFT_LOWER_ARM, RIGHT_LOWER_ARM,
)  # fmt: skip
ROLE_ALIASES: dict[str, str] = {"left_elbow": "left_forearm", "right_elbow": "right_forearm"}


def role_index(name: str) -> int:
    """Return the index of a tracker role, or raise MmRosError for a name that is neither in `ROLES` nor in
    `ROLE_ALIASES`."""
    known = ROLE_ALIASES.get(name, name)
    if known not in ROLES:
        raise MmRosError(f"tracker role '{name}' is not among {', '.join((*ROLES, *ROLE_ALIASES))}")
    return ROLES.index(known)


LOST, EXTRAPOLATED, TRACKED = 0, 1, 2

IDENTITY_POSE: tuple[float, ...] = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)  # position, then w x y z


def identity_pose() -> F64:
    return np.array(IDENTITY_POSE)


def _rotations(n: int) -> F64:
    out = np.zeros((n, 4))
    out[:, 0] = 1.0
    return out


@dataclass
class TrackerFrame:
    """Poses of the head, hands and all other tracked devices at one time. Row r of each array belongs to the role
    `ROLES[r]`; the state of a missing role is LOST. `epoch` grows when the source starts or loops, or when the user is
    re-centred. `new_from_old` is the transform from the play space of the last sample to that of this sample. Within an
    epoch, `new_from_old` means that the user travels by stick or snap turn, and that the avatar makes steps. At the
    start of an epoch, `new_from_old` moves all state rigidly (re-centring), or resets all state (identity)."""

    stamp_ns: int
    epoch: int = 0
    positions: F64 = field(default_factory=lambda: np.zeros((R, 3)))
    rotations: F64 = field(default_factory=lambda: _rotations(R))
    velocities: F64 = field(default_factory=lambda: np.zeros((R, 3)))
    angular_velocities: F64 = field(default_factory=lambda: np.zeros((R, 3)))  # room axes, rad/s
    state: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(R, np.uint8))
    sampled_ns: NDArray[np.int64] = field(default_factory=lambda: np.zeros(R, np.int64))
    new_from_old: F64 = field(default_factory=identity_pose)


@dataclass
class BodyOrientation:
    """Predicted facing of the user's pelvis."""

    stamp_ns: int
    epoch: int
    yaw: float  # yaw of the pelvis in the room [rad]: 0 along +x, positive counter-clockwise
    yaw_rate: float  # rad/s
    sigma: float  # rad, standard deviation
    source: str


@dataclass
class FeetEstimate:
    """Estimate of the user's feet, for users without foot trackers. The properties of the estimate are views of the
    columns of `numbers`."""

    numbers: F64  # (2, 10) rows: left, right

    @property
    def contact(self) -> F64:
        """(2,) probability that the left and right foot stand on the floor."""
        return self.numbers[:, 0]

    @property
    def touchdown(self) -> NDArray[np.bool_]:
        """(2,) whether the left and right foot land in this sample, after a swing."""
        return self.numbers[:, 1] > 0.5

    @property
    def moves(self) -> F64:
        """(2,) probability that the left and right ankle move."""
        return self.numbers[:, 2]

    @property
    def ankles(self) -> F64:
        """(2, 3) in the room, m."""
        return self.numbers[:, 3:6]

    @property
    def velocities(self) -> F64:
        """(2, 3) velocities of both ankles in the room [m/s]."""
        return self.numbers[:, 6:9]

    @property
    def sigma(self) -> F64:
        """(2,) expected position error of both ankles [m]; it is large when head and hands do not determine the foot.
        """
        return self.numbers[:, 9]

    def flat(self) -> F32:
        """Return the estimate of the feet as one array of FEET_NUMBERS numbers, as in a ROS message."""
        return self.numbers.astype(np.float32).ravel()


FEET_NUMBERS = 20


def feet_from_flat(numbers: F32) -> FeetEstimate | None:
    """Convert the array of `FeetEstimate.flat` back to an estimate, or to None if the array is empty."""
    if not len(numbers):
        return None
    return FeetEstimate(np.array(numbers, np.float64).reshape(2, FEET_NUMBERS // 2))


@dataclass
class Trajectory:
    """Desired trajectory of the avatar's root, in the size of the user."""

    stamp_ns: int
    epoch: int
    source: str
    position: F64  # (2,) now, m
    velocity: F64  # (2,) m/s
    yaw: float
    yaw_sigma: float
    height_ratio: float  # present height of the user's head divided by its height when the user stands
    times: F32  # (T,) s ahead
    positions: F32  # (T, 2) room, m
    directions: F32  # (T, 2) room, unit
    stale: bool = False
    new_from_old: F64 = field(default_factory=identity_pose)
    feet: FeetEstimate | None = None  # estimate of the user's feet; None if there is no estimate


def still_trajectory(times: tuple[float, ...]) -> Trajectory:
    """Return the desired trajectory of a user who stands at the origin and faces +x, for warm-up and tests."""
    n = len(times)
    facing = np.tile(np.array([1.0, 0.0], np.float32), (n, 1))
    return Trajectory(
        0, 0, "", np.zeros(2), np.zeros(2), 0.0, 0.1, 1.0,
        np.array(times, np.float32), np.zeros((n, 2), np.float32), facing,
    )  # fmt: skip


@dataclass
class AvatarPose:
    """Pose of the avatar's full body. Row 0 of the joint arrays is the root: its position and rotation are the
    identity, because `root` has the pose of the root, and its velocities are in the axes of the root. The other
    rows are relative to the parent joints. Angular velocities ω are in parent axes: q(t + dt) = exp(ω dt) q(t)."""

    stamp_ns: int
    epoch: int
    skeleton: int  # hash
    root: F64  # (7,) x y z qw qx qy qz of the root in the frame `map`
    positions: F32  # (J, 3) m
    rotations: F32  # (J, 4) w x y z
    velocities: F32  # (J, 3) m/s
    angular_velocities: F32  # (J, 3) rad/s
    contacts: NDArray[np.bool_]  # (2,) whether the left and right foot touch the floor in the played motion
    locked: NDArray[np.bool_]  # (2,) whether the left and right foot are held on the floor by inverse kinematics
    run: int = 0  # random number that identifies one start of the matching engine
    segment: int = 0  # number of jumps to another frame of the motion database so far
    stale: bool = False
    engine: str = ""  # origin of the pose: an engine ("search", "learned", "state_machine") or a recording ("truth")
    feet: FeetEstimate | None = None  # estimate of the user's feet, copied from the desired trajectory


def rest_pose(skeleton: Skeleton, stamp_ns: int = 0) -> AvatarPose:
    """Return the T-pose at the origin, for warm-up and tests."""
    j = len(skeleton.offsets)
    rotations = np.zeros((j, 4), np.float32)
    rotations[:, 0] = 1.0
    positions = skeleton.offsets.astype(np.float32)
    positions[0] = 0.0
    still, feet = np.zeros((j, 3), np.float32), np.ones(2, np.bool_)
    return AvatarPose(
        stamp_ns, 0, skeleton.hash, identity_pose(), positions, rotations, still, still.copy(), feet, ~feet
    )


@dataclass
class Match:
    """Decision of the motion matching stage in one step: whether playback continues or jumps to another frame."""

    stamp_ns: int
    epoch: int
    engine: str  # name of the engine that made the decision: "search", "learned" or "state_machine"
    clip: str = ""
    clip_index: int = -1  # -1 without a database
    frame: int = -1  # number of the played frame in the motion database; -1 without a database
    frame_fraction: float = 0.0  # position of playback between `frame` (0) and the next frame (1)
    time: float = 0.0  # s within the clip
    tags: tuple[str, ...] = ()  # tags of `frame`
    band: str = ""  # requested range of head heights
    searched: bool = False
    # reason of the search: "interval", "abrupt", "band" (head height), "tags", "clip end", "start", or a setting's name
    reason: str = ""
    jumped: bool = False  # whether the search found a better frame, to which playback jumped
    cost: float = math.nan  # cost of the frame that the search selected
    continue_cost: float = math.nan  # cost of continuing the played clip; infinite if the clip could not continue
    search_time: float = 0.0  # duration of the search [s]; 0 if the stage has no clock
    search_structure: str = ""  # search structure of the engine "search": "tree", "boxes" or "brute"
    database: int = 0  # hash; 0 without one
    layout: int = 0  # hash that identifies the feature layout
    # (D,) feature weights of the search; empty in a step without a search
    weights: F32 = field(default_factory=lambda: np.zeros(0, np.float32))
    # (D,) normalized query; empty in a step without a search
    query: F32 = field(default_factory=lambda: np.zeros(0, np.float32))
    winner: F32 = field(default_factory=lambda: np.zeros(0, np.float32))  # (D,) normalized features of the played frame
    runner_up_frames: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    runner_up_clips: tuple[str, ...] = ()
    runner_up_costs: F32 = field(default_factory=lambda: np.zeros(0, np.float32))


@dataclass
class Calibration:
    """Body measures and device poses of one user. `headset_in_head` and the other device poses are in the axes of the
    joint that carries the device."""

    user: str = "default"
    calibrated: bool = False
    posture: str = "standing"  # or "seated"
    head_height: float = 1.68  # height of the headset above the floor when the user stands upright [m]
    floor_height: float = 0.0  # height of the floor in the room of the trackers [m]
    arm_span: float = 0.0  # distance between the controllers when the arms are spread [m]; 0 if not measured
    forward_yaw: float = 0.0
    head_height_sigma: float = 0.0  # standard deviation of `head_height` [m]; 0 if not stated
    floor_sigma: float = 0.0
    arm_span_sigma: float = 0.0
    note: str = ""  # sentence about a doubtful body measure; empty if all body measures are plausible
    headset_in_head: F64 = field(default_factory=lambda: np.array([0.10, 0.0, 0.08, 1.0, 0.0, 0.0, 0.0]))
    left_grip_in_hand: F64 = field(default_factory=lambda: np.array([0.0, 0.08, 0.0, 1.0, 0.0, 0.0, 0.0]))
    right_grip_in_hand: F64 = field(default_factory=lambda: np.array([0.0, -0.08, 0.0, 1.0, 0.0, 0.0, 0.0]))
    # Maps the role of each measured body tracker to the tracker's pose in the axes of the joint that carries it.
    mountings: dict[str, F64] = field(default_factory=dict)
