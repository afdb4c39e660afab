"""Estimates the mounting of each body tracker: the pose of the device in the axes of the joint that carries it.

The strap of a device can be anywhere near its joint and at any angle. While the user stands upright, the body is about
in the rest pose of a skeleton of the user's size, so headset and hands determine where each joint is, and the pose of
each device relative to its joint. A mounting is estimated most accurately in a T-pose, because the line through the
hands gives the facing of the body. Observations of a user who only stands or walks have less weight than observations
in a T-pose. After a device has slipped on the body, its mounting is measured again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from mm_ros.base.settings import Settings, setting
from mm_ros.body.kinematics import ARM_STRIDE
from mm_ros.body.skeleton import HEAD, LEFT_UPPER_ARM, default_skeleton
from mm_ros.body.timeline import is_identity
from mm_ros.body.types import (
    BODY_ROLES,
    CHEST_ROLE,
    F64,
    HEAD_ROLE,
    JOINT_OF_ROLE,
    LEFT_FOOT_ROLE,
    LEFT_FOREARM_ROLE,
    LEFT_HAND_ROLE,
    LEFT_KNEE_ROLE,
    RIGHT_FOOT_ROLE,
    RIGHT_FOREARM_ROLE,
    RIGHT_HAND_ROLE,
    RIGHT_KNEE_ROLE,
    ROLES,
    TRACKED,
    WAIST_ROLE,
    Calibration,
    TrackerFrame,
)
from mm_ros.maths import quat
from mm_ros.maths.quat import Quat, Vec
from mm_ros.tracking.calibration import head_joint_height

FEET, KNEES, FOREARMS = (
    (LEFT_FOOT_ROLE, RIGHT_FOOT_ROLE), (LEFT_KNEE_ROLE, RIGHT_KNEE_ROLE), (LEFT_FOREARM_ROLE, RIGHT_FOREARM_ROLE)
)  # fmt: skip
PAIRS = (FEET, KNEES, FOREARMS)
TRUNK = (WAIST_ROLE, CHEST_ROLE)

EVERY_NS = 30_000_000  # time between two observations of a mounting, that is, of the pose of a device on its joint
LONGEST_STEP_S = 0.1  # one observation of a mounting counts for at most this time [s]
# weight of a mounting per second of observation in a T-pose, while standing, and while walking
T_POSE_WEIGHT, STAND_WEIGHT, WALK_WEIGHT = 4.0, 0.5, 0.2
# weight of a mounting per second of observation while the user bends or moves a little (LOOSE_UPRIGHT to LOOSE_RAD_S)
LOOSE_WEIGHT = 0.15
# minimum total weight of the observations: for the use of a mounting, and for the detection of a slipped device
FIRST, SURE = 0.05, 0.4
STORED_WEIGHT = 1.0  # weight of a mounting from the user's file, when new observations are averaged with it
# limits of the differences in tilt [rad], position [m] and yaw [rad] between a still device and its mounting; a device
# beyond a limit has slipped
CARRIED_OVER_RAD, CARRIED_OVER_M, TURNED_RAD = 0.45, 0.10, 1.2
SLIPPED_S = 1.0  # A device whose pose differs from its mounting for this time [s] is measured again.
UPRIGHT = (0.955, 1.06)  # limits of the head height of an upright user, as shares of the standing height
# maximum speed [m/s] and turn rate [rad/s] of a device and of the head of a standing user
STILL_M_S, STILL_RAD_S = 0.12, 0.5
# minimum speed of a walk [m/s], and maximum angle [rad] between the walk and the direction of the headset
WALKING_M_S, STRAIGHT_RAD = 0.5, 0.35
LEVEL_RAD = 0.45  # maximum pitch and roll of the headset of an upright user [rad]
# weaker limits, at which the user may bend or move a little: minimum head height as a share of the standing height,
# maximum tilt of the headset [rad], maximum speed [m/s] and turn rate [rad/s] of the headset and of a device
LOOSE_UPRIGHT, LOOSE_LEVEL_RAD, LOOSE_M_S, LOOSE_RAD_S = 0.9, 0.8, 0.35, 1.5
REPORT_M, REPORT_RAD = 0.004, 0.012  # Changes of a device's mounting by less than this [m, rad] are not published.
SHIN_M = 0.18  # minimum height above the ankle of a foot tracker that is strapped to the shin [m]
# maximum distance of a device from the joint that carries it [m]
FARTHEST_M: dict[int, float] = {
    WAIST_ROLE: 0.30, CHEST_ROLE: 0.30, **dict.fromkeys(FEET, 0.26), **dict.fromkeys(KNEES, 0.28),
    **dict.fromkeys(FOREARMS, 0.25),
}  # fmt: skip
EXCHANGED_M = 0.05  # two devices are exchanged if the left device is this far [m] to the right of the right device


@dataclass(frozen=True)
class MountingSettings(Settings):
    estimate_mounting: bool = setting(
        True, "Estimate the mountings of body trackers from the motion; if false, only the mountings in the user's "
        "file are used."
    )
    mounting_memory: float = setting(
        60.0, "Maximum time over which the mounting of a body tracker is averaged; with a larger `mounting_memory` the "
        "mounting is steadier, but follows a slipping strap later.", "s", 5.0, 600.0
    )


@dataclass
class _Mounting:
    weight: float = 0.0
    position: Vec = (0.0, 0.0, 0.0)
    rotation: Quat = quat.IDENTITY
    reported: F64 | None = None
    off_s: float = 0.0  # time for which the device at rest has differed from the mounting [s]

    def add(self, position: Vec | None, rotation: Quat, weight: float, most: float) -> None:
        """Add one observation of a device's mounting to the weighted mean; if `position` is None, only the rotation is
        observed."""
        if self.weight == 0.0:
            if position is None:
                return
            self.position, self.rotation, self.weight = position, rotation, weight
            return
        share = weight / (self.weight + weight)
        self.rotation = quat.slerp(self.rotation, rotation, share)
        if position is not None:
            self.position = quat.mix(self.position, position, share)
        self.weight = min(self.weight + weight, most)

    def pose(self) -> F64:
        return np.array([*self.position, *self.rotation])


@dataclass(frozen=True)
class _Stand:
    head: Vec  # head joint, room
    facing: float
    weight: float
    still: bool
    t_pose: bool
    loose: bool = False


class MountingStage:
    """Estimates the mountings of body trackers from frames in the map frame, whose floor is at z = 0."""

    def __init__(self, settings: MountingSettings | None = None, calibration: Calibration | None = None) -> None:
        self.settings = settings or MountingSettings()
        self._rest = default_skeleton().rest_positions().astype(np.float64)
        self._tallest = 0.0
        self._last_ns: int | None = None
        self._exchanged_s = dict.fromkeys(PAIRS, 0.0)
        self.exchanged: set[tuple[int, int]] = set()  # pairs of roles (left, right) with devices on the wrong sides
        self._mountings = {role: _Mounting() for role in BODY_ROLES}
        self.set_calibration(calibration or Calibration())

    def set_calibration(self, calibration: Calibration) -> Calibration:
        """Use `calibration` and its mountings from now on; return it with all mountings that are measured so far."""
        for name, pose in calibration.mountings.items():
            known = self._mountings[ROLES.index(name)]
            if known.weight == 0.0:
                known.add(quat.get3(pose[None], 0), quat.get4(pose[None, 3:], 0), STORED_WEIGHT, STORED_WEIGHT)
                known.reported = pose.copy()
        self.calibration = replace(calibration, mountings=self._reported())
        return self.calibration

    def _reported(self) -> dict[str, F64]:
        return {ROLES[r]: m.reported for r, m in self._mountings.items() if m.reported is not None}

    def step(self, frame: TrackerFrame) -> tuple[TrackerFrame, Calibration | None]:
        """Return the frame with exchanged devices swapped back, and the calibration if a mounting has changed."""
        changed = False
        if self.settings.estimate_mounting and TRACKED in frame.state[WAIST_ROLE:].tolist():
            dt = self._elapsed_s(frame)
            if dt > 0.0:
                stand = self._stand(frame)
                if stand is not None:
                    self._watch_sides(frame, stand, dt)
                    changed = self._observe(self._put_right(frame), stand, dt)
        return self._put_right(frame), self.calibration if changed else None

    def _elapsed_s(self, frame: TrackerFrame) -> float:
        last = self._last_ns
        if last is not None and 0 <= frame.stamp_ns - last < EVERY_NS:
            return 0.0
        self._last_ns = frame.stamp_ns
        if last is None or not is_identity(frame.new_from_old):
            return 0.0
        return min(max((frame.stamp_ns - last) * 1e-9, 0.0), LONGEST_STEP_S)

    # ---- the upright body

    def _stand(self, frame: TrackerFrame) -> _Stand | None:
        if frame.state[HEAD_ROLE] != TRACKED:
            return None
        q = quat.get4(frame.rotations, HEAD_ROLE)
        device = self.calibration.headset_in_head
        q = quat.mul_inv(q, quat.get4(device[None, 3:], 0))
        head = quat.sub(quat.get3(frame.positions, HEAD_ROLE), quat.rotate(q, quat.get3(device[None], 0)))
        self._tallest = max(self._tallest, head[2])
        standing = head_joint_height(self.calibration) if self.calibration.calibrated else max(self._tallest, 1.0)
        ahead, left = quat.rotate(q, (1.0, 0.0, 0.0)), quat.rotate(q, (0.0, 1.0, 0.0))
        tilt, height = max(abs(ahead[2]), abs(left[2])), head[2] / standing
        yaw = math.atan2(ahead[1], ahead[0])
        velocity = quat.get3(frame.velocities, HEAD_ROLE)
        speed = math.hypot(velocity[0], velocity[1])
        turn = abs(float(frame.angular_velocities[HEAD_ROLE, 2]))
        if tilt > math.sin(LEVEL_RAD) or not UPRIGHT[0] < height < UPRIGHT[1]:
            loose = tilt < math.sin(LOOSE_LEVEL_RAD) and height > LOOSE_UPRIGHT and speed < LOOSE_M_S
            return _Stand(head, yaw, LOOSE_WEIGHT, True, False, True) if loose and turn < LOOSE_RAD_S else None
        still = speed < STILL_M_S and turn < STILL_RAD_S
        hands = self._facing_of_hands(frame, head, yaw, standing)
        if hands is not None and still:
            return _Stand(head, hands, T_POSE_WEIGHT, True, True)
        if still:
            return _Stand(head, yaw, STAND_WEIGHT, True, False)
        way = math.atan2(velocity[1], velocity[0])
        if speed > WALKING_M_S and turn < STILL_RAD_S and abs(quat.wrap(way - yaw)) < STRAIGHT_RAD:
            return _Stand(head, way, WALK_WEIGHT, False, False)
        loose = speed < LOOSE_M_S and turn < LOOSE_RAD_S
        return _Stand(head, yaw, LOOSE_WEIGHT, True, False, True) if loose else None

    def _facing_of_hands(self, frame: TrackerFrame, head: Vec, yaw: float, standing: float) -> float | None:
        """Return the facing in a T-pose [rad], which is normal to the line through the hands, or None if the arms are
        not spread horizontally."""
        if frame.state[LEFT_HAND_ROLE] != TRACKED or frame.state[RIGHT_HAND_ROLE] != TRACKED:
            return None
        left, right = quat.get3(frame.positions, LEFT_HAND_ROLE), quat.get3(frame.positions, RIGHT_HAND_ROLE)
        line, middle = quat.sub(left, right), quat.sub(quat.mix(left, right, 0.5), head)
        span = math.hypot(line[0], line[1])
        spread = span > 0.72 * standing and abs(line[2]) < 0.25 and math.hypot(middle[0], middle[1]) < 0.25
        if not spread or not -0.45 < middle[2] < 0.15:
            return None
        facing = math.atan2(-line[0], line[1])
        return facing if abs(quat.wrap(facing - yaw)) < 1.0 else None

    def _joint(self, stand: _Stand, joint: int) -> Vec:
        scale = stand.head[2] / self._rest[HEAD, 2]
        from_head = quat.scale(quat.sub(quat.get3(self._rest, joint), quat.get3(self._rest, HEAD)), scale)
        return quat.add(stand.head, quat.rotate(quat.from_yaw(stand.facing), from_head))

    # ---- observations

    def _observe(self, frame: TrackerFrame, stand: _Stand, dt: float) -> bool:
        changed = False
        for role in BODY_ROLES:
            if frame.state[role] == TRACKED:
                self._observe_role(frame, stand, role, dt)
                changed = self._report(role) or changed
        if changed:
            self.calibration = replace(self.calibration, mountings=self._reported())
        return changed

    def _observe_role(self, frame: TrackerFrame, stand: _Stand, role: int, dt: float) -> None:
        known = self._mountings[role]
        p, q = quat.get3(frame.positions, role), quat.get4(frame.rotations, role)
        if stand.loose and known.weight >= SURE:
            return
        fastest, quickest = (LOOSE_M_S, LOOSE_RAD_S) if stand.loose else (STILL_M_S, STILL_RAD_S)
        slow = (
            quat.norm(quat.get3(frame.velocities, role)) < fastest
            and quat.norm(quat.get3(frame.angular_velocities, role)) < quickest
        )
        if (stand.still and not slow) or (role in FOREARMS and not stand.t_pose):
            return
        facing = stand.facing
        if role in FEET + KNEES and not stand.still:
            # While the user walks, a foot on the floor refines only the tilt of its tracker, because the yaw of the
            # foot is not known.
            if role in KNEES or not slow or known.weight == 0.0:
                return
            facing = quat.yaw_of(quat.mul_inv(q, known.rotation))
        rotation = quat.mul(quat.from_yaw(-facing), q)
        position = self._position(frame, stand, role, p) if stand.still else None
        self._forget_if_slipped(known, position, rotation, stand, dt)
        known.add(position, rotation, stand.weight * dt, self.settings.mounting_memory * STAND_WEIGHT)

    def _position(self, frame: TrackerFrame, stand: _Stand, role: int, p: Vec) -> Vec:
        joint = self._joint(stand, JOINT_OF_ROLE[role])
        if role in FOREARMS:
            joint = self._elbow(frame, stand, role, joint)
        x, y, z = quat.unrotate(quat.from_yaw(stand.facing), quat.sub(p, joint))
        if role in FEET:
            # The distance between the feet is not known, so the tracker is assumed on the middle line of the foot and
            # in front of the ankle, where a strap on the instep is.
            return (min(max(x, 0.02), 0.14), 0.0, z)
        if role in KNEES:
            return (min(max(x, -0.14), 0.14), min(max(y, -0.07), 0.07), z)
        return (x, y, z)

    def _elbow(self, frame: TrackerFrame, stand: _Stand, role: int, joint: Vec) -> Vec:
        """Return the position of the elbow in a T-pose, which is on the line from the shoulder to the controller."""
        side = role - LEFT_FOREARM_ROLE
        shoulder = self._joint(stand, LEFT_UPPER_ARM + side * ARM_STRIDE)
        hand = quat.sub(quat.get3(frame.positions, LEFT_HAND_ROLE + side), shoulder)
        length = quat.norm(quat.sub(joint, shoulder))
        return quat.add(shoulder, quat.scale(quat.unit(hand, (0.0, 1.0, 0.0)), length))

    def _forget_if_slipped(
        self, known: _Mounting, position: Vec | None, rotation: Quat, stand: _Stand, dt: float
    ) -> None:
        if known.weight < SURE or position is None:
            return
        off = quat.log(quat.mul_inv(rotation, known.rotation))
        tilted = math.hypot(off[0], off[1]) > CARRIED_OVER_RAD
        turned = abs(off[2]) > (CARRIED_OVER_RAD if stand.t_pose else TURNED_RAD)
        moved = quat.norm(quat.sub(position, known.position)) > CARRIED_OVER_M
        known.off_s = known.off_s + dt if tilted or turned or moved else 0.0
        if known.off_s > SLIPPED_S:
            known.weight = known.off_s = 0.0

    def _report(self, role: int) -> bool:
        known = self._mountings[role]
        if known.weight < FIRST:
            return False
        new, old = known.pose(), known.reported
        if old is not None:
            moved = float(np.linalg.norm(new[:3] - old[:3]))
            turned = quat.angle_of(quat.mul_inv(known.rotation, quat.get4(old[None, 3:], 0)))
            if moved < REPORT_M and turned < REPORT_RAD:
                return False
        known.reported = new
        return True

    # ---- left and right

    def _watch_sides(self, frame: TrackerFrame, stand: _Stand, dt: float) -> None:
        """Detect pairs of devices that are exchanged: the left device is to the right of the right device."""
        if not stand.still or stand.loose:
            return
        back = quat.from_yaw(-stand.facing)
        for pair in PAIRS:
            left, right = pair
            if frame.state[left] != TRACKED or frame.state[right] != TRACKED or (pair == FOREARMS and not stand.t_pose):
                continue
            apart = quat.rotate(back, quat.sub(quat.get3(frame.positions, left), quat.get3(frame.positions, right)))[1]
            wrong = apart > EXCHANGED_M if pair in self.exchanged else apart < -EXCHANGED_M
            self._exchanged_s[pair] = self._exchanged_s[pair] + dt * (3.0 if stand.t_pose else 1.0) if wrong else 0.0
            if self._exchanged_s[pair] > SLIPPED_S:
                self.exchanged ^= {pair}
                self._exchanged_s[pair] = 0.0
                self._mountings.update({role: _Mounting() for role in pair})
                self.calibration = replace(self.calibration, mountings=self._reported())

    def _put_right(self, frame: TrackerFrame) -> TrackerFrame:
        if not self.exchanged:
            return frame
        order = list(range(len(ROLES)))
        for left, right in self.exchanged:
            order[left], order[right] = right, left
        return replace(
            frame, positions=frame.positions[order], rotations=frame.rotations[order],
            velocities=frame.velocities[order], angular_velocities=frame.angular_velocities[order],
            state=frame.state[order], sampled_ns=frame.sampled_ns[order],
        )  # fmt: skip

    # ---- user texts

    def places(self) -> dict[str, str]:
        """Return where on the body each body tracker sits, in words, by role."""
        return {ROLES[r]: described(r, m.reported) for r, m in self._mountings.items() if m.reported is not None}

    def doubts(self) -> list[str]:
        """Return one sentence for each body tracker that is probably at a wrong place."""
        out = [
            f"{ROLES[a]} and {ROLES[b]} are exchanged; they are used the other way round"
            for a, b in sorted(self.exchanged)
        ]
        return out + [
            text for r, m in self._mountings.items() if m.reported is not None and (text := doubt(r, m.reported))
        ]


def on_the_shin(role: int, mounting: F64) -> bool:
    """Return true if a foot tracker is on the shin, where it does not turn with the foot."""
    return role in FEET and bool(mounting[2] > SHIN_M)


def doubt(role: int, mounting: F64) -> str:
    """Return a sentence about the implausible place of a device, or an empty text if the place is plausible."""
    away, limit = float(np.linalg.norm(mounting[:3])), FARTHEST_M[role]
    if on_the_shin(role, mounting) and away < 0.45:
        return (
            f"{ROLES[role]} sits {100 * mounting[2]:.0f} cm above the ankle, on the shin: the foot's rotation is not "
            "measured; strap it on the shoe"
        )
    if away > limit:
        return (
            f"{ROLES[role]} is {100 * away:.0f} cm from its joint, expected at most {100 * limit:.0f} cm: "
            "is it strapped at another place, or does it have the wrong role?"
        )
    return ""


def described(role: int, mounting: F64) -> str:
    """Return the pose of a device in words, for example "12 cm from the joint, turned by 30°, on the back"."""
    x = float(mounting[0])
    up = quat.rotate(quat.get4(mounting[None, 3:], 0), (0.0, 0.0, 1.0))
    turned = math.degrees(quat.angle_of(quat.get4(mounting[None, 3:], 0)))
    words = [f"{100 * float(np.linalg.norm(mounting[:3])):.0f} cm from the joint", f"turned by {turned:.0f}°"]
    if role in TRUNK:
        words.append("on the back" if x < 0.0 else "on the front")
    if on_the_shin(role, mounting):
        words.append("on the shin")
    if up[2] < -0.5:
        words.append("upside down")
    return ", ".join(words)
