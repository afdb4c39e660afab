"""The real nodes, each in its own process, over real DDS."""

import itertools
import math
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("mm_ros.msg", reason="the messages are not built")

import rclpy
from diagnostic_msgs.msg import DiagnosticStatus
from fields import FEET, LAYOUT, OF_THE_BRIDGE, OF_THE_CHAIN, ONLY_FILLED, POSE, SKELETON, check_fields
from geometry_msgs.msg import Twist, Vector3
from graph_harness import Client, NodeProcess, World, all_finite, walking_clip
from processes import PATIENCE_S
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import DescribeParameters, SetParameters
from sensor_msgs.msg import Joy
from toys import COINCIDENT, joints_in_one_place

from mm_ros.avatar import Avatar
from mm_ros.body.types import LOST, Match
from mm_ros.motion.build import build_database
from mm_ros.motion.default_database import default_database_path
from mm_ros.motion.features import FeatureLayout, default_layout
from mm_ros.motion.files import read_database, write_database
from mm_ros.motion.procedural import make_clips
from mm_ros.ros import graph, wire
from mm_ros.ros.cdr import deserialized
from mm_ros.ros.conversions import avatar_pose_from_ros, stamp_from_ros
from mm_ros.ros.qos import listener_qos, message_class

STAGES = ("body_orientation", "trajectory", "matched_pose", "match")


@pytest.fixture(scope="module", autouse=True)
def ros():
    rclpy.init()
    yield
    rclpy.try_shutdown()


TIMES = (0.2, 0.5, 1.5)  # differs from the default horizon


@pytest.fixture(scope="module")
def other_layout(tmp_path_factory) -> Path:
    """Database with another horizon, and a skeleton with bones of length 0, as in CMU."""
    clips = [walking_clip(), *[c for c in make_clips(0) if c.seconds < 20.0][:6]]
    for i, clip in enumerate(clips):
        positions = clip.positions.copy()
        positions[:, COINCIDENT] = 0.0
        clips[i] = replace(clip, skeleton=joints_in_one_place(clip.skeleton), positions=positions)
    layout = FeatureLayout(tuple(replace(f, times=TIMES) if f.is_trajectory else f for f in default_layout().features))
    path = tmp_path_factory.mktemp("layout") / "other.mmdb"
    write_database(build_database(clips, layout), path)
    return path


@pytest.fixture(scope="module")
def world(ros, tmp_path_factory):
    default_database_path()  # generated here, so that it does not count as the nodes' start time
    topics = ("pose", "/tf", "skeleton", "/diagnostics", "feature_layout", "robot_description", *STAGES)
    patient = {"silent_s": 60.0}  # the avatar must not stop when the machine is busy
    explained = {"runners_up": True}
    folder = tmp_path_factory.mktemp("nodes")
    w = World("nodes", folder, topics, trajectory_predictor=patient, motion_matcher=explained)
    yield w
    codes = w.close()
    assert set(codes.values()) == {0}, {n: w.nodes[n].said() for n, c in codes.items() if c}


def double(value: float) -> ParameterValue:
    return ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=value)


def string(value: str) -> ParameterValue:
    return ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=value)


def set_parameter(world, node, name, value):
    request = SetParameters.Request(parameters=[Parameter(name=name, value=value)])
    return world.client.call(SetParameters, f"/{world.avatar}/{node}/set_parameters", request).results[0]


def test_each_sample_becomes_a_pose_with_its_stamp(world):
    frames, poses = world.walk_without_loss(2.0)
    assert [stamp_from_ros(m.header.stamp) for m in poses] == [f.stamp_ns for f in frames]


def test_tf_holds_all_joints_under_the_avatars_name(world):
    def mine():
        return [m for m in world.client.received["/tf"] if m.transforms[0].child_frame_id.startswith("nodes/")]

    world.forget()
    assert world.client.spin_until(lambda: world.walk(0.2) and mine(), PATIENCE_S)
    tf = mine()[-1]
    assert len(tf.transforms) == 23
    assert tf.transforms[0].header.frame_id == "map"
    assert tf.transforms[0].child_frame_id == "nodes/root"
    assert {t.header.frame_id for t in tf.transforms[1:]} <= {t.child_frame_id for t in tf.transforms}
    assert all_finite(tf)


def agree(world, frames, poses, database: Path) -> None:
    avatar = Avatar.load(read_database(database), world.calibration)
    for frame, pose in zip(frames, map(avatar_pose_from_ros, poses), strict=True):
        expected = avatar.step(frame)
        for name in ("root", "positions", "rotations", "contacts", "locked"):
            np.testing.assert_array_equal(getattr(pose, name), getattr(expected, name), err_msg=name)


def test_every_field_of_the_chains_messages_is_what_its_stage_had(world):
    """Compare messages of the graph with the same stages in one process."""
    received = world.client.received
    frames, _ = world.walk_without_loss(3.0, epoch=20, travels_at=60)
    avatar = Avatar.load(read_database(default_database_path()), world.calibration)
    avatar.matcher.explain = True
    steps = {frame.stamp_ns: avatar.step(frame) and avatar.last for frame in frames}
    assert set_parameter(world, "trajectory_predictor", "silent_s", double(0.2)).successful
    world.walk(0.1)  # the watchdog takes the new time with the next sample
    assert world.client.spin_until(lambda: received["pose"][-1].stale, PATIENCE_S)
    assert set_parameter(world, "trajectory_predictor", "silent_s", double(60.0)).successful

    def pairs(topic, part):
        found = [(m, steps.get(stamp_from_ros(m.header.stamp))) for m in received[topic]]
        assert sum(step is not None for _, step in found) > 0.9 * len(frames)
        return [(m, step and part(step)) for m, step in found if step or getattr(m, "stale", False)]

    matched, poses = pairs("matched_pose", lambda s: s.matched), pairs("pose", lambda s: s.pose)
    before = matched[0][0].segment - matched[0][1].segment  # jumps before this walk
    body = {**POSE, "run": lambda _: ONLY_FILLED, "segment": lambda p: p.segment + before}
    check_fields(pairs("body_orientation", lambda s: s.facing))
    check_fields(pairs("trajectory", lambda s: s.desired), FEET)
    check_fields(matched, body, always_empty={"locked"})  # the postprocessor locks feet
    check_fields(poses, body)
    check_fields(pairs("match", lambda s: s), match_values(avatar) | {"segment": lambda s: s.matched.segment + before})
    assert len({m.run for topic in ("matched_pose", "match", "pose") for m in received[topic]}) == 1
    assert all((m.search_time > 0) == m.searched for m in received["match"])
    world.client.calibrate(world.calibration)  # the skeleton is published again
    assert world.client.spin_until(lambda: received["skeleton"], PATIENCE_S)
    check_fields([(m, avatar.skeleton) for m in received["skeleton"]], {**SKELETON, "name": lambda _: "nodes"})


def test_the_fields_of_each_message_of_ours_are_compared():
    ours = {name for name, topic in graph.TOPICS.items() if topic.type.startswith("mm_ros/")}
    assert ours == {*OF_THE_BRIDGE, *OF_THE_CHAIN}, "compare the fields of a new topic, here or for the bridge"


def match_values(avatar):
    """Return the fields of Match for a step of an Avatar."""
    database = avatar.matcher.database
    columns = database.layout.column_names
    scales = np.array([1.0 if "direction" in name else avatar.scale for name in columns], np.float32)

    def physical(normalized):
        return (normalized * database.feature_std + database.feature_mean) * scales if normalized.size else []

    named = [f.name for f in fields(Match) if f.name != "stamp_ns"]
    return {name: (lambda s, name=name: getattr(s.match, name)) for name in named} | {
        "header": lambda s: (s.match.stamp_ns, "map"),
        "run": lambda _: ONLY_FILLED,
        "search_time": lambda _: ONLY_FILLED,
        "feature_names": lambda s: columns if s.match.searched else [],
        "query_physical": lambda s: physical(s.match.query),
        "winner_physical": lambda s: physical(s.match.winner),
    }


def test_graph_and_chain_give_the_same_poses_bit_for_bit(world):
    frames, poses = world.walk_without_loss(3.0, epoch=9)
    agree(world, frames, poses, default_database_path())


def test_streams_of_other_processes_are_read_by_templates(world, monkeypatch):
    """Between processes the middleware may change the length of a message."""
    names = {t: f"/{world.avatar}/{t}" for t in ("body_orientation", "trajectory", "matched_pose", "pose")}
    came = {t: [] for t in names}
    node = world.client.node
    heard = [
        node.create_subscription(
            message_class(graph.TOPICS[t].type), name, came[t].append, listener_qos(graph.TOPICS[t].qos), raw=True
        )
        for t, name in names.items()
    ]
    ordinary = []
    monkeypatch.setattr(wire, "deserialized", lambda *given: ordinary.append(0) or deserialized(*given))
    world.client.spin_until(lambda: world.walk(0.2) and min(map(len, came.values())) >= 20, PATIENCE_S)
    for subscription in heard:
        node.destroy_subscription(subscription)
    for topic, raws in came.items():
        assert len(raws) >= 20, topic
        ordinary.clear()
        reader = wire.Wire(topic, "map")
        for raw in raws:
            reader.value(raw)
        assert len(ordinary) <= 2, f"{topic}: {len(ordinary)} of {len(raws)}"  # one a shape: with and without feet


def test_a_database_with_another_horizon_is_followed_and_graph_and_chain_agree(world, other_layout):
    def trajectory_times() -> list[float]:
        world.walk(0.2)
        return [round(t, 4) for t in world.client.received["trajectory"][-1].times]

    usual = trajectory_times()
    assert usual == [round(t, 4) for t in default_layout().trajectory_times]
    bodies = world.client.received["robot_description"]
    bodies.clear()
    assert set_parameter(world, "motion_matcher", "database", string(str(other_layout))).successful
    try:
        layouts = world.client.received["feature_layout"]
        assert world.client.spin_until(lambda: layouts and tuple(layouts[-1].trajectory_times) == TIMES, PATIENCE_S)
        assert any(trajectory_times() == list(TIMES) for _ in range(20))
        assert world.client.spin_until(lambda: bool(bodies), PATIENCE_S)
        body = bodies[-1].data
        check_fields([(layouts[-1], read_database(other_layout).layout)], LAYOUT)
        frames, poses = world.walk_without_loss(3.0, epoch=30)
        agree(world, frames, poses, other_layout)
        assert body.count("<cylinder") > 15 and "nan" not in body and 'length="0.0000"' not in body
    finally:
        assert set_parameter(world, "motion_matcher", "database", string("")).successful
    assert any(trajectory_times() == usual for _ in range(20))


def test_gamepad_and_path_follow_the_layout_and_do_not_ask_for_a_calibration(ros, tmp_path, other_layout):
    """The user's way: `control:=joystick database:=…`; the matcher publishes the layout."""
    clients, processes = [], []
    try:
        for control in ("joystick", "path"):
            clients.append(Client(control, ("trajectory", "matched_pose")))
            clients[-1].node.destroy_publisher(clients[-1].trackers)
            for name, more in ((f"{control}_control", {}), ("motion_matcher", {"database": str(other_layout)})):
                processes.append(NodeProcess(name, control, tmp_path / f"{control}_{name}", **more))
        for process in processes:
            process.wait_ready()
        for client in clients:
            heard = client.received["trajectory"]
            assert client.spin_until(lambda h=heard: h and np.allclose(h[-1].times, TIMES), PATIENCE_S)
            assert client.spin_until(lambda c=client: bool(c.received["matched_pose"]), PATIENCE_S)
        for process in processes:
            assert process.stop() == 0, process.said()
            assert "calibrat" not in process.said() and "tracker_bridge" not in process.said(), process.said()
        assert "usual size" in processes[1].said() and "usual size" in processes[3].said()
    finally:
        for process in processes:
            process.kill()
        for client in clients:
            client.close()


def test_parameters_describe_themselves(world):
    request = DescribeParameters.Request(names=["quality"])
    answer = world.client.call(DescribeParameters, f"/{world.avatar}/motion_matcher/describe_parameters", request)
    assert "smooth" in answer.descriptors[0].description
    assert answer.descriptors[0].floating_point_range[0].to_value > 0


def test_a_weight_changes_while_running(world):
    assert set_parameter(world, "motion_matcher", "responsiveness", double(2.0)).successful
    assert set_parameter(world, "motion_matcher", "responsiveness", double(1.0)).successful


def test_a_wrong_value_is_refused_with_the_reason(world):
    text = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value="left_knee=1.0")
    answer = set_parameter(world, "motion_matcher", "weights", text)
    assert not answer.successful
    assert "left_foot_position" in answer.reason


def test_a_parameter_out_of_range_is_refused(world):
    answer = set_parameter(world, "motion_matcher", "quality", double(-1.0))
    assert not answer.successful


def test_a_missing_database_is_refused_and_the_old_one_stays(world):
    text = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value="/nowhere/x.mmdb")
    answer = set_parameter(world, "motion_matcher", "database", text)
    assert not answer.successful
    assert "/nowhere/x.mmdb" in answer.reason
    world.forget()
    assert world.client.spin_until(lambda: world.walk(0.3) and world.fresh_poses(), PATIENCE_S)


def test_the_engine_changes_while_running(world):
    world.walk(0.1)
    for engine in ("learned", "state_machine", "search"):
        text = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=engine)
        world.forget()
        assert set_parameter(world, "motion_matcher", "engine", text).successful
        match = first_match(world)  # the state machine does not search
        assert match.reason == {"learned": "engine", "state_machine": "", "search": "start"}[engine]
        assert world.client.spin_until(lambda: bool(world.fresh_poses()), PATIENCE_S)
        assert match.engine == world.fresh_poses()[-1].engine == engine


def first_match(world):
    """Return the first match of a short walk."""
    sent = world.walk(0.3)

    def matches():
        return [m for m in world.client.received["match"] if stamp_from_ros(m.header.stamp) >= sent[0]]

    assert world.client.spin_until(lambda: bool(matches()), PATIENCE_S)
    return matches()[0]


@pytest.mark.parametrize("structure", ["brute", "tree"])
def test_the_search_structure_changes_while_running(world, structure):
    text = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=structure)
    world.forget()
    assert set_parameter(world, "motion_matcher", "search_structure", text).successful
    match = first_match(world)
    assert (match.engine, match.search_structure, match.reason) == ("search", structure, "search_structure")


def test_a_former_value_is_refused_with_the_new_one(world):
    text = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value="tree")
    answer = set_parameter(world, "motion_matcher", "engine", text)
    assert not answer.successful and "search_structure: tree" in answer.reason


def test_a_missing_learned_engine_is_refused(world):
    text = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value="/nowhere/x.onnx")
    assert set_parameter(world, "motion_matcher", "model", text).successful  # not in use yet
    learned = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value="learned")
    answer = set_parameter(world, "motion_matcher", "engine", learned)
    assert not answer.successful
    assert "/nowhere/x.onnx" in answer.reason
    ours = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value="")
    assert set_parameter(world, "motion_matcher", "model", ours).successful


def test_each_node_of_the_chain_reports_its_health(world):
    wanted = {"rate_hz", "latency_p99_ms", "dropped", "refused", "search_ms", "height_band"}

    def all_report() -> bool:
        names = {s.name.split("/")[-1]: s for m in world.client.received["/diagnostics"] for s in m.status}
        return set(names) >= set(world.nodes) and wanted <= {v.key for v in names["motion_matcher"].values}

    world.forget()
    assert world.client.spin_until(lambda: world.walk(0.2) and all_report(), PATIENCE_S)


def test_stamps_of_a_recording_are_named_as_such_and_not_taken_for_latency(world):
    """Publish old stamps, as `ros2 bag play` does without --clock."""
    world.forget()
    ago_ns = 1_504_510_000_000  # 1505 s, also when a message arrives 0.9 s late

    def reported() -> list:
        statuses = [s for m in world.client.received["/diagnostics"] for s in m.status]
        return [s for s in statuses if s.name.endswith("orientation_predictor") and "recording" in s.message]

    try:
        frames = itertools.cycle(world.frames(0.0, 2.0))

        def sent_and_reported() -> bool:
            frame = next(frames)
            frame.stamp_ns = world.client.now_ns() - ago_ns
            frame.sampled_ns[frame.state != LOST] = frame.stamp_ns
            world.client.send(frame)
            return world.client.spin_until(lambda: bool(reported()), 1 / 60)

        assert world.client.spin_until(sent_and_reported, PATIENCE_S)
        status = reported()[0]
        assert "1505 s old" in status.message
        latency = {v.key: v.value for v in status.values}["latency_p99_ms"]
        assert latency == "unknown" or float(latency) < 10_000
    finally:
        world.reset_all()


@pytest.mark.parametrize("name", ["tracker_bridge", "joystick_control", "path_control", "visualizer"])
def test_a_node_starts_alone_and_ends_cleanly(name, tmp_path):
    with NodeProcess(name, "alone", tmp_path / "log") as process:
        process.wait_ready()
        assert process.stop() == 0, process.said()


def test_a_node_whose_time_stands_still_ends_on_ctrl_c(tmp_path):
    """After a replay has ended, no timer of simulated time wakes the node."""
    with NodeProcess("path_control", "still", tmp_path / "log", use_sim_time=True) as process:
        process.wait_ready()
        assert process.stop() == 0, process.said()


def test_a_stick_moves_and_one_that_is_not_a_number_is_refused(ros, tmp_path):
    client = Client("stick", ("trajectory", "/diagnostics"))
    with NodeProcess("joystick_control", "stick", tmp_path / "log") as process:
        process.wait_ready()
        commands, sticks = client.publisher("cmd_vel"), client.publisher("joy")

        def moves() -> bool:
            commands.publish(Twist(linear=Vector3(x=1.0)))
            client.spin(0.05)
            return any(m.velocity[0] > 0.5 for m in client.received["trajectory"][-1:])

        def refuses() -> bool:
            sticks.publish(Joy(axes=[math.nan] * 6))
            client.spin(0.05)
            return any("NaN" in s.message for m in client.received["/diagnostics"] for s in m.status)

        assert client.spin_until(moves, PATIENCE_S)
        assert client.spin_until(refuses, PATIENCE_S), "no node reported it"
        last = client.received["trajectory"][-1]
        assert np.isfinite([*last.position, *last.velocity]).all()
        assert process.stop() == 0, process.said()
    client.close()


def test_a_node_with_a_wrong_start_value_says_so_and_ends(tmp_path):
    with NodeProcess("motion_matcher", "wrong", tmp_path / "log", database="/nowhere/x.mmdb") as process:
        assert process.process.wait(PATIENCE_S) == 2
    assert "/nowhere/x.mmdb" in process.said()
    assert "Traceback" not in process.said()


def test_damage_that_the_background_check_finds_is_reported(ros, tmp_path):
    damaged = tmp_path / "damaged.mmdb"
    data = bytearray(default_database_path().read_bytes())
    data[len(data) // 2] ^= 1  # in the poses, not in the features
    damaged.write_bytes(data)
    with (
        NodeProcess("motion_matcher", "damaged", tmp_path / "log", database=str(damaged)) as process,
        closing(Client("damaged", ("/diagnostics",))) as client,
    ):
        process.wait_ready()

        def reported() -> bool:
            statuses = [s for m in client.received["/diagnostics"] for s in m.status if s.name.startswith("damaged/")]
            return any(s.level == DiagnosticStatus.ERROR and "damaged.mmdb: is damaged" in s.message for s in statuses)

        assert client.spin_until(reported, PATIENCE_S), process.said()
        assert "do not fit their checksum" in process.said()
        assert process.stop() == 0, process.said()


def test_the_harness_covers_the_whole_chain(world):
    chain = {n.name for n in graph.nodes_for("vr")} - {"tracker_bridge"}
    assert chain == set(world.nodes)
