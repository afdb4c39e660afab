"""Sessions: written → read → equal in every mode; a truncated file is read up to its end."""

import itertools
import resource
import shutil
import sqlite3
from dataclasses import replace

import numpy as np
import pytest
import yaml
from rosbags.rosbag2 import Reader

from mm_ros.base.errors import MmRosError
from mm_ros.sessions.bag import COMPRESSIONS, Bag
from mm_ros.sessions.messages import trackers_to_bag
from mm_ros.sessions.session import Session, SessionWriter, read_session, write_session
from mm_ros.tracking.calibration import from_skeleton
from mm_ros.tracking.landmark_simulation import COMMON, simulate_landmarks
from mm_ros.tracking.simulation import Simulation, simulate_clip
from mm_ros.tracking.sources.synthetic import user_clip
from mm_ros.tracking.truth import truth_of_clip


@pytest.fixture(scope="module")
def session() -> Session:
    clip = user_clip(2.0, seed=1)
    track = simulate_clip(clip, Simulation(waist=True, feet=True), start_ns=1_700_000_000_000_000_000)
    truth = truth_of_clip(clip, 90.0)
    frames = [track.frame(i) for i in range(len(track))]
    poses = [truth.pose(i, f.stamp_ns, 0) for i, f in enumerate(frames)]
    return Session(frames, from_skeleton(clip.skeleton, "anna"), poses, clip.skeleton)


def assert_same(a: Session, b: Session) -> None:
    assert len(a.frames) == len(b.frames) and len(a.truth) == len(b.truth)
    for x, y in zip(a.frames, b.frames, strict=True):
        assert (x.stamp_ns, x.epoch) == (y.stamp_ns, y.epoch)
        seen = x.state > 0
        np.testing.assert_array_equal(x.state, y.state)
        for name in ("positions", "rotations", "velocities", "angular_velocities", "sampled_ns"):
            np.testing.assert_array_equal(getattr(x, name)[seen], getattr(y, name)[seen])
        np.testing.assert_array_equal(x.new_from_old, y.new_from_old)
    for p, q in zip(a.truth, b.truth, strict=True):
        assert (p.stamp_ns, p.skeleton) == (q.stamp_ns, q.skeleton)
        for name in ("root", "positions", "rotations", "velocities", "angular_velocities"):
            np.testing.assert_array_equal(getattr(p, name), getattr(q, name))
    assert a.calibration.user == b.calibration.user
    assert a.calibration.head_height == b.calibration.head_height
    np.testing.assert_array_equal(a.calibration.left_grip_in_hand, b.calibration.left_grip_in_hand)
    assert a.truth_skeleton.hash == b.truth_skeleton.hash


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_written_is_read_equal(tmp_path, session, storage, compression):
    if (storage, compression) == ("sqlite3", "storage"):
        pytest.skip("SQLite has no compression of its own")
    path = tmp_path / "walk"
    write_session(path, session, storage, compression)
    back = read_session(path)
    assert back.damage == ""
    assert_same(session, back)


def test_landmarks_come_again_between_the_same_samples(tmp_path, session):
    clip = user_clip(2.0, seed=1)
    seen = simulate_landmarks(clip, COMMON, session.frames[0].stamp_ns)
    write_session(tmp_path / "seen", replace(session, sightings=seen))
    back = read_session(tmp_path / "seen")
    assert_same(session, back)
    stamps = [f.stamp_ns for f in session.frames]
    before, after = ([np.searchsorted(stamps, s.arrives_ns) for s in many] for many in (seen, back.sightings))
    assert before == after
    for a, b in zip(seen, back.sightings, strict=True):
        x, y = a.landmarks, b.landmarks
        assert (x.stamp_ns, x.epoch, x.source) == (y.stamp_ns, y.epoch, y.source)
        np.testing.assert_allclose(y.positions, x.positions, atol=1e-6)
        np.testing.assert_array_equal(y.visibility, x.visibility)
        np.testing.assert_array_equal(y.image, x.image)
        assert y.confidence == pytest.approx(x.confidence)


def test_the_layout_is_rosbag2s(tmp_path, session):
    path = tmp_path / "walk"
    write_session(path, session)
    info = yaml.safe_load((path / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    assert info["storage_identifier"] == "mcap" and info["version"] == 9
    counts = {t["topic_metadata"]["name"]: t["message_count"] for t in info["topics_with_message_count"]}
    n = len(session.frames)
    assert counts == {"/avatar/trackers": n, "/avatar/calibration": 1, "/avatar/truth": n, "/avatar/truth_skeleton": 1}
    for topic in info["topics_with_message_count"]:
        latched = topic["topic_metadata"]["name"].endswith(("calibration", "skeleton"))
        qos = topic["topic_metadata"]["offered_qos_profiles"][0]
        assert qos["durability"] == ("transient_local" if latched else "volatile")
        assert topic["topic_metadata"]["type_description_hash"].startswith("RIHS01_")
    with Reader(path) as reader:
        assert {c.topic for c in reader.connections} == set(counts)


@pytest.mark.parametrize(
    ("storage", "compression"),
    [
        ("mcap", "none"),
        ("mcap", "message"),
        ("mcap", "file"),
        ("mcap", "storage"),
        ("sqlite3", "none"),
        ("sqlite3", "message"),
    ],
)
@pytest.mark.parametrize("share", [0.35, 0.999])
def test_cut_off_is_read_up_to_there(tmp_path, session, storage, compression, share):
    """No metadata.yaml, no index, and an incomplete last message, as after a kill or on a full disk."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    write_session(whole, session, storage, compression)
    cut.mkdir()
    source = next(f for f in whole.iterdir() if f.name != "metadata.yaml")
    data = source.read_bytes()
    (cut / source.name).write_bytes(data[: int(share * len(data))])
    back = read_session(cut)
    assert back.damage
    # zstd decodes in blocks of 128 kB; an SQLite file begins with the definitions
    assert len(back.frames) >= share * len(session.frames) - (150 if compression in ("file", "storage") else 40)
    for x, y in zip(session.frames, back.frames, strict=False):
        assert x.stamp_ns == y.stamp_ns
        np.testing.assert_array_equal(x.positions[:3], y.positions[:3])


def test_metadata_that_promises_more_than_there_is(tmp_path, session):
    path = tmp_path / "walk"
    write_session(path, session)
    file = path / "walk.mcap"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    back = read_session(path)
    assert "incomplete" in back.damage
    assert len(session.frames) // 3 < len(back.frames) < len(session.frames)


@pytest.fixture
def in_real_time(monkeypatch):
    """Each message takes 1/90 s of a writer's time."""
    from mm_ros.sessions import bag

    clock = itertools.count()
    monkeypatch.setattr(bag.time, "monotonic", lambda: next(clock) / 90)


def assert_second_lost_at_most(path, frames, written):
    """The bag is reported as incomplete, and of the written `frames` only the last ones are missing."""
    back = read_session(path)
    assert "incomplete" in back.damage
    assert written - len(back.frames) <= 90
    assert [f.stamp_ns for f in back.frames] == [f.stamp_ns for f in frames[: len(back.frames)]]


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_a_killed_recorder_loses_a_second_at_most(tmp_path, session, storage, in_real_time):
    writer = SessionWriter(tmp_path / "walk", storage=storage, truth=False)
    for frame in session.frames:
        writer.write_frame(frame)
    assert_second_lost_at_most(tmp_path / "walk", session.frames, len(session.frames))  # never closed


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_a_full_disk_is_a_sentence_and_costs_a_second_at_most(tmp_path, session, storage, in_real_time):
    """A limit of the file size replaces a full disk."""
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    writer = SessionWriter(tmp_path / "walk", storage=storage, truth=False)
    resource.setrlimit(resource.RLIMIT_FSIZE, (160_000, unlimited[1]))
    frames, written = session.frames * 10, []

    def write():
        for frame in frames:
            writer.write_frame(frame)
            written.append(frame)

    try:
        with pytest.raises(MmRosError, match=r"walk: .*; what was written before can be read"):
            write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    writer.close()  # nothing is left to do
    assert len(written) > 100
    assert_second_lost_at_most(tmp_path / "walk", frames, len(written))


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_a_disk_that_is_full_at_the_end_is_a_sentence(tmp_path, session, storage):
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    writer = SessionWriter(tmp_path / "walk", storage=storage, truth=False)
    for frame in session.frames:
        writer.write_frame(frame)
    resource.setrlimit(resource.RLIMIT_FSIZE, (160_000, unlimited[1]))
    try:
        with pytest.raises(MmRosError, match="walk: "):
            writer.close()
        writer.close()  # nothing is left to do
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)


def test_an_sqlite_recording_that_was_ended_is_one_file(tmp_path, session):
    """Readers without write access to the folder can open the file, and SQLite reports no damage."""
    write_session(tmp_path / "walk", session, "sqlite3")
    assert sorted(p.name for p in (tmp_path / "walk").iterdir()) == ["metadata.yaml", "walk.db3"]
    database = sqlite3.connect(f"file:{tmp_path / 'walk' / 'walk.db3'}?immutable=1", uri=True)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert database.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    database.close()


def test_a_bare_file_is_a_session(tmp_path, session):
    write_session(tmp_path / "walk", session)
    assert len(read_session(tmp_path / "walk" / "walk.mcap").frames) == len(session.frames)


def test_nothing_is_overwritten(tmp_path, session):
    write_session(tmp_path / "walk", session)
    with pytest.raises(MmRosError, match="not overwritten"):
        write_session(tmp_path / "walk", session)


def test_mistakes_are_told(tmp_path, session):
    with pytest.raises(MmRosError, match="does not exist"):
        read_session(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(MmRosError, match=r"\.mcap or \.db3"):
        read_session(tmp_path / "empty")
    text = tmp_path / "a.mcap"
    text.write_text("not a bag")
    with pytest.raises(MmRosError, match="nothing in it can be read"):
        read_session(text)
    write_session(tmp_path / "walk", session)
    with pytest.raises(MmRosError, match="Avatars: avatar"):
        read_session(tmp_path / "walk", avatar="ben")


def test_other_fields_are_refused(tmp_path, session, monkeypatch):
    """A session of an unknown version of the messages is refused with both lists of fields."""
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    import mm_ros.sessions.definitions as types

    write_session(tmp_path / "walk", session)
    other = get_typestore(Stores.ROS2_JAZZY)
    for path in sorted((types.share_folder() / "msg").glob("*.msg")):
        text = path.read_text() + ("\nint32 mood\n" if path.stem == "TrackerArray" else "")
        other.register(get_types_from_msg(text, types.PACKAGE + path.stem))
    monkeypatch.setattr(types, "typestore", lambda *_: other)
    with pytest.raises(MmRosError, match=r"by an unknown version of mm_ros.*here: .*mood"):
        Bag(tmp_path / "walk")


def test_split_bag_is_one(tmp_path, session):
    """`ros2 bag record` splits by size or time; without metadata the parts are read in order of their names."""
    first, second = Session(session.frames[:100]), Session(session.frames[100:])
    write_session(tmp_path / "a", first)
    write_session(tmp_path / "b", second)
    both = tmp_path / "both"
    both.mkdir()
    shutil.copy(tmp_path / "a" / "a.mcap", both / "both_0.mcap")
    shutil.copy(tmp_path / "b" / "b.mcap", both / "both_1.mcap")
    assert [f.stamp_ns for f in read_session(both).frames] == [f.stamp_ns for f in session.frames]


def test_default_skeleton_survives(tmp_path):
    clip = user_clip(1.0, 0, 1.1)
    track = simulate_clip(clip)
    truth = truth_of_clip(clip, 90.0)
    write_session(
        tmp_path / "s",
        Session([track.frame(0)], from_skeleton(clip.skeleton), [truth.pose(0, 0, 0)], clip.skeleton),
    )
    assert read_session(tmp_path / "s").truth_skeleton.hash == clip.skeleton.hash


def test_absurd_messages_of_a_session_are_left_out_and_told(tmp_path, session):
    with SessionWriter(tmp_path / "s", truth=False) as writer:
        for i, frame in enumerate(session.frames):
            absurd = replace(frame, positions=np.full_like(frame.positions, 1e30 if i % 4 == 0 else 1.0))
            writer.write_frame(absurd)
    read = read_session(tmp_path / "s")
    left_out = len(session.frames[::4])
    assert len(read.frames) == len(session.frames) - left_out
    assert read.damage.startswith(f"{left_out} messages are left out, the first for this: position of head: expected")


def test_a_session_of_absurd_messages_alone_is_a_sentence(tmp_path, session):
    with SessionWriter(tmp_path / "s", truth=False) as writer:
        writer.write_frame(replace(session.frames[0], positions=np.full_like(session.frames[0].positions, 1e30)))
    with pytest.raises(MmRosError, match=r"holds a topic for trackers: position of head: expected"):
        read_session(tmp_path / "s")


def test_negative_stamps_of_a_session_are_a_sentence(tmp_path, session):
    with SessionWriter(tmp_path / "s", truth=False) as writer:
        writer._write("trackers", 0, trackers_to_bag(replace(session.frames[0], stamp_ns=-5_000_000_000)))
    with pytest.raises(MmRosError, match=r"stamp: expected 0 to .* came -5"):
        read_session(tmp_path / "s")
