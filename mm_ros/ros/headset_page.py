"""Connects the web server of the headset page to a node: poses go to the pages, and the users' requests to the
graph."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from queue import Empty
from typing import Any

import numpy as np
from geometry_msgs.msg import TransformStamped
from tf2_msgs.msg import TFMessage

from mm_ros.base.errors import MmRosError
from mm_ros.base.settings import Settings, setting
from mm_ros.body.shape import room_joints
from mm_ros.body.skeleton import Skeleton
from mm_ros.body.types import F64, AvatarPose, Calibration, identity_pose
from mm_ros.ros.conversions import skeleton_from_ros, stamp_to_ros
from mm_ros.ros.hub import Inlet
from mm_ros.ros.node import AvatarNode
from mm_ros.ros.remote_settings import RemoteSettings, live_settings
from mm_ros.show.page.panels import KnownFiles
from mm_ros.tracking.room import compose, inverse
from mm_ros.tracking.sources.webxr import ros_pose
from mm_ros.web.access import CODE_VARIABLE
from mm_ros.web.headset.server import HeadsetServer, Page
from mm_ros.web.headset.skin import skin_file
from mm_ros.web.headset.wire import PoseMessage

STATUS_S = 0.5
MOST_SKINS = 4
# On the page, the user can choose values of the parameters `database` and `engine` of the node motion_matcher.
CHOSEN = ("database", "engine")


@dataclass(frozen=True)
class PageSettings(Settings):
    """Parameters of the nodes that can serve a page on which the user steers the avatar."""

    page: bool = setting(
        False, "Serve a web page on which the user sees and steers the avatar. The launch argument `control:=keyboard` "
               "sets `page` to true.",
        live=False,
    )
    page_port: int = setting(
        8090, "Network port of the page on this machine. Devices on Wi-Fi open it at the "
              "port number plus 1.", "", 1, 65534, live=False
    )
    page_wifi: bool = setting(
        False, "Serve the page encrypted on all networks, so that other devices, such as a phone, "
               "can open it.", live=False
    )


def serve_page(node: AvatarNode, server: HeadsetServer | None = None, **more: Any) -> HeadsetPage | None:
    """Connect a web server to a node and print the addresses of the server's page. If `server` is None and the node's
    parameter `page` is true, a web server is made."""
    if server is None:
        s = node.settings(PageSettings)
        if not s.page:
            return None
        server = HeadsetServer(s.page_port, s.page_wifi)
        server.start()
    page = HeadsetPage(node, server, **more)
    # If the environment has a pairing code, the command that started the graph prints the page's addresses instead.
    if CODE_VARIABLE not in os.environ:
        # The address contains the page's secret token, so it is printed instead of logged: every node can read the log,
        # which is a topic.
        print("\n".join(addresses(server)), flush=True)
    return page


def addresses(server: HeadsetServer) -> list[str]:
    out = [f"the avatar's page is at {server.url()} (this machine, or a headset on USB after `adb reverse`)"]
    urls = server.wifi_urls()
    if urls:
        out.append(f"over Wi-Fi: {' or '.join(urls)}, code {server.code.digits}")
    elif server.wifi:
        out.append("no address in a local network was found: is the Wi-Fi of this machine connected?")
    return out


class HeadsetPage:
    """Connects a ROS node to the web server of the headset page. While no page is connected, the node subscribes to no
    topics for the page.

    `actions` maps each action that a user can request on the page to a function, which returns whether the action
    succeeded, and a sentence for the user. `map_from_source` is the transform from the tracking space to the world.
    `sequence` returns, for the time stamp of a pose, the number of the page's newest input that has affected the pose.
    The function `facts` returns values that are added to the status message for the pages. The function `reported`
    publishes the user's body poses that the headset estimates.
    """

    def __init__(
        self,
        node: AvatarNode,
        server: HeadsetServer,
        *,
        actions: Mapping[str, Callable[[dict[str, Any]], tuple[bool, str]]] | None = None,
        map_from_source: Callable[[], F64] = identity_pose,
        sequence: Callable[[int], int] = lambda stamp_ns: 0,
        calibration: Callable[[], Calibration | None] = lambda: None,
        facts: Callable[[], dict[str, Any]] = dict,
        reported: Any = None,
    ) -> None:
        self._node, self.server = node, server
        self._actions, self._map_from_source, self._sequence = actions or {}, map_from_source, sequence
        self._calibration, self._facts = calibration, facts
        self._inlets: list[Inlet] = []
        self._came: deque[float] = deque(maxlen=256)
        self._latencies_ms: deque[float] = deque(maxlen=256)
        self._bodies: deque[tuple[list[str], int, F64]] = deque(maxlen=4)
        self._skeletons: dict[int, Skeleton] = {}  # maps the key of a skin mesh to the skeleton that moves the mesh
        self._reported = reported
        if reported is not None:
            server.on_body = self._take_body
        act = node.guarded("headset page", self._act)
        self._wake = server.on_change = lambda: node.loop.post(act)
        self._files = {name: KnownFiles(spec.file) for name, (_, spec) in self._fields().items() if spec.file}
        self._settings: RemoteSettings | None = None
        self._values: dict[str, Any] = {}
        self._report = node.every(STATUS_S, self.tell)

    @staticmethod
    def _fields() -> dict[str, Any]:
        return {name: field for name, field in live_settings()["motion_matcher"].items() if name in CHOSEN}

    def close(self) -> None:
        self.server.on_change = lambda: None
        self.server.close()

    def _act(self) -> None:
        self._follow(bool(self.server.open_pages))
        self._publish_bodies()
        while True:
            try:
                page, request = self.server.actions.get_nowait()
            except Empty:
                return
            self._do(page, request)

    def _follow(self, watched: bool) -> None:
        """Subscribe to the topics that the pages need if `watched` is true, else end these subscriptions."""
        if watched == bool(self._inlets):
            return
        if watched:
            self._inlets = [
                self._node.listen("pose", self._show), self._node.listen("skeleton", self._take_skeleton)
            ]  # fmt: skip
            if self._settings is None:
                names = {"motion_matcher": tuple(self._fields())}
                self._settings = RemoteSettings(self._node, names, lambda *_: None, self._changed_setting, self._said)
                self._settings.watch(self._node.avatar)
            return
        while self._inlets:
            self._node.unlisten(self._inlets.pop())

    def _do(self, page: Page, request: dict[str, Any]) -> None:
        do = request["do"]
        if do in CHOSEN and self._settings is not None:
            label = str(request.get("value", ""))
            if label in self._choices()[do]:
                value = self._files[do].path(label) if do in self._files else label
                self._settings.set("motion_matcher", do, value)
                self._settings.tick()
                return
            done, text = False, f"'{label[:60]}' is not in the list of the page"
        elif do in self._actions:
            try:
                done, text = self._actions[do](request)
            except MmRosError as error:
                done, text = False, str(error)
        else:
            done, text = False, f"no node of this graph offers '{do}'"
        self.server.answer(page, {"kind": "answer", "to": do, "good": done, "text": text})
        self.tell()

    def _take_body(self, names: list[str], stamp_ns: int, joints: F64) -> None:
        """Store a body pose that a headset has estimated; the thread of the web server calls this method."""
        self._bodies.append((names, stamp_ns, joints))
        self._wake()

    def _publish_bodies(self) -> None:
        while self._bodies and self._reported is not None:
            names, stamp_ns, joints = self._bodies.popleft()
            shift_ns = int(self._node.get_clock().now().nanoseconds) - time.monotonic_ns()
            map_from_source, out = self._map_from_source(), TFMessage()
            for name, joint in zip(names, joints, strict=True):
                if np.isfinite(joint).all():
                    pose = compose(map_from_source, ros_pose(tuple(joint.tolist())))
                    out.transforms.append(self._transform(name, stamp_ns + shift_ns, pose))
            self._reported.publish(out)

    def _transform(self, name: str, stamp_ns: int, pose: F64) -> TransformStamped:
        out = TransformStamped(child_frame_id=name)
        out.header.stamp, out.header.frame_id = stamp_to_ros(stamp_ns), self._node.world_frame
        t, r = out.transform.translation, out.transform.rotation
        t.x, t.y, t.z, r.w, r.x, r.y, r.z = pose.tolist()
        return out

    def _changed_setting(self, _node: str, name: str, value: Any) -> None:
        self._values[name] = self._files[name].label(value) if name in self._files else value

    def _choices(self) -> dict[str, tuple[str, ...]]:
        return {
            name: self._files[name].labels if name in self._files else tuple(spec.choices)
            for name, (_, spec) in self._fields().items()
        }

    def _said(self, text: str, refused: bool) -> None:
        self.server.tell_all({"kind": "answer", "to": "setting", "good": not refused, "text": text})

    # ---- poses

    def _take_skeleton(self, msg: Any) -> None:
        skeleton = skeleton_from_ros(msg)
        if skeleton.hash & 0xFFFFFFFF not in self.server.skins:
            while len(self.server.skins) >= MOST_SKINS:
                oldest = next(iter(self.server.skins))
                del self.server.skins[oldest], self._skeletons[oldest]
            self.server.skins[skeleton.hash & 0xFFFFFFFF] = skin_file(skeleton)
            self._skeletons[skeleton.hash & 0xFFFFFFFF] = skeleton

    def _show(self, pose: AvatarPose) -> None:
        now_ns = self._node.now_ns()
        age_ms = (now_ns - pose.stamp_ns) * 1e-6
        self._came.append(time.monotonic())
        self._latencies_ms.append(age_ms)
        skeleton = self._skeletons.get(pose.skeleton & 0xFFFFFFFF)
        if skeleton is None:
            return  # the page cannot draw a pose before it has got the avatar's skeleton
        positions, rotations = room_joints(pose, skeleton)
        feet = sum(bool(flag) << k for k, flag in enumerate((*pose.locked, *pose.contacts))) | bool(pose.stale) << 4
        stamp_ns = time.monotonic_ns() - (now_ns - pose.stamp_ns)
        source_from_map = inverse(self._map_from_source())
        message = PoseMessage(stamp_ns, pose.skeleton, feet, source_from_map, positions, rotations)
        self.server.show(message, self._sequence(pose.stamp_ns))

    # ---- status

    def tell(self) -> None:
        """Send the status of the avatar and its nodes to all connected pages."""
        if not self.server.pages:
            return
        if self._settings is not None:
            self._settings.look()
            self._settings.tick()
        now = time.monotonic()
        calibration = self._calibration()
        measured = None
        if calibration is not None:
            measured = {
                "user": calibration.user, "calibrated": calibration.calibrated, "posture": calibration.posture,
                "height": round(calibration.head_height, 3), "arm_span": round(calibration.arm_span, 3),
            }  # fmt: skip
        choices = self._choices()
        latency = float(np.median(self._latencies_ms)) if self._latencies_ms else 0.0
        self.server.tell({
            "avatar": self._node.avatar,
            "pose": {"hz": sum(1 for t in self._came if now - t < 1.0), "latency_ms": round(latency, 1)},
            "calibration": measured,
            "choices": {name: {"now": self._values.get(name), "all": choices[name]} for name in choices},
            **self._facts(),
        })  # fmt: skip
