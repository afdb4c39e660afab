"""The source `webxr`: a page in the browser of the headset sends the poses of headset and controllers.

The server of the headset page runs in a thread of its own.
"""

from __future__ import annotations

import threading
import time

import numpy as np

from mm_ros.body.timeline import is_identity
from mm_ros.body.types import F64, HEAD_ROLE, R, TrackerFrame, identity_pose
from mm_ros.maths import rotations as rot
from mm_ros.tracking.room import compose, inverse
from mm_ros.tracking.sources import axes
from mm_ros.tracking.sources.base import UNKNOWN_GRIPS, Grips, Source
from mm_ros.tracking.sources.clocks import SteadyShift, in_clock
from mm_ros.web.headset.server import HeadsetServer, Page
from mm_ros.web.headset.wire import LEFT_GRIP, LEFT_IS_HAND, RIGHT_GRIP, RIGHT_IS_HAND, PageFrame

SILENT_NS = 1_000_000_000
KEPT_FRAMES = 64
SILENT = {  # messages for the states of a WebXR session in which few or no poses arrive
    "hidden": "the headset shows another page or a menu, and sends no poses meanwhile",
    "visible-blurred": "a menu of the headset is open; it sends few or no poses meanwhile",
}


class WebXrSource(Source):
    own_clock = True
    hand_pose = "webxr_grip"
    grips: Grips | None = UNKNOWN_GRIPS

    def __init__(self, server: HeadsetServer) -> None:
        super().__init__()
        self.server = server
        server.on_frame = self._take
        self._lock = threading.Lock()
        self._latest: TrackerFrame | None = None
        self._sequence = 0
        self._reset = False  # true if a frame that was not polled had a re-centring whose transform is not known
        self._epoch = 0
        self._session = 0
        self._came_ns = 0
        self._shift = SteadyShift()
        # maps the stamp of a frame to the number that the headset page gave to the frame
        self._polled: dict[int, int] = {}
        self.hands = (False, False)  # whether left and right hand are tracked without a controller

    def open(self) -> None:
        self.server.start()

    def close(self) -> None:
        self.server.close()

    def poll(self, now_ns: int) -> TrackerFrame | None:
        with self._lock:
            frame, self._latest, self._reset = self._latest, None, False
            sequence = self._sequence
        if frame is None:
            return None
        out = in_clock(frame, self._shift.of(now_ns))
        self._polled[out.stamp_ns] = sequence
        while len(self._polled) > KEPT_FRAMES:
            del self._polled[next(iter(self._polled))]
        return out

    def sequence(self, stamp_ns: int) -> int:
        """Return the number that the page gave to the frame with this stamp, or 0 if the frame is not known."""
        return self._polled.get(stamp_ns, 0)

    def monotonic(self, stamp_ns: int, now_ns: int) -> int:
        """Convert a stamp [ns] of the poller's clock to a stamp of CLOCK_MONOTONIC."""
        return stamp_ns - self._shift.of(now_ns)

    def status(self) -> str:
        tracker = self.server.tracker
        if tracker is None:
            if self.server.open_pages:
                return "the page is open, but no headset is tracked: press 'Enter VR' on the headset"
            return "no headset has opened the page: `mm_ros headset` shows how"
        if time.monotonic_ns() - self._came_ns > SILENT_NS:
            why = "the headset has sent no poses for a second: does a user wear it, is it in range of the Wi-Fi?"
            return SILENT.get(tracker.visibility, why)
        return ""

    # ---- server thread

    def _take(self, page: Page, frame: PageFrame, stamp_ns: int) -> None:
        out = tracker_frame(frame, stamp_ns)
        self._came_ns = time.monotonic_ns()
        self.hands = (bool(frame.flags & LEFT_IS_HAND), bool(frame.flags & RIGHT_IS_HAND))
        left, right = (  # A bare hand has no grip button.
            None if bare else bool(frame.flags & grip)
            for bare, grip in zip(self.hands, (LEFT_GRIP, RIGHT_GRIP), strict=True)
        )
        self.grips = (left, right)
        with self._lock:
            if frame.session != self._session:
                self._session = frame.session  # WebXR states no transform between the spaces of two sessions.
                self._epoch += 1
                self._reset = True
            if frame.reset or frame.moved is not None:
                self._epoch += 1
                self._reset = self._reset or frame.reset
            before = self._latest
            if self._reset:
                out.new_from_old = identity_pose()
            elif before is not None and not is_identity(before.new_from_old):
                out.new_from_old = compose(out.new_from_old, before.new_from_old)
            out.epoch = self._epoch
            self._latest, self._sequence = out, frame.sequence
        self.wake()


def tracker_frame(frame: PageFrame, stamp_ns: int) -> TrackerFrame:
    """Convert a frame of the page, with headset, left and right controller, to a tracker frame."""
    out = TrackerFrame(stamp_ns)
    for role in range(HEAD_ROLE, 3):
        pose = ros_pose(frame.poses[7 * role : 7 * role + 7])
        if frame.states[role]:
            out.positions[role], out.rotations[role] = pose[:3], pose[3:]
            out.sampled_ns[role] = stamp_ns
        out.state[role] = frame.states[role]
    if frame.moved is not None:
        # The page reports the pose of the new origin in the old space; later stages need the inverse of this pose.
        out.new_from_old = inverse(ros_pose(frame.moved))
    assert len(out.state) == R
    return out


def ros_pose(pose: tuple[float, ...]) -> F64:
    """Convert a pose (x, y, z, qx, qy, qz, qw) in WebXR axes to a pose (x, y, z, qw, qx, qy, qz) in ROS axes."""
    rotation = rot.normalize(np.array(axes.rotation(*pose[3:7])))
    return np.array([*axes.position(*pose[:3]), *rotation])
