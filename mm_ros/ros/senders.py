"""Sends robot commands to programs that control a robot: SONIC by ZeroMQ, TWIST2 by Redis, or ros2_control by topics.

`mm_ros setup robot-out` installs the Python packages for ZeroMQ and Redis.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.base.extras import setup_command
from mm_ros.body.skeleton import Skeleton, default_skeleton
from mm_ros.body.types import F64, AvatarPose
from mm_ros.maths import rotations as rot
from mm_ros.robot import formats, smpl
from mm_ros.robot.figure import Figure
from mm_ros.robot.guard import Command, GuardSettings
from mm_ros.robot.smpl import BodyGuard

RATE_HZ = 50.0
GUARD = GuardSettings()
AHEAD = 45  # The robot controller SONIC needs 45 predicted frames (0.9 s) after the present frame.


class SonicSender:
    """Publishes the motion of a robot to the robot controller SONIC by ZeroMQ.

    `kind` selects the message: sonic (joint angles, message version 1), sonic_body (a body of the model SMPL and the
    wrists, message version 3) or sonic_planner (walking velocity, and poses of wrists and head). Messages of versions 1
    and 3 contain the present frame and predicted frames, in which the joints slow down.
    """

    def __init__(self, figure: Figure, address: str, kind: str = "sonic", settings: GuardSettings = GUARD) -> None:
        self.order = formats.breadth_order(figure, "SONIC")
        try:
            import zmq
        except ImportError:
            raise MmRosError(f"output '{kind}' needs ZeroMQ. Install it: {setup_command('robot-out')}") from None
        self._figure, self._kind, self.body_guard = figure, kind, BodyGuard(settings)
        self._planner = formats.Planner(figure, self.order)
        self._body: tuple[F64, Skeleton] = smpl.standing(), default_skeleton()
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PUB)
        self._socket.setsockopt(zmq.LINGER, 0)
        try:
            self._socket.bind(address)
        except zmq.ZMQError as error:
            raise MmRosError(f"output '{kind}': {address} cannot be opened ({error})") from None
        self._frame = 0

    def take(self, pose: AvatarPose, skeleton: Skeleton) -> None:
        """Store the avatar's pose, which is sent as a body of SMPL if the kind is sonic_body."""
        if self._kind == "sonic_body":
            self._body = smpl.rotation_vectors(pose), skeleton

    def send(self, command: Command, base: F64) -> None:
        base = np.concatenate([base[:3], rot.multiply(base[3:], rot.inverse(self._figure.front))])
        if self._kind == "sonic_planner":
            # The message on the topic `command` starts the control of the robot by the planner of SONIC. SONIC is never
            # stopped by a message, because a robot without control falls.
            if self._frame % RATE_HZ == 0:
                self._socket.send(formats.sonic_command(True, False, True))
            self._socket.send(self._planner.message(command, base, 1 / RATE_HZ))
            self._frame += 1
            return
        t = np.arange(AHEAD + 1)[:, None] / RATE_HZ
        fade, rates = 0.2 * (1 - np.exp(-t / 0.2)), np.exp(-t / 0.2) * command.velocities
        angles = command.positions + fade * command.velocities
        rotations, frames = np.tile(base[3:], (AHEAD + 1, 1)), self._frame + np.arange(AHEAD + 1)
        if self._kind == "sonic_body":
            vectors, turning = self.body_guard.step(self._body[0], command)
            body = vectors + fade[:, :, None] * turning
            points = smpl.smpl_points(body, self._body[1])
            message = formats.sonic_v3(angles, rates, rotations, frames, points, smpl.smpl_pose(body))
        else:
            message = formats.sonic_v1(angles, rates, rotations, frames)
        self._socket.send(message)
        self._frame += 1

    def close(self) -> None:
        self._socket.close(0)
        self._context.term()


class Twist2Sender:
    """Writes the motion of a robot to a Redis server, under the keys that TWIST2 reads."""

    def __init__(self, figure: Figure, address: str, robot: str) -> None:
        self.order = formats.limb_order(figure, "TWIST2")
        try:
            import redis
        except ImportError:
            raise MmRosError(f"output 'twist2' needs Redis. Install it: {setup_command('robot-out')}") from None
        host, _, port = address.partition(":")
        self._errors = redis.RedisError
        self._client = redis.Redis(host=host, port=int(port or 6379), socket_timeout=0.1, socket_connect_timeout=1.0)
        try:
            self._client.ping()
        except redis.RedisError as error:
            raise MmRosError(f"output 'twist2': no Redis at {address} ({error})") from None
        self._robot, self._front = robot, figure.front
        self._before: F64 | None = None

    def send(self, command: Command, base: F64) -> None:
        root = np.concatenate([base[:3], rot.multiply(base[3:], rot.inverse(self._front))])
        before = root if self._before is None else self._before
        self._before = root
        stamp = int(time.time() * 1000)
        keys = formats.twist2(self._robot, root, before, 1 / RATE_HZ, command.positions, stamp)
        try:
            with self._client.pipeline(transaction=False) as pipe:
                for key, value in keys.items():
                    pipe.set(key, value)
                pipe.execute()
        except self._errors as error:
            raise MmRosError(f"output 'twist2': Redis does not take the command ({error})") from None

    def close(self) -> None:
        self._client.close()


class TopicSender:
    """Publishes robot commands to controllers of ros2_control, as JointTrajectory or Float64MultiArray messages."""

    def __init__(self, publisher: Any, order: Sequence[str], kind: str, rate: float) -> None:
        self.order, self._publisher, self._kind, self._period = tuple(order), publisher, kind, 1 / rate

    def send(self, command: Command, base: F64) -> None:
        self._publisher.publish(joint_message(self._kind, self.order, command, self._period))

    def close(self) -> None:
        pass


def joint_message(kind: str, names: Sequence[str], command: Command, period_s: float) -> Any:
    """Return the message for a command, whose type depends on the output `kind` (`trajectory` or `position`)."""
    if kind == "position":
        from std_msgs.msg import Float64MultiArray

        return Float64MultiArray(data=command.positions.tolist())
    from builtin_interfaces.msg import Duration
    from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

    point = JointTrajectoryPoint(positions=command.positions.tolist(), velocities=command.velocities.tolist())
    # The time stamp of the message stays 0, so that the controller starts the trajectory at once.
    point.time_from_start = Duration(sec=int(period_s), nanosec=int(period_s % 1 * 1e9))
    return JointTrajectory(joint_names=list(names), points=[point])
