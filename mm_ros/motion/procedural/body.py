"""Computation of full-body motion (pelvis, spine, head, arms and legs) from the desired motion and the feet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import (
    CHEST,
    HEAD,
    HIPS,
    LEFT_FOOT,
    LEFT_HAND,
    LEFT_LOWER_ARM,
    LEFT_LOWER_LEG,
    LEFT_SHOULDER,
    LEFT_TOES,
    LEFT_UPPER_ARM,
    LEFT_UPPER_LEG,
    NECK,
    RIGHT_FOOT,
    RIGHT_HAND,
    RIGHT_LOWER_ARM,
    RIGHT_LOWER_LEG,
    RIGHT_SHOULDER,
    RIGHT_TOES,
    RIGHT_UPPER_ARM,
    RIGHT_UPPER_LEG,
    ROOT,
    SPINE,
    UPPER_CHEST,
    default_skeleton,
)
from mm_ros.body.types import F64
from mm_ros.maths import rotations as rot
from mm_ros.maths.signals import continuous, savitzky_golay
from mm_ros.motion.procedural import feet as ft
from mm_ros.motion.procedural import smooth as sm
from mm_ros.motion.procedural.desired_motion import DesiredMotion
from mm_ros.motion.procedural.footsteps import ANKLE_BEHIND, Step, plan_footsteps
from mm_ros.motion.procedural.geometry import about, leg_rotations, mirror_quaternion

Array = Any
PENDULUM = 3.2  # frequency [1/s] of an inverted pendulum with the height of the body's centre of mass
SUPPORT_S = 0.26  # standard deviation [s] of the Gaussian filter that smooths the path of the support point
KNEE_MIN = np.radians(5.0)  # minimum bend [rad] of the knee while the foot is in the air
KNEE_PLANTED = np.radians(9.0)  # minimum bend [rad] of the knee while the foot is on the floor
KNEE_SOFT_M = 0.003  # width [m] of the range in which the length of a leg in the air approaches its limit smoothly
LEGS = (
    (LEFT_UPPER_LEG, LEFT_LOWER_LEG, LEFT_FOOT, LEFT_TOES),
    (RIGHT_UPPER_LEG, RIGHT_LOWER_LEG, RIGHT_FOOT, RIGHT_TOES),
)
ARMS = (
    (LEFT_SHOULDER, LEFT_UPPER_ARM, LEFT_LOWER_ARM, LEFT_HAND),
    (RIGHT_SHOULDER, RIGHT_UPPER_ARM, RIGHT_LOWER_ARM, RIGHT_HAND),
)


@dataclass(frozen=True)
class Manner:
    """Parameters of the way in which a person moves; the parameters that are factors are 1 for an average person."""

    bob: float = 1.0
    arm_swing: float = 1.0
    elbow: float = 0.30  # bend of the elbow of a hanging arm [rad]
    pelvis_yaw: float = 1.0
    stoop: float = 0.03  # forward pitch of the person's chest in all motion [rad]


@dataclass
class Body:
    """Position of the pelvis, and rotations of pelvis, chest and head, in the room."""

    pelvis: F64  # (F, 3)
    pelvis_rotation: F64  # (F, 4) room
    chest_rotation: F64
    head_rotation: F64
    stride: F64  # (F,) distance [m] by which the left foot is ahead of the right foot


def make_motion(
    name: str,
    desired: DesiredMotion,
    seed: int = 0,
    manner: Manner | None = None,
    feet: tuple[Step, Step] | None = None,
) -> tuple[Clip, list[Step]]:
    """Make a clip and the footsteps of a desired motion; `feet` holds the last steps before its start, if any."""
    rng = np.random.default_rng(seed)
    times = np.arange(len(desired)) / desired.rate
    steps = plan_footsteps(desired, rng, feet=feet)
    ground = ft.ground(times, steps, desired.posture["tiptoe"], desired.posture["sink"])
    return pose_body(name, desired, ground, manner or Manner(), rng), steps


def pose_body(name: str, desired: DesiredMotion, ground: ft.Ground, manner: Manner, rng: np.random.Generator) -> Clip:
    skeleton = default_skeleton()
    offsets = skeleton.offsets.astype(float)
    body = _trunk(desired, ground, manner, rng, offsets)
    n = len(desired)
    rotations = np.zeros((n, len(skeleton), 4))
    rotations[..., 0] = 1.0
    positions = np.repeat(offsets[None], n, axis=0)
    _place_root(positions, rotations, body, desired.rate)
    _bend_spine(rotations, body)
    _swing_arms(rotations, desired, ground, body, manner, rng)
    _place_legs(rotations, body, ground, offsets)
    rotations *= np.where(rotations[..., :1] < 0, -1.0, 1.0)
    rotations[:, ROOT] = continuous(rotations[:, ROOT])
    return Clip(
        name, desired.rate, skeleton, positions.astype(np.float32), rotations.astype(np.float32), subject="procedural"
    )


def _step_speed(desired: DesiredMotion) -> Array:
    return sm.gaussian(np.hypot(desired.velocity[:, 0], desired.velocity[:, 1]), 0.25, desired.rate)


def _trunk(desired: DesiredMotion, ground: ft.Ground, manner: Manner, rng: np.random.Generator, offsets: Array) -> Body:
    rate, n = desired.rate, len(desired)
    standing = sm.gaussian(ground.standing, 0.3, rate)
    forward = np.stack([np.cos(desired.yaw), np.sin(desired.yaw)], 1)
    left = np.stack([-forward[:, 1], forward[:, 0]], 1)
    alive = desired.liveliness[:, None]
    wander = sm.noise(rng, n, 2, 1.1, rate) * np.array([0.006, 0.016]) * standing[:, None] * alive
    support = ground.support + wander[:, :1] * forward + wander[:, 1:] * left
    run = desired.posture["run"]
    # The centre of mass in walking is between that of an inverted pendulum and the smoothed support point. In running,
    # the centre of mass follows the smoothed support point.
    pendulum = sm.gaussian(sm.bounded_pendulum(support, PENDULUM, rate), 0.05, rate)
    share = 0.5 * (1 - run[:, None])
    centre = share * pendulum + (1 - share) * sm.gaussian(support, SUPPORT_S, rate)
    centre += _travel_evenly(centre, desired, forward, left)
    lean = desired.posture["lean"]
    pelvis_xy = (
        centre - (0.025 - 0.005 * np.minimum(_step_speed(desired), 1.5) + 0.20 * np.sin(lean))[:, None] * forward
    )

    relative = [((f.ankle[:, :2] - pelvis_xy) * forward).sum(1) for f in ground.feet]
    stride = sm.gaussian(relative[0] - relative[1], 0.045, rate)
    speed = _step_speed(desired)
    breath = (
        np.sin(2 * np.pi * np.cumsum(0.25 + 0.03 * sm.noise(rng, n, 1, 2.0, rate)[:, 0]) / rate) * desired.liveliness
    )

    facing = sm.gaussian(_facing_of_feet(desired, ground), 0.12, rate)
    yaw = facing - 0.115 * manner.pelvis_yaw * stride
    load = sm.gaussian(2 * ground.load_left - 1, 0.05, rate)
    moving = sm.ramp(speed, 0.1, 0.9)
    roll = load * (0.02 + 0.045 * moving)
    pitch = 0.03 + 0.35 * lean + 0.02 * moving + 0.07 * run
    pelvis_rotation = _euler(yaw, pitch, roll)

    chest_yaw = facing + 0.10 * stride * (1 - 0.2 * run)
    small = sm.noise(rng, n, 4, 0.9, rate) * 0.012 * alive
    chest_pitch = manner.stoop + lean + 0.02 * moving + 0.13 * run + 0.006 * breath + 0.5 * small[:, 0]
    ahead = sm.gaussian(_lead(desired.yaw, round(0.30 * rate)), 0.15, rate)
    chest_yaw = chest_yaw + 0.45 * (ahead - facing)
    chest_rotation = _euler(chest_yaw, chest_pitch, -0.35 * roll + 0.6 * small[:, 1])
    look_yaw = ahead + desired.posture["look_yaw"] + small[:, 2]
    look_pitch = desired.posture["look_pitch"] + 0.04 + 0.12 * lean + small[:, 3]
    head_rotation = _euler(look_yaw, look_pitch, np.zeros(n))

    bob = _bob(ground.phase, speed, run, standing, manner, desired)
    height = 0.95 - 0.008 - desired.posture["sink"] + bob + 0.0015 * breath + _raised(desired.posture["tiptoe"])
    height = height - 0.042 * run
    pelvis = np.concatenate([pelvis_xy, height[:, None]], 1)
    limit = _reach(pelvis, pelvis_rotation, ground, offsets)
    pelvis[:, 2] = height + sm.lower_envelope(np.minimum(limit - height, 0.0), 0.085, rate)
    body = Body(pelvis, pelvis_rotation, chest_rotation, head_rotation, stride)
    _hold_swing_in_reach(body, ground, offsets)
    return body


def _travel_evenly(centre: Array, desired: DesiredMotion, forward: Array, left: Array) -> Array:
    """Return a correction of the body's position along the path, because the body moves more evenly than the feet."""
    velocity = desired.velocity[:, :1] * forward + desired.velocity[:, 1:] * left
    way = sm.gaussian(velocity, 0.2, desired.rate)
    speed = np.linalg.norm(way, axis=1, keepdims=True)
    lateral = np.minimum(np.abs(sm.gaussian(desired.velocity[:, 1:], 0.2, desired.rate)) / 0.4, 1.0)
    behind = ANKLE_BEHIND - ft.MIDDLE
    path = desired.position - behind * forward
    gap = ((path - centre) * way).sum(1, keepdims=True) / np.maximum(speed, 0.05) ** 2 * way
    return (0.3 + 0.4 * lateral) * sm.ramp(speed, 0.05, 0.4) * sm.gaussian(gap, 0.1, desired.rate)


def _lead(x: Array, frames: int) -> Array:
    return np.concatenate([x[frames:], np.repeat(x[-1:], frames)])


def _facing_of_feet(desired: DesiredMotion, ground: ft.Ground) -> Array:
    turned = [rot.wrap_angle(f.yaw - desired.yaw) for f in ground.feet]
    return desired.yaw + 0.35 * (turned[0] + turned[1])


def _euler(yaw: Array, pitch: Array, roll: Array) -> Array:
    return rot.multiply(rot.multiply(about(2, yaw), about(1, pitch)), about(0, roll))


def _bob(phase: Array, speed: Array, run: Array, standing: Array, manner: Manner, desired: DesiredMotion) -> Array:
    """Return the vertical motion of the pelvis during each step, which is opposite in walking and running."""
    along = np.abs(sm.gaussian(desired.velocity[:, 0], 0.25, desired.rate))
    walk = (0.0075 + 0.012 * np.minimum(along, 1.9)) * manner.bob
    amplitude = ((1 - run) * walk - run * 0.034) * (1 - standing)
    drop = amplitude * 0.65 * (1 - run)
    return amplitude * np.cos(2 * np.pi * phase) - drop


def _raised(tiptoe: Array) -> Array:
    return ft.ankle_of(tiptoe)[:, 1] - ft.ankle_of(np.zeros(1))[0, 1]


def _reach(pelvis: Array, rotation: Array, ground: ft.Ground, offsets: Array) -> Array:
    """Return the maximum height of the pelvis at which the knees above feet on the floor are sufficiently bent."""
    out = np.full(len(pelvis), np.inf)
    for (upper, lower, foot, _), motion in zip(LEGS, ground.feet, strict=True):
        hip = rot.rotate(rotation, np.broadcast_to(offsets[upper], pelvis.shape))
        length = (abs(offsets[lower, 2]) + abs(offsets[foot, 2])) * np.cos(KNEE_PLANTED / 2)
        flat = ((motion.ankle[:, :2] - pelvis[:, :2] - hip[:, :2]) ** 2).sum(1)
        limit = motion.ankle[:, 2] + np.sqrt(np.maximum(length**2 - flat, 0.05)) - hip[:, 2]
        out = np.minimum(out, np.where(motion.planted, limit, np.inf))
    return out


def _hold_swing_in_reach(body: Body, ground: ft.Ground, offsets: Array) -> None:
    """Move feet in the air towards the hips, so that each knee is bent by at least KNEE_MIN (changes `ground`)."""
    for (upper, lower, foot, _), motion in zip(LEGS, ground.feet, strict=True):
        hip = body.pelvis + rot.rotate(body.pelvis_rotation, np.broadcast_to(offsets[upper], body.pelvis.shape))
        longest = (abs(offsets[lower, 2]) + abs(offsets[foot, 2])) * np.cos(KNEE_MIN / 2)
        leg = motion.ankle - hip
        distance = np.linalg.norm(leg, axis=1)
        held = longest - KNEE_SOFT_M * np.logaddexp(0.0, (longest - distance) / KNEE_SOFT_M)
        share = np.where(motion.planted, 0.0, held / distance - 1)
        motion.ankle += share[:, None] * leg


def _place_root(positions: Array, rotations: Array, body: Body, rate: float) -> None:
    xy = savitzky_golay(body.pelvis[:, :2], 31)
    yaw = savitzky_golay(np.unwrap(rot.yaw_of(body.pelvis_rotation)), 61)
    root = about(2, yaw)
    positions[:, ROOT] = np.concatenate([xy, np.zeros((len(xy), 1))], 1)
    rotations[:, ROOT] = root
    positions[:, HIPS] = rot.rotate(rot.inverse(root), body.pelvis - positions[:, ROOT])
    rotations[:, HIPS] = rot.multiply(rot.inverse(root), body.pelvis_rotation)


def _bend_spine(rotations: Array, body: Body) -> None:
    bend = rot.log(rot.multiply(rot.inverse(body.pelvis_rotation), body.chest_rotation))
    for joint, share in ((SPINE, 0.35), (CHEST, 0.35), (UPPER_CHEST, 0.30)):
        rotations[:, joint] = rot.exp(share * bend)
    nod = rot.log(rot.multiply(rot.inverse(body.chest_rotation), body.head_rotation))
    rotations[:, NECK] = rot.exp(0.45 * nod)
    rotations[:, HEAD] = rot.exp(0.55 * nod)


def arm_rotations(swing: Array, abduct: Array, inward: Array, elbow: Array) -> tuple[Array, Array]:
    """Return the rotations of the left upper arm and forearm relative to their parent joints.

    The angles are: `swing` forward, `abduct` outward, `inward` about the upper arm, and `elbow` for its bend.
    """
    upper = rot.multiply(rot.multiply(about(1, -swing), about(0, abduct - np.pi / 2)), about(1, inward))
    return upper, about(2, -elbow)


def _swing_arms(
    rotations: Array, desired: DesiredMotion, ground: ft.Ground, body: Body, manner: Manner, rng: np.random.Generator
) -> None:
    n, rate = len(desired), desired.rate
    run = desired.posture["run"]
    lean = desired.posture["lean"]
    speed = _step_speed(desired)
    low = np.minimum(desired.posture["sink"] / 0.4, 1.0)  # 1 in a crouch with the hands beside the knees, 0 if upright
    for side, (shoulder, upper, lower, hand) in enumerate(ARMS):
        sign = 1.0 if side == 0 else -1.0
        own = sm.noise(rng, n, 3, 0.8, rate) * np.array([0.03, 0.015, 0.05]) * desired.liveliness[:, None]
        # Each arm swings forward with the opposite leg.
        drive = -sign * sm.gaussian(body.stride, 0.06, rate)
        swing = manner.arm_swing * (0.38 + 0.12 * run) * drive - 0.10 + 0.07 * np.minimum(speed, 1.5)
        swing = swing + 0.8 * lean + own[:, 0] - 0.1 * run
        forward = 0.5 * (drive + np.hypot(drive, 0.15))  # forward swing of the arm, near 0 while it is behind the body
        elbow = manner.elbow + 0.10 * np.minimum(speed, 1.6) + 0.25 * (drive + 0.3) * sm.ramp(speed, 0.2, 1.2)
        elbow = (1 - run) * elbow + run * (1.45 + 0.25 * drive) + own[:, 2] + 0.2 * lean + 0.5 * low
        inward = 0.10 + 0.30 * forward + 0.25 * run
        q_upper, q_lower = arm_rotations(
            swing + 0.22 * low,
            0.13 + 0.08 * run + 0.28 * low + own[:, 1],
            inward,
            sm.gaussian(np.maximum(elbow, 0.12), 0.07, rate),
        )
        q_shoulder = about(2, -0.10 * drive)
        q_hand = rot.multiply(about(0, np.full(n, 0.04)), about(2, np.full(n, -0.10)))
        for joint, q in ((shoulder, q_shoulder), (upper, q_upper), (lower, q_lower), (hand, q_hand)):
            rotations[:, joint] = q if side == 0 else mirror_quaternion(q)


def _toes_above_floor(motion: ft.FootMotion) -> Array:
    ball = motion.ankle[:, 2] + ft.turned(ft.BALL - ft.ANKLE, motion.pitch)[:, 1] - ft.BALL[1]
    steepest = np.arcsin(np.clip(0.85 * ball / (ft.TIP[0] - ft.BALL[0]), 0.0, 1.0))
    return np.minimum(motion.pitch + motion.toe_pitch, steepest) - motion.pitch


def _place_legs(rotations: Array, body: Body, ground: ft.Ground, offsets: Array) -> None:
    for side, ((upper, lower, foot, toes), motion) in enumerate(zip(LEGS, ground.feet, strict=True)):
        hip = body.pelvis + rot.rotate(body.pelvis_rotation, np.broadcast_to(offsets[upper], body.pelvis.shape))
        pelvis_yaw = rot.yaw_of(body.pelvis_rotation)
        # The knee points to a direction between the directions of the foot and of the pelvis.
        yaw = pelvis_yaw + 0.65 * rot.wrap_angle(motion.yaw - pelvis_yaw) + (0.03 if side == 0 else -0.03)
        pole = np.stack([np.cos(yaw), np.sin(yaw), np.zeros_like(yaw)], -1)
        thigh, shank = abs(offsets[lower, 2]), abs(offsets[foot, 2])
        q_upper, q_lower = leg_rotations(hip, motion.ankle, pole, thigh, shank)
        q_foot = rot.multiply(about(2, motion.yaw), about(1, motion.pitch))
        rotations[:, upper] = rot.multiply(rot.inverse(body.pelvis_rotation), q_upper)
        rotations[:, lower] = rot.multiply(rot.inverse(q_upper), q_lower)
        rotations[:, foot] = rot.multiply(rot.inverse(q_lower), q_foot)
        rotations[:, toes] = about(1, _toes_above_floor(motion))


def with_tags(clip: Clip, tags: tuple[tuple[str, int, int], ...]) -> Clip:
    return replace(clip, tags=tags)
