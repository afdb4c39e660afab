"""Connections to receivers of robot motion that do not speak ROS. Their libraries are in the extra `robot-out`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.base.extras import setup_command
from mm_ros.body.types import F64
from mm_ros.maths import rotations as rot
from mm_ros.robot import formats
from mm_ros.robot.figure import Figure
from mm_ros.robot.guard import Command

RATE_HZ = 50.0
AHEAD = 45  # predicted frames after the present one: SONIC looks 0.9 s ahead


class SonicSender:
    """ZeroMQ publisher of version 1: the present frame and predictions, whose velocity fades out."""

    def __init__(self, figure: Figure, address: str) -> None:
        self.order = formats.breadth_order(figure, "SONIC")
        try:
            import zmq
        except ImportError:
            raise MmRosError(f"output 'sonic' needs ZeroMQ. Install it: {setup_command('robot-out')}") from None
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PUB)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._front = figure.front
        try:
            self._socket.bind(address)
        except zmq.ZMQError as error:
            raise MmRosError(f"output 'sonic': {address} cannot be opened ({error})") from None
        self._frame = 0

    def send(self, command: Command, base: F64) -> None:
        t = np.arange(AHEAD + 1)[:, None] / RATE_HZ
        fade = 0.2 * (1 - np.exp(-t / 0.2))
        angles = command.positions + fade * command.velocities
        rates = np.exp(-t / 0.2) * command.velocities
        turned = rot.multiply(base[3:], rot.inverse(self._front))
        rotations = np.tile(turned, (AHEAD + 1, 1))
        self._socket.send(formats.sonic_v1(angles, rates, rotations, self._frame + np.arange(AHEAD + 1)))
        self._frame += 1

    def close(self) -> None:
        self._socket.close(0)
        self._context.term()


class Twist2Sender:
    """Writes the keys of TWIST2 to Redis."""

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
    """JointTrajectory or Float64MultiArray for ros2_control."""

    def __init__(self, publisher: Any, order: Sequence[str], kind: str, rate: float) -> None:
        self.order, self._publisher, self._kind, self._period = tuple(order), publisher, kind, 1 / rate

    def send(self, command: Command, base: F64) -> None:
        self._publisher.publish(joint_message(self._kind, self.order, command, self._period))

    def close(self) -> None:
        pass


def joint_message(kind: str, names: Sequence[str], command: Command, period_s: float) -> Any:
    """Message of output `trajectory` or `position`."""
    if kind == "position":
        from std_msgs.msg import Float64MultiArray

        return Float64MultiArray(data=command.positions.tolist())
    from builtin_interfaces.msg import Duration
    from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

    point = JointTrajectoryPoint(positions=command.positions.tolist(), velocities=command.velocities.tolist())
    # The next command replaces this point before its time; a stamp of 0 means "now".
    point.time_from_start = Duration(sec=int(period_s), nanosec=int(period_s % 1 * 1e9))
    return JointTrajectory(joint_names=list(names), points=[point])
