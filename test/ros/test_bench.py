"""`mm_ros bench graph`: what its listener reads from serialized TF, what it counts, and a short run of many minutes."""

import json
import subprocess
import time

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("mm_ros.msg", reason="the messages are not built")

from processes import PATIENCE_S
from rclpy.serialization import serialize_message
from tf2_msgs.msg import TFMessage

from mm_ros.base.own_python import module_command
from mm_ros.body.skeleton import default_skeleton
from mm_ros.body.types import TRACKED, TrackerFrame, rest_pose
from mm_ros.ros.bench.floor import Samples
from mm_ros.ros.bench.graph import GRACE_S, first_transform
from mm_ros.ros.bench.minutes import PARTS, _Count
from mm_ros.ros.tf import PoseTf, TrackerTf

STAMP = 1_800_000_000_123_456_789


@pytest.mark.parametrize("avatar", ["a", "bench1", "bench10", "ünicode"])
@pytest.mark.parametrize("world", ["map", "odom", "a longer frame"])
def test_the_first_transform_is_read_from_the_bytes(avatar, world):
    frame = TrackerFrame(STAMP)
    frame.state[:3] = TRACKED
    assert first_transform(TrackerTf(avatar, world).serialized(frame)) == (STAMP, f"{avatar}/tracker/head")
    pose = rest_pose(default_skeleton(), STAMP)
    assert first_transform(PoseTf(avatar, world).serialized(pose)) == (STAMP, f"{avatar}/root")
    assert first_transform(serialize_message(TFMessage()))[1] == ""


class Heard:
    """Listener that has received these messages: avatar → stamps of trackers, avatar → stamp → arrival."""

    def __init__(self, sent, arrived):
        self.came, self._all = [], (sent, arrived)

    def stamps(self):
        return self._all


def test_a_pose_that_comes_in_a_later_chunk_is_not_lost_and_one_that_never_comes_is():
    count = _Count()
    count._from_ns = 0
    now, ms = time.time_ns(), 1_000_000
    old, older, young = now - round(GRACE_S * 1e9) - 100 * ms, now - round(GRACE_S * 1e9) - 200 * ms, now
    count.add(Heard({"a": {young}}, {"b": {old: old + 3 * ms}}))
    count.add(Heard({"a": {old}, "b": {older}}, {"a": {old: old + 2 * ms}}))
    late, lost = count.taken()
    assert late == [2.0] and lost == 1
    assert count.taken() == ([], 0)


def test_a_run_of_minutes_prints_each_part_and_writes_json(tmp_path):
    out = tmp_path / "minutes.json"
    command = module_command("mm_ros", "bench", "graph", "--minutes", "0.1", "--json", str(out))
    done = subprocess.run(command, capture_output=True, text=True, timeout=4 * PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    assert len(found["parts"]) == PARTS and len(found["memory_mb"]) == PARTS + 1
    assert all(part["poses"] > 0 and part["p50"] > 0 for part in found["parts"])
    assert "at the start" in done.stdout


def test_a_run_writes_each_figure_under_its_name(tmp_path):
    out = tmp_path / "graph.json"
    command = module_command("mm_ros", "bench", "graph", "--seconds", "1", "--rounds", "1", "--avatars", "2")
    done = subprocess.run([*command, "--json", str(out)], capture_output=True, text=True, timeout=8 * PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    floors = [found["floor"][name] for name in ("one_hop", "four_hops", "four_hops_processes")]
    for row in (found["composed"]["90"], found["processes"]["90"], found["avatars"]["2"], *floors):
        assert 0.0 < row["latency_ms"]["p50"] <= row["latency_ms"]["p99"]
        assert row["samples"] > 0 and row["lost"] >= 0 and row["cpu_percent"] > 0.0
        assert row["memory_mb_per_avatar"] > 0.0 and row["cpu_percent_per_avatar"] > 0.0
    for words in ("composed at 90 Hz: p99 is", "processes at 90 Hz: p99 is"):
        assert words in done.stdout


def test_a_late_first_tick_does_not_delay_the_samples_of_the_bare_transport():
    samples, period = Samples(90.0), 1e9 / 90
    ticks = [STAMP + round(i * period) for i in range(20)]
    stamps = [samples.due(at + 6_000_000 * (i == 0)) for i, at in enumerate(ticks)]
    assert all(len(due) == 1 for due in stamps)
    assert all(abs(at - due[0]) < 100 for at, due in zip(ticks[1:], stamps[1:], strict=True))


def test_the_bare_transport_makes_up_for_missed_ticks_once():
    samples = Samples(100.0)
    assert samples.due(STAMP) == [STAMP]
    assert samples.due(STAMP + 30_000_000) == [STAMP + i * 10_000_000 for i in (1, 2, 3)]
    assert samples.due(STAMP + 40_000_000) == [STAMP + 40_000_000]
    assert len(samples.due(STAMP + 10**9)) == 6
