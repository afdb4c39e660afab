"""Node `viewer`: serves a page that shows all avatars of the graph in the browser.

The node `viewer` runs in its own process and polls topics, so that the viewer does not delay the other nodes.
"""

from __future__ import annotations

import re
import socket
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
from rclpy.clock import Clock, ClockType
from std_srvs.srv import Trigger

from mm_ros.base.errors import MmRosError
from mm_ros.base.settings import Settings, setting
from mm_ros.body.shape import room_joints
from mm_ros.body.skeleton import default_skeleton
from mm_ros.body.types import rest_pose
from mm_ros.robot.figure import read_figure
from mm_ros.robot.kinematics import LinkPoses
from mm_ros.ros import cdr, graph
from mm_ros.ros.conversions import (
    avatar_pose_from_ros,
    landmarks_from_ros,
    skeleton_from_ros,
    trackers_from_ros,
    trajectory_from_ros,
)
from mm_ros.ros.inbox import Inbox
from mm_ros.ros.node import AvatarNode
from mm_ros.ros.observer import errors
from mm_ros.ros.qos import message_class, subscription_qos
from mm_ros.ros.remote_settings import RemoteSettings, live_settings
from mm_ros.show.page.cameras import Camera
from mm_ros.show.page.features import feature_vectors
from mm_ros.show.page.panels import Panel
from mm_ros.show.page.scene import AvatarScene, furnish
from mm_ros.show.page.server import access_of, serve, stop, url_of
from mm_ros.show.page.swift import mover
from mm_ros.web.access import is_loopback

UNSEEN = ("pose",)  # The diagnostic report needs the topic `pose` even while no browser shows the page.
STREAMS = ("pose", "truth", "trackers", "trajectory", "match", "landmarks")
LATCHED = {"skeleton": ("body", "matched"), "truth_skeleton": ("truth",)}
ROBOT = ("robot_base", "joint_targets")
BODIES = (("pose", "body"), ("truth", "truth"), ("matched_pose", "matched"))
REPORT_S, LOOK_S = 0.25, 1.0
KEPT_TRUTHS = 100
GONE_S = 3.0  # The page hides an avatar whose `pose` has no publisher and that sent nothing in the last 3 s.
REST = 0.75  # 75 % of a frame's duration after the last frame, the node begins to wait for a pose to draw.
SILENT_S = 0.5  # The node does not wait for poses of an avatar that has sent nothing for 0.5 s.


@dataclass(frozen=True)
class ViewerSettings(Settings):
    host: str = setting(
        "127.0.0.1",
        "Network address of the inspector page. With 0.0.0.0, other machines can open the page, too, if they "
        "have its token.",
        live=False,
    )
    port: int = setting(8080, "Network port of the inspector page.", low=1, high=65535, live=False)
    view_rate: float = setting(
        30.0,
        "Rate of the pictures that browsers get. With a higher rate, motion is smoother and the load higher.",
        "Hz",
        1.0,
        90.0,
        live=False,
    )
    urdf: str = setting(
        "", "Robot file of the robot that the page shows beside the avatar. If `urdf` is empty, no robot is shown.",
        live=False,
    )
    avatars: str = setting(
        "", "Names of the avatars to show, separated by commas. If `avatars` is empty, show all avatars.", live=False
    )


@dataclass
class Seen:
    """The viewer's data of one avatar: its scene, the newest serialized message of each topic, and measurements."""

    scene: AvatarScene
    inboxes: dict[str, Inbox] = field(default_factory=dict)
    newest: dict[str, bytes] = field(default_factory=dict)
    latencies_s: deque[float] = field(default_factory=lambda: deque(maxlen=500))
    received: deque[float] = field(default_factory=lambda: deque(maxlen=500))
    truths: dict[int, bytes] = field(default_factory=dict)
    compared: tuple[bytes, bytes] | None = None  # newest poses of avatar and true body with equal time stamps
    match: Any = None
    searched: Any = None  # message `Match` of the last search
    drawn: Any = None  # message `Match` whose features the page draws
    shapes: list[Any] = field(default_factory=list)  # subscriptions to the avatar's skeletons
    last_s: float = field(default_factory=time.monotonic)


@dataclass
class Chore:
    do: Callable[[], None]
    period_s: float
    due_s: float = 0.0


def stamp_of(raw: bytes) -> int:
    """Return the time stamp [ns] in the header of a serialized message."""
    stamp_ns = cdr.stamp_of(raw)
    if stamp_ns is None:
        raise MmRosError(f"{len(raw)} bytes are not a message with a header")
    return stamp_ns


class Viewer(AvatarNode):
    NAME = "viewer"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        s = self.settings(ViewerSettings)
        self._figure = read_figure(s.urdf) if s.urdf else None
        self._link_poses = LinkPoses(self._figure.robot) if self._figure is not None else None
        self._server = serve(s.host, s.port)
        self._actions: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
        self._panel = Panel(self._server, lambda *action: self._actions.put(action))
        furnish(self._server)
        self._seen: dict[str, Seen] = {}
        self._left: dict[str, AvatarScene] = {}  # hidden scenes of stopped avatars, shown when the avatar starts again
        self._shown: dict[str, bool] = {}  # maps a layer of the page to True if the user has switched the layer on
        self._beside = True
        self._cameras: dict[int, Camera] = {}
        self._triggers: dict[str, Any] = {}
        self._fields = live_settings()
        names = {node: tuple(fields) for node, fields in self._fields.items()}
        show = self._panel.settings.show
        self._settings = RemoteSettings(self, names, self._found_settings, show, self._say)
        self._move = mover(self._server)
        self._watched = False  # True while a browser shows the inspector page
        self._chores = [Chore(self._report, REPORT_S), Chore(self._look, LOOK_S)]
        room_joints(rest_pose(default_skeleton()))  # compiles `room_joints` before the first picture
        # The timer uses a steady clock, so that the page also works while simulated time is paused.
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._frame_s = 1.0 / s.view_rate
        self._ticks = self.create_timer(REST * self._frame_s, self.guarded("timer", self._tick), clock=steady)
        self._look()
        # The address contains the page's secret token, so it is printed instead of logged: every node can read the log,
        # which is a topic.
        print("\n".join(address_lines(s.host, url_of(self._server))), flush=True)
        self.start()

    # ---- avatars

    def _look(self) -> None:
        wanted = [a.strip() for a in self.settings(ViewerSettings).avatars.split(",") if a.strip()]
        there = set()
        for topic, types in self.get_topic_names_and_types():
            name, _, last = topic.strip("/").rpartition("/")
            if last == "pose" and "mm_ros/msg/AvatarPose" in types and self.count_publishers(topic):
                there.add(name)
        for name in sorted(there - self._seen.keys()):
            if not wanted or name in wanted:
                self._add(name)
        now = time.monotonic()
        for name in [n for n, seen in self._seen.items() if n not in there and now - seen.last_s > GONE_S]:
            self._remove(name)
        self._settings.look()

    def _add(self, name: str) -> None:
        if name in self._left:
            self._left[name].come_back()
        scene = self._left.pop(name, None) or AvatarScene(self._server, name, len(self._seen) + len(self._left))
        seen = self._seen[name] = Seen(scene)
        for layer, shown in self._shown.items():
            scene.visible(layer, shown)
        scene.beside(self._beside)
        self._listen(seen)
        for topic, layers in LATCHED.items():
            self._subscribe_skeleton(seen, topic, layers)
        self._list_avatars()

    def _remove(self, name: str) -> None:
        seen = self._seen.pop(name)
        for inbox in seen.inboxes.values():
            inbox.close()
        for subscription in seen.shapes:
            self.destroy_subscription(subscription)
        seen.scene.leave()
        self._left[name] = seen.scene
        self._list_avatars()

    def _listen(self, seen: Seen) -> None:
        """Subscribe only to topics that the page shows, so that other nodes need not compute the other topics."""
        wanted = {*UNSEEN, *(STREAMS if self._watched else ())}
        if self._watched and seen.scene.shown("matched"):
            wanted.add("matched_pose")
        if self._watched and self._figure is not None:
            wanted |= set(ROBOT)
        for topic in seen.inboxes.keys() - wanted:
            seen.inboxes.pop(topic).close()
        for topic in wanted - seen.inboxes.keys():
            seen.inboxes[topic] = Inbox(self, topic, f"/{seen.scene.name}/{graph.TOPICS[topic].name}")

    def _list_avatars(self) -> None:
        if self._seen:
            self._panel.avatars(tuple(self._seen))
            self._watch(self._panel.avatar.value)
        for seen in self._seen.values():
            seen.scene.named(len(self._seen) > 1)

    def _watch(self, name: str) -> None:
        if name == self._settings.avatar:
            return
        self._panel.settings.clear()
        self._panel.plots.clear()
        self._settings.watch(name)
        self._settings.look()
        for path in [p for p in self._triggers if not p.startswith(f"/{name}/")]:
            self.destroy_client(self._triggers.pop(path))

    def _subscribe_skeleton(self, seen: Seen, topic: str, layers: tuple[str, ...]) -> None:
        t = graph.TOPICS[topic]
        safe = self.guarded(topic, lambda msg: self._shape(seen, layers, msg))
        name = f"/{seen.scene.name}/{t.name}"
        seen.shapes.append(self.create_subscription(message_class(t.type), name, safe, subscription_qos(t.qos)))

    def _take(self, seen: Seen) -> None:
        for topic, inbox in seen.inboxes.items():
            letters = inbox.take()
            if letters:
                seen.newest[topic], seen.last_s = letters[-1].raw, time.monotonic()
            for letter in letters if topic in ("truth", "pose", "match") else ():
                self._read(seen, topic, letter.raw, (time.time_ns() - letter.came_ns) * 1e-9)
        if "pose" in seen.newest:
            truth = seen.truths.get(stamp_of(seen.newest["pose"]))
            seen.compared = (seen.newest["pose"], truth) if truth else seen.compared

    def _read(self, seen: Seen, topic: str, raw: bytes, ago_s: float) -> None:
        if topic == "truth":
            seen.truths[stamp_of(raw)] = raw
            while len(seen.truths) > KEPT_TRUTHS:
                seen.truths.pop(next(iter(seen.truths)))
        elif topic == "pose":
            stamp = stamp_of(raw)
            late_s = (self.get_clock().now().nanoseconds - stamp) * 1e-9 - ago_s
            seen.latencies_s.append(late_s)
            seen.received.append(seen.last_s - ago_s)
            self.health.step(stamp, late_s)
        else:
            match = seen.match = decoded(topic, raw)
            if match.searched:
                seen.searched = match

    def _shape(self, seen: Seen, layers: tuple[str, ...], msg: Any) -> None:
        for layer in layers:
            seen.scene.skeleton(layer, skeleton_from_ros(msg))

    # ---- drawing

    def _tick(self) -> None:
        """Draw a frame of the page just after a pose has arrived, while the other nodes are idle."""
        self._act()
        self._settings.tick()
        self._notice_browsers()
        self._await_pose()
        for seen in self._seen.values():
            self._take(seen)
        with self._server.atomic():
            if self._watched:
                for seen in self._seen.values():
                    self._draw_one(seen)
                self._move_cameras()
            self._do_a_chore()
        self._move.now()
        self._ticks.reset()

    def _notice_browsers(self) -> None:
        watched = bool(self._server.get_clients())
        if watched != self._watched:
            self._watched = watched
            for seen in self._seen.values():
                self._listen(seen)

    def _await_pose(self) -> None:
        seen = self._seen.get(self._panel.avatar.value)
        if seen is not None and self._watched and time.monotonic() - seen.last_s < SILENT_S:
            self._take(seen)
            seen.inboxes["pose"].wait(self._frame_s)

    def _do_a_chore(self) -> None:
        """Do at most one of the regular tasks of the viewer per frame, the most overdue task first, so that each task
        is done even on a slow machine."""
        now, chore = time.monotonic(), min(self._chores, key=lambda c: c.due_s)
        if now >= chore.due_s:
            chore.due_s = now + chore.period_s
            chore.do()

    def _draw_one(self, seen: Seen) -> None:
        take, seen.newest = seen.newest, {}
        for topic, layer in BODIES:
            if topic in take and (layer == "body" or seen.scene.shown(layer)):
                seen.scene.body(layer, avatar_pose_from_ros(decoded(topic, take[topic])))
        if "trackers" in take:
            seen.scene.trackers(trackers_from_ros(decoded("trackers", take["trackers"])))
        if "trajectory" in take:
            seen.scene.desired(trajectory_from_ros(decoded("trajectory", take["trajectory"])))
        if "landmarks" in take:
            seen.scene.landmarks(landmarks_from_ros(decoded("landmarks", take["landmarks"])))
        if self._figure is not None and self._link_poses and all(topic in take for topic in ROBOT):
            base, angles = (decoded(topic, take[topic]) for topic in ROBOT)
            seen.scene.robot(self._figure, robot_links(self._link_poses, base.pose, angles))
        if seen.searched is not seen.drawn:
            seen.drawn = found = seen.searched
            names = found.feature_names
            seen.scene.match(
                feature_vectors(names, found.query_physical), feature_vectors(names, found.winner_physical)
            )

    def _move_cameras(self) -> None:
        seen = self._seen.get(self._panel.avatar.value)
        clients = self._server.get_clients()
        for gone in self._cameras.keys() - clients.keys():
            del self._cameras[gone]
        for number, client in clients.items():
            if number not in self._cameras:
                self._cameras[number] = Camera(client, self._panel.view, self._move)
            if seen is not None and seen.received:
                self._cameras[number].move(seen.scene)

    def _act(self) -> None:
        while True:
            try:
                action, *details = self._actions.get_nowait()
            except Empty:
                return
            if action == "show":
                self._shown[details[0]] = details[1]
                for seen in self._seen.values():
                    seen.scene.visible(*details)
                    self._listen(seen)
            elif action == "beside":
                self._beside = details[0]
                for seen in self._seen.values():
                    seen.scene.beside(*details)
            elif action == "set":
                self._settings.set(*details)
            elif action == "watch":
                self._watch(*details)
            else:
                self._call(action)

    def _found_settings(self, node: str, values: dict[str, Any]) -> None:
        fields = {name: (values[name], spec) for name, (_, spec) in self._fields[node].items()}
        self._panel.settings.add(node, list(self._fields).index(node), fields)

    def _call(self, action: str) -> None:
        avatar = self._panel.avatar.value
        nodes = [n for n in self._fields if n != self.NAME] if action == "reset" else [""]
        paths = [f"/{avatar}/{node}/{action}" if node else f"/{avatar}/{action}" for node in nodes]
        offered = [p for p, types in self.get_service_names_and_types() if p in paths]
        if not offered:
            self._say(f"no node offers the service /{avatar}/{action}", True)
        for path in offered:
            if path not in self._triggers:
                self._triggers[path] = self.create_client(Trigger, path)
            self._triggers[path].call_async(Trigger.Request()).add_done_callback(self._called)

    def _called(self, future: Any) -> None:
        answer = future.result()
        self._say(answer.message, not answer.success)

    def _say(self, text: str, bad: bool = False) -> None:
        self.get_logger().info(text)
        if bad:
            self._panel.settings.note(f"**{text}**")
        for client in self._server.get_clients().values():
            client.add_notification("", text, auto_close_seconds=20.0 if bad else 3.0, color="red" if bad else "blue")

    # ---- figures

    def _report(self) -> None:
        self.health.values["refused_pages"] = str(access_of(self._server).refused.total())
        seen = self._seen.get(self._panel.avatar.value)
        if seen is None:
            return
        now = time.monotonic()
        rate = sum(1 for t in seen.received if now - t < 2.0) / 2.0
        late = float(np.percentile(seen.latencies_s, 99)) * 1e3 if seen.latencies_s else float("nan")
        figures = {"latency": late, "rate": rate}
        if seen.compared is not None:
            facing, root = errors(*(decoded("pose", raw) for raw in seen.compared))
            figures |= {"facing": float(np.degrees(facing)), "root": 100 * root}
            seen.compared = None
        if seen.searched is not None:
            figures["cost"] = float(seen.searched.cost)
        if not self._watched:
            return
        self._panel.plots.add(now, figures)
        status = f"{rate:.0f} Hz · latency p99 {late:.1f} ms" if seen.latencies_s else "no pose yet"
        self._panel.status.content = f"**{self._panel.avatar.value}** · {status}"
        self._panel.figures.content = figures_text(figures, seen.match, seen.searched)

    def close(self) -> None:
        stop(self._server)


def robot_links(poses: LinkPoses, base: Any, angles: Any) -> dict[str, Any]:
    """Compute the poses of a robot's links from two messages: the pose of the robot's base and the joint angles."""
    p, q = base.position, base.orientation
    at = np.array([p.x, p.y, p.z, q.w, q.x, q.y, q.z])
    return poses(dict(zip(angles.name, angles.position, strict=False)), at)


def address_lines(host: str, url: str) -> list[str]:
    """Return lines with the addresses of the page on this machine and, if `address` is 0.0.0.0, on other machines."""
    out = [f"the avatar is at {url}"]
    if not is_loopback(host):
        out += [
            f"from other machines: {re.sub('//[^/]*:', f'//{socket.gethostname()}:', url)}",
            "anyone with this address can change the avatar's settings; the connection is not encrypted",
        ]
    return out


def decoded(topic: str, raw: bytes) -> Any:
    return cdr.deserialized(raw, message_class(graph.TOPICS[topic].type))


def figures_text(figures: dict[str, float], match: Any, searched: Any) -> str:
    lines = []
    if "facing" in figures:
        lines.append(f"facing error **{figures['facing']:.1f}°** · root error **{figures['root']:.1f} cm**")
    if match is not None:
        where = f", frame {match.frame}" if match.frame >= 0 else ""
        lines.append(f"engine {match.engine} · clip **{match.clip}** at {match.time:.2f} s{where}")
        lines.append(f"height band {match.band or '–'}")
    if searched is not None:
        lines.append(f"search: cost {searched.cost:.2f}, continuing {searched.continue_cost:.2f} ({searched.reason})")
    return "\n\n".join(lines)
