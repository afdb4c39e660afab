"""The bridge on a real OpenXR runtime: Monado's service and the node as two processes, poses injected into the one and
compared with what comes out of the other. `make test-openxr` brings all of it."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

if not os.environ.get("MM_ROS_IN_MONADO"):
    pytest.skip("needs Monado and its tree: make test-openxr", allow_module_level=True)

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from mm_ros.msg import TrackerArray
from processes import end
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Joy
from std_srvs.srv import Trigger

from mm_ros.body.types import LOST, TRACKED
from mm_ros.maths import rotations as rot
from mm_ros.ros.conversions import trackers_from_ros
from mm_ros.ros.graph import TOPICS
from mm_ros.ros.qos import listener_qos
from mm_ros.tracking.sources import axes

sys.path.insert(0, str(Path(__file__).parent))
from monado import Remote, Service

INJECTED_HZ = 250.0
# The hand joint in the axes of OpenXR's grip pose, in ours: x is the thumb's direction (OpenXR -z). The fingers, +y of
# the left hand joint and -y of the right one, point down (OpenXR -y).
HAND_IN_GRIP = np.array([rot.exp(np.array([turn, 0.0, 0.0])) for turn in (-np.pi / 2, np.pi / 2)])


class Injector:
    """Moves head and hands, and remembers what was sent when, in our axes."""

    def __init__(self):
        self.remote = Remote()
        self.moving, self.left_on, self.right_on = True, True, True
        self.grips = (0.0, 0.0)
        self.times, self.sent = [], []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._stop.wait(1 / INJECTED_HZ):
            if self.moving:
                poses = self._poses(time.monotonic())
                try:
                    self.remote.send(*poses, self.left_on, self.right_on, self.grips)
                except OSError:
                    return  # the service was killed
                self.times.append(time.time())
                self.sent.append([_ours(p) for p in poses])

    def _poses(self, t):
        q = rot.exp(np.array([0.3 * np.sin(t), 0.5 * np.sin(0.7 * t), 0.1]))
        turn = (q[1], q[2], q[3], q[0])
        return [
            (*turn, 0.2 * np.sin(1.1 * t), 1.6 + 0.05 * np.cos(t), 0.3 * np.sin(0.5 * t)),
            (*turn, -0.3 + 0.1 * np.sin(2 * t), 1.1, -0.4),
            (*turn, 0.3, 1.1 + 0.1 * np.sin(3 * t), -0.4),
        ]

    def before(self, stamp_ns):
        """What had been sent at that time."""
        i = np.searchsorted(np.array(self.times), stamp_ns * 1e-9) - 1
        return np.array(self.sent[max(i, 0)])

    def close(self):
        self._stop.set()
        self._thread.join()
        self.remote.close()


def _ours(pose):
    """As Monado carries it: float32."""
    x, y, z, w, *p = (float(np.float32(v)) for v in pose)
    return [*axes.position(*p), *axes.rotation(x, y, z, w)]


class Graph:
    """The bridge as a process, and somebody who listens."""

    def __init__(self, folder):
        environment = dict(os.environ, MM_ROS_USERS=str(folder / "users"))
        command = f"{sys.executable} -m mm_ros.ros.nodes tracker_bridge --ros-args -r __ns:=/xr"
        rclpy.init()
        self.node = rclpy.create_node("listener")
        self.frames, self.complaints, self.grips = [], [], []
        self.node.create_subscription(TrackerArray, "/xr/trackers", self._heard, listener_qos(TOPICS["trackers"].qos))
        self.node.create_subscription(Joy, "/xr/grip_buttons", self._gripped, qos_profile_sensor_data)
        health = listener_qos(TOPICS["/diagnostics"].qos)
        self.node.create_subscription(DiagnosticArray, "/diagnostics", self._health, health)
        self.node.create_subscription(DiagnosticArray, "/xr/diagnostics", self._health, health)
        self.executor = SingleThreadedExecutor()
        self.executor.add_node(self.node)
        self.process = subprocess.Popen(
            [*command.split(), "-p", "source:=openxr", "-p", "fit_hands:=false"], env=environment
        )

    def _heard(self, msg):
        self.frames.append(trackers_from_ros(msg))

    def _gripped(self, msg):
        self.grips.append(list(msg.buttons))

    def _health(self, msg):
        self.complaints += [s.message for s in msg.status]

    def listen(self, seconds):
        """Frames of that time."""
        first, end = len(self.frames), time.monotonic() + seconds
        while time.monotonic() < end:
            self.executor.spin_once(timeout_sec=0.05)
        return self.frames[first:]

    def until(self, condition, seconds=20.0):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"{len(self.frames)} frames, health: {self.complaints[-3:]}"
            assert self.process.poll() is None, "the bridge has ended"
            self.executor.spin_once(timeout_sec=0.05)

    def all_tracked(self):
        return bool(self.frames) and (self.frames[-1].state[:3] == TRACKED).all()

    def cpu_s(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def all_lost(self):
        return (self.frames[-1].state == LOST).all()

    def answers(self):
        client = self.node.create_client(Trigger, "/xr/calibrate")
        self.until(client.service_is_ready)
        future = client.call_async(Trigger.Request())
        self.until(future.done, 3.0)
        return True

    def close(self):
        end(self.process)
        self.node.destroy_node()
        rclpy.shutdown()
        assert self.process.returncode == 0


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    made = Service(tmp_path_factory.mktemp("xr"))
    yield made
    made.kill()


@pytest.fixture(scope="module")
def graph(service, tmp_path_factory):
    """Started while there is no service yet: it waits."""
    made = Graph(tmp_path_factory.mktemp("graph"))
    try:
        made.until(lambda: any("not running" in c for c in made.complaints), 60)
        service.start()
        made.until(lambda: made.frames, 30)
        yield made
    finally:
        made.close()


@pytest.fixture
def injector(graph, service):
    made = Injector()
    graph.until(graph.all_tracked)
    yield made
    made.close()


def test_what_goes_in_comes_out(graph, injector):
    graph.listen(1.0)
    cpu_s, began = graph.cpu_s(), time.monotonic()
    for _ in range(3):  # a machine that does other things too gets another chance
        frames = graph.listen(10.0)
        rate = (len(frames) - 1) / (frames[-1].stamp_ns - frames[0].stamp_ns) * 1e9
        if rate > 85:
            break
    cpu = (graph.cpu_s() - cpu_s) / (time.monotonic() - began) * 100
    p = np.array([f.positions[:3] for f in frames])
    q = np.array([f.rotations[:3] for f in frames])
    truth = np.array([injector.before(f.stamp_ns) for f in frames])
    error = np.linalg.norm(p - truth[..., :3], axis=-1)
    true_q = truth[..., 3:].copy()
    true_q[:, 1:] = rot.multiply(true_q[:, 1:], HAND_IN_GRIP)
    turned = np.linalg.norm(rot.log(rot.multiply(q, rot.inverse(true_q))), axis=-1)
    print(f"\n{len(frames)} frames, {rate:.2f} Hz, {cpu:.1f} % of a core")
    print(f"error of position median {np.median(error):.2e} m, p99 {np.percentile(error, 99):.2e} m")
    assert rate > 85 and len(frames) > 850
    assert np.median(error) < 1e-4
    assert np.median(turned) < 1e-4
    assert (np.array([f.state[:3] for f in frames]) == TRACKED).mean() > 0.98  # the injector may stutter
    steps, true_steps = (np.linalg.norm(np.diff(x, axis=0), axis=-1) for x in (p, truth[..., :3]))
    assert np.percentile(steps - true_steps, 99.5) < 0.01


def test_velocities_are_those_of_the_motion(graph, injector):
    frames = graph.listen(3.0)[20:]
    t, p = np.array([f.stamp_ns for f in frames]) * 1e-9, np.array([f.positions[0] for f in frames])
    slope = np.gradient(p, t, axis=0)
    seen = np.array([f.velocities[0] for f in frames])
    assert np.median(np.linalg.norm(seen - slope, axis=-1)) < 0.03


def test_controller_off_and_on(graph, injector):
    injector.right_on = False
    graph.until(lambda: graph.frames[-1].state[2] == LOST, 5)
    after = graph.listen(1.0)
    assert all(f.state[0] == TRACKED and f.state[1] == TRACKED and f.state[2] == LOST for f in after)
    injector.right_on = True
    graph.until(lambda: graph.frames[-1].state[2] == TRACKED, 8)


def test_grip_buttons_of_the_controllers(graph, injector):
    for grips, held in (((0.0, 1.0), [0, 1]), ((1.0, 0.3), [1, 0]), ((1.0, 1.0), [1, 1]), ((0.0, 0.0), [0, 0])):
        injector.grips = grips
        graph.until(lambda held=held: graph.grips[-1:] == [held], 10)
    injector.grips, injector.right_on = (1.0, 1.0), False
    graph.until(lambda: graph.grips[-1:] == [[1, -1]], 10)  # the right controller is off
    injector.grips, injector.right_on = (0.0, 0.0), True
    graph.until(graph.all_tracked, 8)


def test_source_gone_but_still_tracked(graph, injector):
    """Monado goes on to say the last pose, valid and tracked."""
    injector.moving = False
    graph.until(lambda: bool((graph.frames[-1].state == LOST).all()), 5)
    held = graph.listen(0.5)
    assert not np.diff([f.positions for f in held], axis=0).any()
    assert not np.array([f.velocities for f in held]).any()
    injector.moving = True
    before = len(graph.frames)
    graph.until(graph.all_tracked, 8)
    back = graph.frames[before:]
    steps = np.linalg.norm(np.diff([f.positions[:3] for f in back], axis=0), axis=-1)
    took_s = np.diff([f.stamp_ns for f in back])[:, None] * 1e-9
    assert (steps < 0.02 + 1.2 * took_s).all()  # the user's 0.3 m/s and the gate's 0.7


def test_service_killed_and_restarted(graph, service):
    injector = Injector()
    graph.until(graph.all_tracked)
    epoch = graph.frames[-1].epoch
    service.kill()
    injector.close()
    graph.complaints.clear()
    graph.until(lambda: any("not running" in c for c in graph.complaints), 10)
    count = len(graph.frames)
    assert not graph.listen(1.0)
    service.start()
    again = Injector()
    try:
        graph.until(lambda: len(graph.frames) > count + 50 and (graph.frames[-1].state[:3] == TRACKED).all(), 20)
        assert graph.frames[-1].epoch > epoch
        frames = graph.listen(2.0)
        assert len(frames) > 100
        truth = np.array([again.before(f.stamp_ns) for f in frames])
        error = np.linalg.norm(np.array([f.positions[:3] for f in frames]) - truth[..., :3], axis=-1)
        assert np.median(error) < 1e-4
    finally:
        again.close()


def test_service_hangs(graph, service, injector):
    """Calls into it do not come back. The node lives, says so, and goes on when it does."""
    service.process.send_signal(signal.SIGSTOP)
    injector.moving = False
    try:
        graph.complaints.clear()
        graph.until(lambda: any("has not answered" in c for c in graph.complaints), 15)
        assert graph.answers()
    finally:
        service.process.send_signal(signal.SIGCONT)
        injector.moving = True
    graph.until(graph.all_tracked, 20)
    assert len(graph.listen(2.0)) > 100


def test_without_a_runtime_the_node_waits_and_says_why(tmp_path):
    """In a process of its own: the loader reads its environment once."""
    code = (
        "import time\n"
        "from mm_ros.tracking.sources.openxr import OpenXrSource\n"
        "s = OpenXrSource(); s.open(); time.sleep(2); print('STATUS', s.status()); s.close()"
    )
    environment = dict(os.environ, XR_RUNTIME_JSON=str(tmp_path / "none.json"))
    out = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert "no OpenXR runtime" in out.stdout, out.stdout + out.stderr
