"""The source `topics`, which combines poses that another program publishes, with one topic per device."""

from __future__ import annotations

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body.types import F64, HEAD_ROLE, TRACKED, R, TrackerFrame
from mm_ros.tracking.sources import axes
from mm_ros.tracking.sources.base import Source

SILENT_S = 0.2  # A device is lost if its last pose is older than the headset's by this time [s].
OTHER_CLOCK_S = 5.0  # A stamp that differs from the present time by more than this [s] is in another clock.
AXES = ("ros", "openxr")


class TopicsSource(Source):
    """Combines the received poses of devices to tracker frames, with one frame per pose of the headset."""

    own_clock = True
    hand_pose = ""

    def __init__(self, axes_of_source: str = "ros") -> None:
        super().__init__()
        if axes_of_source not in AXES:
            raise MmRosError(f"axes '{axes_of_source}' do not exist. Axes: {', '.join(AXES)}")
        self._openxr = axes_of_source == "openxr"
        self._poses = np.tile([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0], (R, 1))
        self._sampled = np.zeros(R, np.int64)
        self._frame: TrackerFrame | None = None
        self._trouble = "no pose of the headset has been received yet"

    def feed(self, role: int, stamp_ns: int, pose: F64, now_ns: int) -> None:
        """Add a pose (x, y, z, qw, qx, qy, qz) of a device; `stamp_ns` is 0 if the message has no stamp."""
        if not np.isfinite(pose).all() or not 0.9 < np.linalg.norm(pose[3:]) < 1.1:
            raise MmRosError(f"pose: expected a rotation of length 1, came {np.round(pose, 3).tolist()}")
        strange = stamp_ns != 0 and abs(now_ns - stamp_ns) * 1e-9 > OTHER_CLOCK_S
        self._trouble = "stamps are from another clock; the time of arrival is used instead" if strange else ""
        self._sampled[role] = now_ns if strange or stamp_ns == 0 else stamp_ns
        self._poses[role] = _in_ros_axes(pose) if self._openxr else pose
        self._poses[role, 3:] /= np.linalg.norm(self._poses[role, 3:])
        if role == HEAD_ROLE:
            self._frame = self._assemble()
            self.wake()

    def _assemble(self) -> TrackerFrame:
        stamp_ns = int(self._sampled[HEAD_ROLE])
        out = TrackerFrame(stamp_ns)
        recent = (self._sampled != 0) & (np.abs(self._sampled - stamp_ns) * 1e-9 <= SILENT_S)
        out.positions[:], out.rotations[:] = self._poses[:, :3], self._poses[:, 3:]
        out.state[recent] = TRACKED
        out.sampled_ns[:] = self._sampled
        return out

    def poll(self, now_ns: int) -> TrackerFrame | None:
        frame, self._frame = self._frame, None
        return frame

    def status(self) -> str:
        return self._trouble


def _in_ros_axes(pose: F64) -> F64:
    x, y, z, qw, qx, qy, qz = pose
    return np.array([*axes.position(x, y, z), *axes.rotation(qx, qy, qz, qw)])
