"""All avatars on the network → a page in the browser. Reads topics only; own process; never in the chain's way."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
from rclpy.parameter import Parameter
from rclpy.parameter_client import AsyncParameterClient
from std_srvs.srv import Trigger

from mm_ros import graph
from mm_ros.core import rotations as rot
from mm_ros.core.errors import MmRosError
from mm_ros.core.settings import Settings, setting
from mm_ros.ros.conversions import (
    avatar_pose_from_ros,
    skeleton_from_ros,
    stamp_from_ros,
    trackers_from_ros,
    trajectory_from_ros,
)
from mm_ros.ros.node import AvatarNode
from mm_ros.ros.observer import errors
from mm_ros.ros.qos import message_class, subscription_qos
from mm_ros.viewing.panels import Panel, settings_of
from mm_ros.viewing.scene import AvatarScene

STREAMS = ("pose", "matched_pose", "truth", "trackers", "trajectory", "match")
LATCHED = {"skeleton": ("body", "matched"), "truth_skeleton": ("truth",)}


@dataclass(frozen=True)
class ViewerSettings(Settings):
    host: str = setting("127.0.0.1", "address that the page is served on; 0.0.0.0 opens it to others", live=False)
    port: int = setting(8080, "port of the page", low=1, high=65535, live=False)
    view_rate: float = setting(30.0, "frames a second sent to the browsers", "Hz", 1.0, 90.0, live=False)
    avatars: str = setting("", "avatars to show, by commas; empty: all there are", live=False)


@dataclass
class Seen:
    """One avatar: its scene, the newest message a topic, and figures since the last report."""

    scene: AvatarScene
    newest: dict[str, Any] = field(default_factory=dict)
    latencies_s: deque[float] = field(default_factory=lambda: deque(maxlen=500))
    received: deque[float] = field(default_factory=lambda: deque(maxlen=500))
    searched: Any = None  # the last Match of a frame in which a search ran
    truths: dict[int, Any] = field(default_factory=dict)
    facing_error: float = float("nan")
    root_error: float = float("nan")


class Viewer(AvatarNode):
    NAME = "viewer"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        try:
            import viser
        except ImportError:
            raise MmRosError("the viewer needs viser: pip install 'mm_ros[viewer]'") from None
        s = self.settings(ViewerSettings)
        self._server = viser.ViserServer(s.host, s.port, verbose=False)
        self._actions: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
        self._panel = Panel(self._server, lambda *action: self._actions.put(action))
        self._seen: dict[str, Seen] = {}
        self._parameters: dict[str, AsyncParameterClient] = {}
        self._furnish()
        self.create_timer(1.0, self._look_for_avatars)
        self.create_timer(1.0 / s.view_rate, self._draw)
        self.create_timer(0.2, self._report)
        self._look_for_avatars()
        self.get_logger().info(f"the avatar is at http://{s.host}:{self._server.get_port()}")
        self.start()

    # ---- what there is to see

    def _furnish(self) -> None:
        scene = self._server.scene
        scene.set_up_direction("+z")
        scene.add_grid("/floor", 40.0, 40.0, cell_size=0.5, section_size=1.0, plane_opacity=0.0, shadow_opacity=0.25)
        self._server.initial_camera.position = (2.1, -2.1, 1.5)
        self._server.initial_camera.look_at = (0.0, 0.0, 0.9)

    def _look_for_avatars(self) -> None:
        wanted = [a.strip() for a in self.settings(ViewerSettings).avatars.split(",") if a.strip()]
        for topic, types in self.get_topic_names_and_types():
            name, _, last = topic.strip("/").rpartition("/")
            if last != "pose" or "mm_ros/msg/AvatarPose" not in types or name in self._seen:
                continue
            if not wanted or name in wanted:
                self._add(name)

    def _add(self, name: str) -> None:
        seen = self._seen[name] = Seen(AvatarScene(self._server, name, len(self._seen)))
        for topic in STREAMS:
            self._subscribe(name, topic, lambda msg, topic=topic: self._receive(seen, topic, msg))
        for topic, layers in LATCHED.items():
            self._subscribe(name, topic, lambda msg, layers=layers: self._shape(seen, layers, msg))
        self._panel.avatars(tuple(self._seen))
        if len(self._seen) == 1:
            for node in graph.NODES:
                fields = settings_of(node)
                if fields and not node.optional and "vr" in node.controls:
                    self._panel.settings.add(node.name, fields)

    def _subscribe(self, avatar: str, topic: str, callback: Any) -> None:
        t = graph.TOPICS[topic]
        self.create_subscription(message_class(t.type), f"/{avatar}/{t.name}", callback, subscription_qos(t.qos))

    def _receive(self, seen: Seen, topic: str, msg: Any) -> None:
        seen.newest[topic] = msg
        if topic == "match" and msg.searched:
            seen.searched = msg
        if topic == "pose":
            now_ns = self.get_clock().now().nanoseconds
            seen.latencies_s.append((now_ns - stamp_from_ros(msg.header.stamp)) * 1e-9)
            seen.received.append(time.monotonic())
            self.health.step(stamp_from_ros(msg.header.stamp))
        if topic in ("pose", "truth"):
            self._compare(seen, topic, msg)

    def _compare(self, seen: Seen, topic: str, msg: Any) -> None:
        """Error against the truth of the same stamp, which the bridge publishes long before the pose is there."""
        stamp = stamp_from_ros(msg.header.stamp)
        if topic == "truth":
            seen.truths[stamp] = msg
            while len(seen.truths) > 100:
                seen.truths.pop(next(iter(seen.truths)))
        elif stamp in seen.truths:
            facing, root = errors(msg, seen.truths[stamp])
            seen.facing_error, seen.root_error = float(np.degrees(facing)), 100 * root

    def _shape(self, seen: Seen, layers: tuple[str, ...], msg: Any) -> None:
        for layer in layers:
            seen.scene.skeleton(layer, skeleton_from_ros(msg))

    # ---- drawing

    def _draw(self) -> None:
        self._act()
        with self._server.atomic():
            for seen in self._seen.values():
                self._draw_one(seen)
        self._move_cameras()

    def _draw_one(self, seen: Seen) -> None:
        take = {t: seen.newest.pop(t) for t in STREAMS if t in seen.newest and t != "match"}
        try:
            for topic, layer in (("pose", "body"), ("truth", "truth"), ("matched_pose", "matched")):
                if topic in take:
                    seen.scene.body(layer, avatar_pose_from_ros(take[topic]))
            if "trackers" in take:
                seen.scene.trackers(trackers_from_ros(take["trackers"]))
            if "trajectory" in take:
                seen.scene.wish(trajectory_from_ros(take["trajectory"]))
        except MmRosError as error:
            self.health.refuse(str(error))

    def _move_cameras(self) -> None:
        seen = self._seen.get(self._panel.avatar.value)
        mode = self._panel.camera.value
        if seen is None or mode == "orbit":
            self._followed = None
            return
        for client in self._server.get_clients().values():
            if mode == "follow":
                self._follow(client, seen)
            else:
                eyes = seen.scene.head + np.array([0.0, 0.0, 0.08])
                client.camera.position = tuple(eyes)
                client.camera.look_at = tuple(eyes + rot.rotate(seen.scene.head_wxyz, np.array([1.0, 0.0, 0.0])))

    def _follow(self, client: Any, seen: Seen) -> None:
        """The camera goes along with the avatar; the user's own turning and zooming stay."""
        target = np.array([*seen.scene.root[:2], 0.9])
        moved = target - np.asarray(client.camera.look_at)
        if np.linalg.norm(moved) > 0.02:
            step = moved * 0.15
            client.camera.position = tuple(np.asarray(client.camera.position) + step)
            client.camera.look_at = tuple(np.asarray(client.camera.look_at) + step)

    # ---- what the user wants

    def _act(self) -> None:
        while True:
            try:
                action, *details = self._actions.get_nowait()
            except Empty:
                return
            if action == "show":
                for seen in self._seen.values():
                    seen.scene.visible(*details)
            elif action == "set":
                self._set(*details)
            else:
                self._call(action)

    def _set(self, node: str, name: str, value: Any) -> None:
        target = f"/{self._panel.avatar.value}/{node}"
        client = self._parameters.setdefault(target, AsyncParameterClient(self, target))
        if not client.services_are_ready():
            self._say(f"{target} does not answer")
            return
        done = client.set_parameters([Parameter(name, value=value)])
        done.add_done_callback(lambda f: self._answered(name, value, f.result().results[0]))

    def _answered(self, name: str, value: Any, result: Any) -> None:
        self._say(f"{name} = {value}" if result.successful else f"{name} was refused: {result.reason}")

    def _call(self, action: str) -> None:
        nodes = [n.name for n in graph.NODES if "vr" in n.controls] if action == "reset" else [""]
        for node in nodes:
            path = "/".join(part for part in ("", self._panel.avatar.value, node, action) if part or part == "")
            client = self.create_client(Trigger, path)
            if client.service_is_ready() or client.wait_for_service(timeout_sec=0.05):
                client.call_async(Trigger.Request()).add_done_callback(lambda f: self._say(f.result().message))
            elif not node:
                self._say(f"nobody offers {path}")

    def _say(self, text: str) -> None:
        self.get_logger().info(text)
        for client in self._server.get_clients().values():
            client.add_notification("mm_ros", text, auto_close_seconds=4.0)

    # ---- figures

    def _report(self) -> None:
        seen = self._seen.get(self._panel.avatar.value)
        if seen is None:
            return
        now = time.monotonic()
        recent = [t for t in seen.received if now - t < 2.0]
        rate = len(recent) / 2.0
        late = float(np.percentile(seen.latencies_s, 99)) * 1e3 if seen.latencies_s else float("nan")
        figures = {"facing": seen.facing_error, "root": seen.root_error, "latency": late, "rate": rate}
        self._panel.plots.add(now, figures)
        self._panel.status.content = f"**{self._panel.avatar.value}** · {rate:.0f} Hz · p99 {late:.1f} ms"
        match = seen.newest.get("match")
        lines = [f"facing error {seen.facing_error:.1f}° · root error {seen.root_error:.1f} cm"]
        if match is not None:
            lines.append(f"clip **{match.clip}** at {match.time:.2f} s, frame {match.frame}, band {match.band or '–'}")
        if seen.searched is not None:
            s = seen.searched
            lines.append(f"search cost {s.cost:.2f}, playing on {s.continue_cost:.2f} ({s.reason})")
        self._panel.figures.content = "\n\n".join(lines)

    def close(self) -> None:
        self._server.stop()
