"""Encoders for the messages and files of robot controllers and tools: SONIC, TWIST2, BeyondMimic and GMR.

The module `ros/senders.py` sends the messages that this module makes. The formats of messages and files follow
the published source code of the receiving programs.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body.types import F64
from mm_ros.maths import rotations as rot
from mm_ros.robot.figure import Figure
from mm_ros.robot.guard import Command
from mm_ros.robot.model import MOVING

SONIC_HEADER = 1280  # bytes
BODY_JOINTS = 29
# Minimum speeds at which the robot walks slowly, walks and runs, for the planner of the controller SONIC. POINTS_M are
# the positions of left palm, right palm and neck in the axes of their links.
PLANNER_SPEEDS_M_S = (0.15, 0.8, 1.8)
POINTS_M = ((0.18, -0.025, 0.0), (0.18, 0.025, 0.0), (0.0, 0.0, 0.35))
TYPES = {"f4": "f32", "f8": "f64", "i4": "i32", "i8": "i64", "u1": "u8", "b1": "bool"}


def _refuse(figure: Figure, names: Sequence[str], receiver: str) -> tuple[str, ...]:
    if len(names) != BODY_JOINTS:
        raise MmRosError(
            f"{receiver} takes {BODY_JOINTS} body joints (legs of 6, waist of 3, arms of 7), and robot "
            f"'{figure.robot.name}' has {len(names)}"
        )
    return tuple(names)


def limb_order(figure: Figure, receiver: str = "this format") -> tuple[str, ...]:
    """Return the joint names in the order left leg, right leg, waist, left arm, right arm. Within each limb, the joints
    are in the order from the trunk outward."""
    chains = figure.roles.chains
    legs = [f"{s}_{p}" for s in ("left", "right") for p in ("upper_leg", "lower_leg", "foot")]
    arms = [f"{s}_{p}" for s in ("left", "right") for p in ("shoulder", "upper_arm", "lower_arm", "hand")]
    return _refuse(figure, [j for part in (*legs, "upper_chest", *arms) for j in chains.get(part, ())], receiver)


def breadth_order(figure: Figure, receiver: str = "this format") -> tuple[str, ...]:
    """Return the names of the body joints in the breadth-first order of the robot's tree, as the simulator IsaacLab
    numbers them."""
    known, order, level = set(limb_order(figure, receiver)), [], [figure.robot.base]
    while level:
        below = [j for link in level for j in figure.robot.by_parent.get(link, [])]
        merged: list[Any] = []  # IsaacLab merges links that a fixed joint connects, so fixed joints get no number.
        while below:
            j = below.pop(0)
            if j.kind in MOVING:
                merged.append(j)
            else:
                below = [*figure.robot.by_parent.get(j.child, []), *below]
        order += [j.name for j in merged if j.name in known]
        level = [j.child for j in merged]
    return tuple(order)


def sonic(topic: str, version: int, fields: Mapping[str, Any]) -> bytes:
    """Return a ZeroMQ message for the robot controller SONIC: topic, JSON header that is padded with zeros to 1280
    bytes, and arrays in little-endian byte order."""
    arrays = {name: np.ascontiguousarray(value) for name, value in fields.items()}
    arrays = {name: a.astype(a.dtype.newbyteorder("<")) for name, a in arrays.items()}
    described = [
        {"name": name, "dtype": TYPES[a.dtype.str[1:]], "shape": list(a.shape)} for name, a in arrays.items()
    ]
    header = json.dumps({"v": version, "endian": "le", "count": len(described), "fields": described}).encode()
    if len(header) > SONIC_HEADER:
        raise MmRosError(f"the header of a SONIC message has {len(header)} bytes; at most {SONIC_HEADER} fit")
    return topic.encode() + header.ljust(SONIC_HEADER, b"\0") + b"".join(a.tobytes() for a in arrays.values())


def sonic_v1(angles: F64, rates: F64, rotations: F64, frames: Any) -> bytes:
    """Return a message in version 1 for the topic `pose` of the robot controller SONIC. `angles` and `rates` (N, 29) of
    the joints are in the order of `breadth_order`; `rotations` (N, 4) of the base are w x y z."""
    return sonic("pose", 1, {
        "joint_pos": np.asarray(angles, np.float32), "joint_vel": np.asarray(rates, np.float32),
        "body_quat": np.asarray(rotations, np.float32), "frame_index": np.asarray(frames, np.int64),
    })  # fmt: skip


def sonic_v3(angles: F64, rates: F64, rotations: F64, frames: Any, smpl_joints: F64, smpl_pose: F64) -> bytes:
    """Return a message in version 3 for the topic `pose` of the robot controller SONIC. The message also contains a
    human body of the model SMPL: joint positions (N, 24, 3) [m] and rotation vectors (N, 21, 3) [rad]."""
    return sonic("pose", 3, {
        "joint_pos": np.asarray(angles, np.float32), "joint_vel": np.asarray(rates, np.float32),
        "body_quat": np.asarray(rotations, np.float32), "frame_index": np.asarray(frames, np.int64),
        "smpl_joints": np.asarray(smpl_joints, np.float32), "smpl_pose": np.asarray(smpl_pose, np.float32),
    })  # fmt: skip


def sonic_command(start: bool, stop: bool, planner: bool) -> bytes:
    flags = {"start": start, "stop": stop, "planner": planner}
    return sonic("command", 1, {name: np.array([value], np.uint8) for name, value in flags.items()})


def sonic_planner(
    mode: int, movement: Any, facing: Any, speed: float = -1.0, height: float = -1.0,
    positions: F64 | None = None, rotations: F64 | None = None,
) -> bytes:  # fmt: skip
    """Return a serialized message for the topic `planner` of the robot controller SONIC. The rows of `positions` (3, 3)
    and `rotations` (3, 4, w x y z) are left wrist, right wrist and head, in the frame of the robot's root."""
    fields: dict[str, Any] = {
        "mode": np.array([mode], np.int32), "movement": np.asarray(movement, np.float32),
        "facing": np.asarray(facing, np.float32), "speed": np.array([speed], np.float32),
        "height": np.array([height], np.float32),
    }  # fmt: skip
    if positions is not None and rotations is not None:
        fields["vr_position"] = np.asarray(positions, np.float32).reshape(9)
        fields["vr_orientation"] = np.asarray(rotations, np.float32).reshape(12)
    return sonic("planner", 1, fields)


class Planner:
    """Makes messages to the planner of the robot controller SONIC from the commands of a robot. A message to the
    planner contains the gait, and the poses of wrists and neck in the frame of the robot's root. Directions in the
    messages are relative to the robot's heading in the first message, as SONIC expects."""

    def __init__(self, figure: Figure, order: Sequence[str]) -> None:
        self._figure, self._order = figure, tuple(order)
        self._before: F64 | None = None
        self._start = 0.0  # yaw

    def message(self, command: Command, base: F64, dt: float) -> bytes:
        if self._before is None:
            self._before, self._start = base, float(rot.yaw_of(base[3:]))
        way = rot.rotate(rot.from_yaw(-self._start), (base[:3] - self._before[:3]) / dt)
        self._before = base
        yaw = float(rot.yaw_of(base[3:])) - self._start
        speed = float(np.hypot(way[0], way[1]))
        mode = sum(speed >= least for least in PLANNER_SPEEDS_M_S)
        movement = [way[0] / speed, way[1] / speed, 0.0] if mode else [0.0, 0.0, 0.0]
        points = self._points(command.positions)
        return sonic_planner(
            mode, movement, [np.cos(yaw), np.sin(yaw), 0.0], speed if mode else -1.0, -1.0, points[:, :3], points[:, 3:]
        )

    def _points(self, angles: F64) -> F64:
        """Return the poses (3, 7) of left wrist, right wrist and neck in the axes of the pelvis."""
        roles, limbs, front = self._figure.roles, self._figure.limbs, self._figure.front
        links = self._figure.robot.links(dict(zip(self._order, angles.tolist(), strict=True)))
        root, out = links[roles.pelvis], []
        level = rot.multiply(rot.inverse(self._figure.zero[roles.pelvis][3:]), rot.inverse(front))
        turn = rot.inverse(rot.multiply(root[3:], level))
        for link, point in zip((limbs["left arm"].tip, limbs["right arm"].tip, roles.chest), POINTS_M, strict=True):
            at = links[link]
            place = rot.rotate(turn, at[:3] + rot.rotate(at[3:], np.array(point)) - root[:3])
            out.append(np.concatenate([place, rot.multiply(turn, at[3:])]))
        return np.array(out)


def twist2(robot: str, base: F64, before: F64, dt: float, angles: F64, stamp_ms: int) -> dict[str, str]:
    """Return the Redis keys and JSON values of one command for the robot controller TWIST2. The JSON array for the body
    holds the velocity x y of the root along its heading, its height, roll, pitch and yaw rate, and 29 joint angles in
    the order of `limb_order`. The commanded angles of the robot's hands and neck are 0."""
    yaw = float(rot.yaw_of(base[3:]))
    way = rot.rotate(rot.from_yaw(-yaw), (base[:3] - before[:3]) / dt)
    turned = rot.wrap_angle(yaw - float(rot.yaw_of(before[3:])))
    tilt = rot.multiply(rot.from_yaw(-yaw), base[3:])
    roll = float(np.arctan2(2 * (tilt[0] * tilt[1] + tilt[2] * tilt[3]), 1 - 2 * (tilt[1] ** 2 + tilt[2] ** 2)))
    pitch = float(np.arcsin(np.clip(2 * (tilt[0] * tilt[2] - tilt[3] * tilt[1]), -1.0, 1.0)))
    body = [way[0], way[1], base[2], roll, pitch, turned / dt, *np.asarray(angles).tolist()]
    if len(body) != 6 + BODY_JOINTS:
        raise MmRosError(f"TWIST2 takes {BODY_JOINTS} joints, came {len(body) - 6}")
    return {
        f"action_body_{robot}": json.dumps([float(v) for v in body]),
        f"action_hand_left_{robot}": json.dumps([0.0] * 7),
        f"action_hand_right_{robot}": json.dumps([0.0] * 7),
        f"action_neck_{robot}": json.dumps([0.0] * 2),
        "t_action": json.dumps(stamp_ms),
    }


def beyondmimic_csv(bases: F64, angles: F64) -> str:
    """Return a CSV file for the program BeyondMimic, without a header and with one row per frame at 30 Hz. Each row of
    the CSV file has x y z and qx qy qz qw of the root, and 29 joint angles in the order of `limb_order`."""
    if np.shape(angles)[1] != BODY_JOINTS:
        raise MmRosError(f"BeyondMimic takes {BODY_JOINTS} joints, came {np.shape(angles)[1]}")
    rows = np.concatenate([bases[:, :3], bases[:, [4, 5, 6, 3]], angles], axis=1)
    return "".join(",".join(f"{v:.6f}" for v in row) + "\n" for row in rows)


def gmr_pickle(rate: float, bases: F64, angles: F64, local_body_pos: F64, links: Sequence[str]) -> bytes:
    """Return a pickle file for the tool GMR, in which quaternions `root_rot` are x y z w. mm_ros writes pickle files
    but never reads them, because reading a pickle file can run any code."""
    return pickle.dumps({
        "fps": rate, "root_pos": _rows(bases[:, :3]), "root_rot": _rows(bases[:, [4, 5, 6, 3]]),
        "dof_pos": _rows(angles), "local_body_pos": _rows(local_body_pos), "link_body_list": list(links),
    })  # fmt: skip


def _rows(values: F64) -> F64:
    return np.array(values, np.float64, order="C")
