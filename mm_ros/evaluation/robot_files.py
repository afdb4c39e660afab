"""Writes the motion of a robot for other programs: as a CSV file of BeyondMimic or a pickle file of GMR, at 30 Hz."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mm_ros.base.files import write_whole
from mm_ros.maths import rotations as rot
from mm_ros.robot import formats
from mm_ros.robot.figure import Figure
from mm_ros.robot.follow import RobotState

RATE = 30.0


def write_motion(path: Path, figure: Figure, states: Sequence[RobotState]) -> int:
    """Write the motion of a robot at 30 frames per second and return the number of frames. Each frame has the robot
    state that is nearest in time."""
    times = np.array([s.stamp_ns for s in states]) * 1e-9
    wanted = np.arange(times[0], times[-1] + 1e-9, 1 / RATE)
    chosen = [states[i] for i in np.abs(times[None] - wanted[:, None]).argmin(axis=1)]
    # BeyondMimic and GMR define that the robot's base faces +x if the rotation of the base is the identity.
    turn = rot.inverse(figure.front)
    bases = np.array([np.concatenate([s.base[:3], rot.multiply(s.base[3:], turn)]) for s in chosen])
    csv = path.suffix == ".csv"
    order = formats.limb_order(figure, "BeyondMimic") if csv else chosen[0].names
    angles = np.array([[s.by_name()[n] for n in order] for s in chosen])
    if csv:
        data = formats.beyondmimic_csv(bases, angles).encode()
    else:
        links = [figure.robot.base, *(j.child for j in figure.robot.joints)]
        places = [figure.robot.links(s.by_name()) for s in chosen]
        local = np.array([[place[link][:3] for link in links] for place in places])
        data = formats.gmr_pickle(RATE, bases, angles, local, links)
    write_whole(path, data)
    return len(chosen)
