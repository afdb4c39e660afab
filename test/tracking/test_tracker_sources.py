"""Sources without a device, and the OpenXR thread with a fake session."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from processes import PATIENCE_S

from mm_ros.base.errors import MmRosError
from mm_ros.body.types import LOST, ROLES, TRACKED, TrackerFrame, identity_pose
from mm_ros.sessions.session import write_session
from mm_ros.sessions.tables import read_table
from mm_ros.tracking.landmark_simulation import COMMON
from mm_ros.tracking.session_making import session_of_clips, session_of_table
from mm_ros.tracking.simulation import Simulation
from mm_ros.tracking.sources import SOURCES, make_source
from mm_ros.tracking.sources.clocks import SteadyShift
from mm_ros.tracking.sources.openxr import OpenXrSource, describe
from mm_ros.tracking.sources.played import PlayedSource, segments_of_clips
from mm_ros.tracking.sources.session import SessionSource
from mm_ros.tracking.sources.synthetic import user_clip
from mm_ros.tracking.sources.topics import TopicsSource

S = 1_000_000_000


def polled(source, seconds, every=1 / 90, start_s=100.0):
    out = []
    for i in range(int(seconds / every)):
        while (frame := source.poll(int((start_s + i * every) * S))) is not None:
            out.append((frame, source.truth()))
    return out


def opened(source):
    source.open()
    return source


def test_the_synthetic_user_goes_on_without_a_seam():
    """Over the end of a chapter of its plan (a minute): every sample, no jump, one epoch, truth with each."""
    source = opened(make_source("synthetic", seed=2))
    got = polled(source, 75)
    source.close()
    assert len(got) == 75 * 90
    stamps = np.array([f.stamp_ns for f, _ in got])
    np.testing.assert_allclose(np.diff(stamps) * 1e-9, 1 / 90, atol=1e-8)
    head = np.array([f.positions[0] for f, _ in got])
    assert np.linalg.norm(np.diff(head, axis=0), axis=-1).max() < 0.03
    assert {f.epoch for f, _ in got} == {0}
    for f, truth in got[::500]:
        assert truth.stamp_ns == f.stamp_ns
        assert np.linalg.norm(truth.root[:2] - f.positions[0, :2]) < 0.6


def test_the_same_seed_is_the_same_person():
    a, b, c = (polled(opened(make_source("synthetic", seed=s)), 1) for s in (4, 4, 5))
    np.testing.assert_array_equal(a[50][0].positions, b[50][0].positions)
    assert np.abs(a[50][0].positions - c[50][0].positions).max() > 1e-4


def test_clips_follow_each_other_in_new_epochs():
    clips = [user_clip(1.0, 1), user_clip(1.0, 2)]
    got = polled(opened(PlayedSource(segments_of_clips(clips, Simulation(), loop=False), 90.0)), 4)
    assert sorted({f.epoch for f, _ in got}) == [0, 1]
    assert all((f.state[:3] == TRACKED).all() for f, _ in got)


def test_a_late_poller_gets_each_sample_and_a_very_late_one_the_present():
    source = opened(make_source("synthetic"))
    source.poll(100 * S)
    assert len([1 for _ in iter(lambda: source.poll(100 * S + 50_000_000), None)]) == 4
    late = [f.stamp_ns for f in iter(lambda: source.poll(103 * S), None)]
    assert len(late) < 12 and 103 * S - late[-1] < 12_000_000
    source.close()


def test_a_session_comes_again_in_the_present_and_loops(tmp_path):
    write_session(tmp_path / "walk", session_of_clips([user_clip(1.0)]))
    source = opened(make_source("session", str(tmp_path / "walk")))
    got = polled(source, 4.2, every=1 / source.rate)
    assert {f.epoch for f, _ in got} == {0, 1, 2}
    first = [f for f, _ in got if f.epoch == 0]
    assert len(first) == 89 or len(first) == 90
    assert first[0].stamp_ns == 100 * S
    assert all(t.stamp_ns == f.stamp_ns for f, t in got)
    assert source.calibration().head_height == pytest.approx(1.67, abs=0.01)


def test_a_table_as_source_and_as_session(tmp_path):
    path = tmp_path / "poses.csv"
    rows = ["t,role,x,y,z,qx,qy,qz,qw"]
    for i in range(360):
        rows.append(f"{i / 90:.6f},head,0,0,1.7,0,0,0,1")
        if i % 2 == 0:
            rows.append(f"{i / 90 + 0.001:.6f},left_hand,{0.2 + 0.001 * i},0.3,1.1,0,0,0.6,0.8")
    path.write_text("\n".join(rows))
    frames = read_table(path, S)
    assert len(frames) == 360 and frames[3].state[1] == TRACKED and frames[3].state[2] == LOST
    assert frames[3].sampled_ns[1] == S + round((2 / 90 + 0.001) * S / 1000) * 1000
    np.testing.assert_allclose(frames[0].rotations[1], (0.8, 0, 0, 0.6))
    session = session_of_table(frames)
    assert session.calibration.calibrated is False or session.calibration.head_height == pytest.approx(1.7)
    assert session.calibration.head_height == pytest.approx(1.7, abs=0.01)
    assert session.frames[300].velocities[1, 0] == pytest.approx(0.09, abs=0.01)
    assert polled(opened(SessionSource(str(path))), 1)


def test_a_table_with_all_body_trackers_and_elbows_as_forearms(tmp_path):
    path = tmp_path / "body.csv"
    roles = ("head", "waist", "chest", "left_knee", "right_foot", "left_elbow", "right_forearm")
    rows = [f"0,{role},{k},0,1,0,0,0,1" for k, role in enumerate(roles)]
    path.write_text("\n".join(["t,role,x,y,z,qx,qy,qz,qw", *rows]))
    (frame,) = read_table(path, S)
    names = ["left_forearm" if role == "left_elbow" else role for role in roles]
    assert [ROLES[r] for r in np.flatnonzero(frame.state)] == [role for role in ROLES if role in names]
    assert frame.positions[ROLES.index("left_forearm"), 0] == roles.index("left_elbow")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n", "columns"),
        ("t,role,x,y,z,qx,qy,qz,qw\n0,tail,0,0,0,0,0,0,1\n", "no rows of role 'head'"),
        ("t,role,x,y,z,qx,qy,qz,qw\n0,head,0,0,0,0,0,0,0\n", "length 1"),
        ("t,role,x,y,z,qx,qy,qz,qw\n0,left_hand,0,0,0,0,0,0,1\n", "no rows of role 'head'"),
        ("t,role,x,y,z,qx,qy,qz,qw\n0,head,0,0\n", "line 2"),
    ],
)
def test_mistakes_in_tables_are_told(tmp_path, text, words):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(MmRosError, match=words):
        read_table(path)


def test_one_person_a_session():
    with pytest.raises(MmRosError, match="one person"):
        session_of_clips([user_clip(0.5), user_clip(0.5, 0, 1.1)])


def test_names_of_sources():
    with pytest.raises(MmRosError, match="synthetic, mocap"):
        make_source("telepathy")
    assert "topics" in SOURCES


def pose(x=0.0, z=1.6):
    return np.array([x, 0, z, 1, 0, 0, 0])


def test_poses_by_topic():
    source, woken = TopicsSource(), []
    source.wake = lambda: woken.append(1)
    assert "no pose" in source.status()
    source.feed(1, 10 * S, pose(z=1.1), 10 * S)
    assert source.poll(10 * S) is None
    source.feed(0, 10 * S + 1000, pose(), 10 * S)
    frame = source.poll(10 * S)
    assert woken and list(frame.state[:3]) == [TRACKED, TRACKED, LOST]
    source.feed(0, 11 * S, pose(), 11 * S)
    assert source.poll(11 * S).state[1] == LOST  # no pose for a second
    source.feed(0, 500 * S, pose(), 12 * S)
    assert source.poll(12 * S).stamp_ns == 12 * S and "another clock" in source.status()
    with pytest.raises(MmRosError, match="length 1"):
        source.feed(0, 13 * S, np.zeros(7), 13 * S)
    openxr = TopicsSource("openxr")
    openxr.feed(0, S, np.array([0.1, 1.6, -0.3, 1, 0, 0, 0]), S)
    np.testing.assert_allclose(openxr.poll(S).positions[0], (0.3, -0.1, 1.6))


class Session:
    """Fake OpenXR session that the test controls."""

    warning = ""
    made = 0
    grips = (False, True)

    def __init__(self, plan):
        self.plan, self.closed = plan, False
        Session.made += 1

    def sample(self):
        return self.plan()

    def close(self):
        self.closed = True


class SessionLostError(Exception):
    pass


def until(condition, seconds=PATIENCE_S):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_openxr_a_lost_session_is_followed_by_another_in_a_new_epoch():
    lose, made = threading.Event(), []

    def plan():
        if lose.is_set():
            lose.clear()
            raise SessionLostError
        made.append(time.time_ns())
        return TrackerFrame(time.monotonic_ns())

    source = opened(OpenXrSource(500.0, lambda: Session(plan)))
    epochs = []

    def heard():
        frame = source.poll(time.time_ns())
        if frame is not None:
            epochs.append(frame.epoch)
            assert min(abs(frame.stamp_ns - at) for at in made) < S
        return bool(epochs)

    until(heard)
    assert source.grips == (False, True)
    lose.set()
    until(lambda: "ended the session" in source.status())
    assert source.grips == (None, None)
    until(lambda: heard() and epochs[-1] == 1)
    source.close()


def test_openxr_a_call_that_hangs_is_told_and_ends_nothing():
    hang, go = threading.Event(), threading.Event()

    def plan():
        if hang.is_set():
            go.wait()
        return TrackerFrame(time.monotonic_ns())

    source = opened(OpenXrSource(200.0, lambda: Session(plan)))
    until(lambda: source.poll(time.time_ns()) is not None)
    hang.set()
    until(lambda: "has not answered" in source.status())
    source.poll(time.time_ns())
    assert source.poll(time.time_ns()) is None
    hang.clear()
    go.set()
    until(lambda: source.poll(time.time_ns()) is not None)
    until(lambda: source.status() == "")
    source.close()


def test_openxr_a_recentring_is_not_lost_with_the_sample_that_nobody_fetched():
    frames = []
    moved = identity_pose()
    moved[0] = 1.0

    def plan():
        frame = TrackerFrame(time.monotonic_ns())
        if len(frames) in (3, 5):
            frame.new_from_old = moved.copy()
        frames.append(frame)
        return frame

    source = opened(OpenXrSource(500.0, lambda: Session(plan)))
    until(lambda: len(frames) > 20)
    assert source.poll(time.time_ns()).new_from_old[0] == 2.0
    source.close()


def test_openxr_errors_have_words():
    assert "service is not running" in describe(type("RuntimeFailureError", (Exception,), {})())
    assert describe(ValueError("so")) == "ValueError: so"


def test_openxr_without_pyopenxr_is_a_sentence(monkeypatch):
    import builtins

    real = builtins.__import__

    def without(name, *rest, **more):
        if name.endswith("openxr_session"):
            raise ImportError("No module named 'xr'")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MmRosError, match="mm_ros setup openxr"):
        OpenXrSource().open()


def test_monado_script_says_loudly_what_is_missing(tmp_path):
    import subprocess

    script = Path(__file__).parents[2] / "tools" / "monado.sh"
    done = subprocess.run(
        [str(script), "run", "true"],
        env={"PATH": "/usr/bin:/bin", "MM_ROS_MONADO": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3 and "OpenXR was NOT tested" in done.stderr


def test_a_session_begins_again_when_simulated_time_goes_back(tmp_path):
    write_session(tmp_path / "walk", session_of_clips([user_clip(3.0)]))
    source = opened(make_source("session", str(tmp_path / "walk")))
    first = [f for f, _ in polled(source, 2.5, every=1 / source.rate)]
    again = [source.poll(90 * S + round(i * S / source.rate)) for i in range(20)]
    frames = [f for f in again if f is not None]
    assert frames and frames[0].epoch > first[-1].epoch
    assert frames[0].stamp_ns == 90 * S
    np.testing.assert_array_equal(frames[0].positions, first[0].positions)


def test_two_recentrings_at_once_are_both_told_and_an_unknown_one_starts_anew():
    pytest.importorskip("xr", reason="pyopenxr is not here")
    from mm_ros.tracking.sources import openxr_session as session

    made = object.__new__(session.OpenXrSession)
    step, turn = identity_pose(), identity_pose()
    step[0] = 1.0
    turn[3:] = (np.sqrt(0.5), 0, 0, np.sqrt(0.5))
    made._recentred = [session.Recentred(1, step), session.Recentred(2, turn), session.Recentred(9, step)]
    made.epoch_moves = 0
    frame = TrackerFrame(0)
    made._apply_recentring(frame, 5)
    np.testing.assert_allclose(frame.new_from_old, (0, 1, 0, *turn[3:]), atol=1e-12)  # first the step, then the turn
    assert frame.epoch == 2 and len(made._recentred) == 1
    made._recentred.insert(0, session.Recentred(8, None))
    after = TrackerFrame(1)
    made._apply_recentring(after, 10)
    np.testing.assert_array_equal(after.new_from_old, identity_pose())
    assert after.epoch == 4


def test_a_sessions_landmarks_come_each_once_and_not_before_their_time(tmp_path):
    made = session_of_clips([user_clip(1.0)], camera=COMMON)
    write_session(tmp_path / "seen", made)
    source = opened(make_source("session", str(tmp_path / "seen")))
    shift, got = 50 * S - made.frames[0].stamp_ns, []
    for i in range(int(1.2 * source.rate)):
        while (frame := source.poll(50 * S + round(i * S / source.rate))) is not None:
            new = source.landmarks()
            assert source.landmarks() == []
            assert all(m.stamp_ns <= frame.stamp_ns for m in new)
            got += new
    in_time = [s.landmarks for s in made.sightings if s.arrives_ns < made.frames[-1].stamp_ns]
    assert [m.stamp_ns for m in got] == [m.stamp_ns + shift for m in in_time]
    np.testing.assert_allclose(got[3].positions, in_time[3].positions, atol=1e-6)


def test_an_interruption_between_two_clock_readings_does_not_shift_the_stamps(monkeypatch):
    mono, shift = 5_000_000_000, SteadyShift()
    monkeypatch.setattr("time.clock_gettime_ns", lambda _clock: mono)
    true, found = 1_700_000_000_000_000_000, []
    for n in range(300):
        interrupted_ns = 2_000_000 if n % 3 == 0 else 0  # also at the first reading
        found.append(shift.of(mono + true - interrupted_ns))
        mono += 11_000_000
    assert found[0] == true - 2_000_000 and set(found[1:]) == {true}
