"""Messages of WebSocket clients that replace the headset page in tests: sent tracker frames and received poses."""

import struct
import time

import numpy as np
from processes import PATIENCE_S

from mm_ros.body.types import identity_pose
from mm_ros.web.headset import wire


def frame(**changed) -> bytes:
    """Return a tracker frame as the headset page sends it, with all devices tracked and the values `changed`."""
    values = {
        "states": 0b101010, "flags": 0, "sequence": 7, "time": 12.5, "lead": 0.0, "poses": [0.0, 1.6, 0, 0, 0, 0, 1] * 3
    }  # fmt: skip
    values |= changed
    return struct.pack(
        "<BBBBIdff21fI", 1, values["states"], values["flags"], 0, values["sequence"], values["time"], values["lead"],
        0.1, *values["poses"], 99,
    )  # fmt: skip


def until_true(condition, what, seconds=PATIENCE_S):
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, what
        time.sleep(0.005)
    return value


def pose_message():
    return wire.PoseMessage(0, 5, 0, identity_pose(), np.zeros((2, 3)), np.tile([1.0, 0.0, 0.0, 0.0], (2, 1)))


def next_pose(page) -> int:
    """Return the sequence number of the next pose message; pings and text messages are ignored."""
    while not isinstance(message := page.recv(timeout=PATIENCE_S), bytes) or message[0] != wire.POSE:
        pass
    return struct.unpack_from("<I", message, 4)[0]
