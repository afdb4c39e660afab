"""Files of the first version (test/data/v1) with the present code."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from mm_ros.base import renamed
from mm_ros.base.errors import MmRosError
from mm_ros.base.share import share_folder
from mm_ros.cli import main as cli
from mm_ros.motion.files import read_database
from mm_ros.sessions import versions as bag_versions
from mm_ros.sessions.bag import Bag
from mm_ros.sessions.definitions import typestore
from mm_ros.sessions.session import read_session, write_session
from mm_ros.tracking.files import read_calibration

OLD = Path(__file__).parents[1] / "data" / "v1"
STORAGES = ("mcap", "sqlite3")
DATABASE = ["--database", str(OLD / "tiny.mmdb")]


@pytest.fixture(params=STORAGES)
def old(request):
    return OLD / request.param


def test_a_session_is_read_whole(old):
    session = read_session(old)
    assert session.version == 1
    assert (len(session.frames), len(session.truth), len(session.sightings)) == (24, 24, 36)
    assert session.calibration.calibrated and session.calibration.head_height == pytest.approx(1.67)
    assert {pose.skeleton for pose in session.truth} == {session.truth_skeleton.hash}
    assert {pose.engine for pose in session.truth} == {"truth"}


def test_a_session_that_is_cut_off_is_read_up_to_there(old, tmp_path):
    """The reader from front to back also finds the definitions."""
    source = next(f for f in old.iterdir() if f.name != "metadata.yaml")
    data = source.read_bytes()
    (tmp_path / source.name).write_bytes(data[: int(0.98 * len(data))])
    session = read_session(tmp_path)
    assert session.damage and session.version == 1
    assert session.calibration.head_height == pytest.approx(1.67)


def test_a_session_written_anew_is_of_today(old, tmp_path):
    session = read_session(old)
    write_session(tmp_path / "new", session)
    new = read_session(tmp_path / "new")
    assert new.version == bag_versions.VERSION
    np.testing.assert_array_equal([p.root for p in new.truth], [p.root for p in session.truth])
    assert vars(new.calibration).keys() == vars(session.calibration).keys()
    assert new.calibration.head_height == session.calibration.head_height


def test_outputs_are_decoded_as_todays():
    bag = Bag(OLD / "outputs")
    messages = [(m.topic.removeprefix("/avatar/recorded/"), m.decode()) for m in bag.messages()]
    matches = [m for topic, m in messages if topic == "match"]
    assert {(m.engine, m.search_structure) for m in matches} == {("search", "tree")}
    assert all(m.clip and m.frame >= 0 for m in matches)
    assert any(m.runner_up_frames.size and m.query.size == 27 for m in matches)
    assert [m.hash for topic, m in messages if topic == "skeleton"] == [
        m.skeleton for topic, m in messages if topic == "pose"
    ][:1]


def test_an_engine_of_the_first_version_has_its_new_name():
    poses = [m.decode() for m in Bag(OLD / "outputs").messages({"/avatar/recorded/pose"})]
    assert poses and {m.engine for m in poses} == {"search"}


def test_a_calibration_of_version_2_states_no_uncertainty():
    session = read_session(OLD.parent / "v2" / "mcap")
    assert session.version == 2 and session.calibration.head_height > 1.0
    assert (session.calibration.head_height_sigma, session.calibration.note) == (0.0, "")


@pytest.mark.parametrize("version", range(1, bag_versions.VERSION))
def test_a_session_of_each_former_version_is_kept_and_read(version):
    session = read_session(OLD.parent / f"v{version}" / "mcap")
    assert session.version == version
    assert session.frames and session.calibration.head_height == pytest.approx(1.67)
    assert session.truth and all(pose.feet is None for pose in session.truth)


def test_a_message_that_no_version_had_is_refused(tmp_path, monkeypatch):
    """Like the reader without its table of versions."""
    monkeypatch.setattr(bag_versions, "FORMER", ())
    typestore.cache_clear()
    try:
        with pytest.raises(MmRosError, match=r"Calibration was recorded by an unknown version of mm_ros"):
            Bag(OLD / "mcap")
    finally:
        typestore.cache_clear()


def test_info_names_the_version(old, capsys):
    assert cli.main(["info", str(old)]) == 0
    assert "message version" in capsys.readouterr().out
    assert cli.main(["info", str(OLD / "outputs")]) == 0
    assert f"1 (current: {bag_versions.VERSION}" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["tiny.mmdb", "anna.yaml"])
def test_info_names_the_version_of_a_database_and_a_calibration(name, capsys):
    assert cli.main(["info", str(OLD / name)]) == 0
    assert ["file", "version", "1"] in [line.split() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("name", [*STORAGES, "outputs"])
def test_a_session_is_evaluated_on_a_database_of_then(name, tmp_path):
    import json

    out = tmp_path / "table.json"
    assert cli.main(["evaluate", str(OLD / name), *DATABASE, "--rows", "brute", "--json", str(out)]) == 0
    table = json.loads(out.read_text())
    assert table["brute_equals_ours"] is True
    assert np.isfinite(table["summary"]["ours"]["root_error_m"]["mean"])


def test_a_session_is_explained_on_a_database_of_then(old, capsys):
    assert cli.main(["explain", str(old), "--at", "0.6", *DATABASE]) == 0
    assert "search at" in capsys.readouterr().out


def test_a_database_and_its_index_are_used_as_they_are():
    from mm_ros.matching.engines.source import SearchSource

    database = read_database(OLD / "tiny.mmdb")
    weights = database.layout.column_weights()
    margin = database.provenance["search"]["ends_excluded_frames"] / database.rate
    assert SearchSource(database, 1.0, "tree", margin, weights).engine.from_store
    assert len(database) == 126 and database.hash == read_database(OLD / "tiny.mmdb").hash


def test_a_calibration_is_read():
    calibration = read_calibration("anna", OLD / "anna.yaml")
    assert calibration.calibrated and calibration.head_height == pytest.approx(1.67)


# ---- renamed parameters


@pytest.fixture
def former_speed(monkeypatch):
    monkeypatch.setitem(renamed.PARAMETERS, ("path_control", "pace"), "speed")


def file_of(tmp_path, key, **parameters):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({key: {"ros__parameters": parameters}}))
    return path


@pytest.mark.parametrize("key", ["/**/motion_matcher", "/avatar/motion_matcher", "/**"])
def test_a_launch_refuses_a_former_value_in_a_file(key, tmp_path):
    launching = pytest.importorskip("mm_ros.ros.launching", reason="no ROS here")
    given = {a.name: a.default for a in launching.ARGUMENTS}
    launching.check(given | {"config": str(file_of(tmp_path, key, engine="search", quality=2.0))})
    with pytest.raises(MmRosError, match="search_structure: boxes"):
        launching.check(given | {"config": str(file_of(tmp_path, key, engine="boxes"))})


def test_a_launch_refuses_a_former_name_in_a_file(former_speed, tmp_path):
    launching = pytest.importorskip("mm_ros.ros.launching", reason="no ROS here")
    given = {a.name: a.default for a in launching.ARGUMENTS}
    with pytest.raises(MmRosError, match="path_control: the parameter 'pace' is now named 'speed'"):
        launching.check(given | {"config": str(file_of(tmp_path, "/**/path_control", pace=1.0))})


def test_up_refuses_what_has_another_name_now(former_speed):
    from mm_ros.cli import up

    with pytest.raises(MmRosError, match="search_structure: brute"):
        up.parameters("motion_matcher", ["motion_matcher.engine=brute"])
    with pytest.raises(MmRosError, match="now named 'speed'"):
        up.parameters("path_control", ["path_control.pace=1.0"])
    assert up.parameters("motion_matcher", ["motion_matcher.engine=search"]) == {"engine": "search"}


def test_a_node_refuses_a_former_name_in_its_file(former_speed, tmp_path):
    rclpy = pytest.importorskip("rclpy", reason="no ROS here")
    from mm_ros.ros.parameters import LiveSettings
    from mm_ros.trajectory.path import PathSettings

    context = rclpy.context.Context()
    file = file_of(tmp_path, "/**/path_control", pace=1.0)
    rclpy.init(args=["--ros-args", "--params-file", str(file)], context=context)
    node = rclpy.create_node("path_control", context=context)
    try:
        with pytest.raises(MmRosError, match="now named 'speed'"):
            LiveSettings(node, [PathSettings], lambda: None)
    finally:
        node.destroy_node()
        rclpy.try_shutdown(context=context)


def test_the_matcher_with_a_users_file_of_then_ends_with_the_sentence(tmp_path):
    pytest.importorskip("rclpy", reason="no ROS here")
    file = file_of(tmp_path, "/**/motion_matcher", engine="tree", quality=1.0)
    command = [sys.executable, "-m", "mm_ros.ros.nodes", "motion_matcher", "--ros-args", "--params-file", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=dict(os.environ))
    assert done.returncode == 2 and "search_structure: tree" in done.stderr and "Traceback" not in done.stderr


def test_the_table_has_only_names_that_are_gone_and_names_that_are_there():
    from mm_ros.ros import graph

    def known(node):
        return {k for kind in graph.node(node).settings_types() for k in kind.defaults()}

    for (node, former), name in renamed.PARAMETERS.items():
        owner, _, present = name.rpartition(".")
        assert former not in known(node) and present in known(owner or node)
    for node, parameter, value in renamed.VALUES:
        spec = next(k.specs()[parameter] for k in graph.node(node).settings_types() if parameter in k.specs())
        assert value not in spec.choices


PARAMETERS = [
    (key.removeprefix("/**/"), name, value)
    for key, section in yaml.safe_load((OLD / "avatar.yaml").read_text()).items()
    for name, value in section["ros__parameters"].items()
]


@pytest.mark.parametrize(("node", "name", "value"), PARAMETERS, ids=[f"{n}.{p}" for n, p, _ in PARAMETERS])
def test_a_parameter_of_then_is_set_or_refused_with_its_present_name(node, name, value):
    from mm_ros.ros import graph

    types = (*graph.node(node).settings_types(), graph.FrameSettings)
    owner = next((kind for kind in types if name in kind.specs()), None)
    if owner is None or (name, value) == ("engine", "tree"):
        with pytest.raises(MmRosError, match=r"is now (named|written)"):
            renamed.refuse_renamed(node, name, value)
        return
    renamed.refuse_renamed(node, name, value)
    owner().with_values(**{name: tuple(value) if isinstance(value, list) else value})


MOVED = "pose_postprocessor: the parameter 'urdf' is now named 'robot_follower.urdf'"


def test_a_parameter_of_another_node_now_is_refused_by_up(tmp_path, monkeypatch, capsys):
    from mm_ros.cli import up

    with pytest.raises(MmRosError, match=MOVED):
        up.parameters("pose_postprocessor", ["pose_postprocessor.urdf=robot.urdf"])
    node = pytest.importorskip("mm_ros.ros.node", reason="no ROS here")
    monkeypatch.setattr(node, "keep_running", lambda *_: 0)
    file = file_of(tmp_path, "/**/pose_postprocessor", urdf="robot.urdf")
    assert cli.main(["up", "--trackers", "none", "--config", str(file)]) == 2
    assert MOVED in capsys.readouterr().err


def test_a_parameter_of_another_node_now_is_refused_by_a_launch(tmp_path):
    launching = pytest.importorskip("mm_ros.ros.launching", reason="no ROS here")
    file = file_of(tmp_path, "/**/pose_postprocessor", urdf="robot.urdf")
    given = {a.name: a.default for a in launching.ARGUMENTS}
    with pytest.raises(MmRosError, match=MOVED):
        launching.check(given | {"config": str(file)})
    launching.check(given | {"config": str(file_of(tmp_path, "/**", urdf="robot.urdf"))})


@pytest.mark.parametrize("way", ["--params-file", "-p"])
def test_a_node_refuses_a_parameter_of_another_node_now(way, tmp_path):
    pytest.importorskip("rclpy", reason="no ROS here")
    file = file_of(tmp_path, "/**/pose_postprocessor", urdf="robot.urdf")
    given = [way, str(file) if way == "--params-file" else "urdf:=robot.urdf"]
    command = [sys.executable, "-m", "mm_ros.ros.nodes", "pose_postprocessor", "--ros-args", *given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=dict(os.environ))
    assert done.returncode == 2 and MOVED in done.stderr and "Traceback" not in done.stderr


def test_a_node_starts_with_such_a_name_for_all_nodes(tmp_path):
    rclpy = pytest.importorskip("rclpy", reason="no ROS here")
    from mm_ros.ros import graph
    from mm_ros.ros.parameters import LiveSettings

    context = rclpy.context.Context()
    file = file_of(tmp_path, "/**", urdf="robot.urdf")
    rclpy.init(args=["--ros-args", "--params-file", str(file)], context=context)
    node = rclpy.create_node("pose_postprocessor", context=context)
    try:
        assert LiveSettings(node, graph.node("pose_postprocessor").settings_types(), lambda: None).current
    finally:
        node.destroy_node()
        rclpy.try_shutdown(context=context)


# ---- a definition that changes

FIRST = {
    "AvatarPose": "62331cd7",
    "BodyOrientation": "636955f5",
    "Calibration": "8245f813",
    "Landmarks": "76d116cc",
    "Match": "b04b714b",
    "Skeleton": "84f0d5e3",
    "Tracker": "81cd9488",
    "TrackerArray": "857a263b",
    "Trajectory": "fda1b093",
}  # fmt: skip
SECOND = FIRST | {"Calibration": "32f7ce83", "Match": "90116c10", "Skeleton": "354a568b"}
THIRD = SECOND | {"Calibration": "3f44a0fa"}
FOURTH = THIRD | {"AvatarPose": "7a4ba996", "FeatureLayout": "e33f2700", "Trajectory": "ba269fd2"}
DEFINITIONS = {1: FIRST, 2: SECOND, 3: THIRD, 4: FOURTH}


def digest(definition):
    lines = (" ".join(line.partition("#")[0].split()) for line in definition.splitlines())
    return hashlib.blake2b("\n".join(line for line in lines if line).encode(), digest_size=4).hexdigest()


@pytest.mark.parametrize("version", DEFINITIONS)
def test_the_definitions_of_a_version_never_change(version):
    """A change of msg/ needs a row in sessions/versions.py, a new VERSION, an earlier recording, and a row here."""
    assert max(DEFINITIONS) == bag_versions.VERSION
    now = {path.stem: path.read_text() for path in (share_folder() / "msg").glob("*.msg")}
    rows = {name: bag_versions.former(bag_versions.PACKAGE + name, version) for name in now}
    found = {name: digest(row.definition if row else now[name]) for name, row in rows.items()}
    assert found.items() >= DEFINITIONS[version].items()
    assert version < bag_versions.VERSION or found == DEFINITIONS[version]
