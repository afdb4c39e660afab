"""The real nodes, each in its own process, over real DDS."""

import math

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("mm_ros.msg", reason="the messages are not built")

import rclpy
from geometry_msgs.msg import Twist, Vector3
from graph_harness import Client, NodeProcess, World, all_finite
from processes import PATIENCE_S
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import DescribeParameters, SetParameters
from sensor_msgs.msg import Joy

from mm_ros import graph
from mm_ros.core.avatar import Avatar
from mm_ros.core.orientation import OrientationSettings
from mm_ros.io.database import read_database
from mm_ros.io.default_database import default_database_path
from mm_ros.io.onnx_model import load_facing_model
from mm_ros.ros.conversions import avatar_pose_from_ros, stamp_from_ros


@pytest.fixture(scope="module", autouse=True)
def ros():
    rclpy.init()
    yield
    rclpy.try_shutdown()


@pytest.fixture(scope="module")
def world(ros, tmp_path_factory):
    default_database_path()  # made here, not by the nodes against their time
    topics = ("pose", "/tf", "skeleton", "/diagnostics")
    patient = {"silent_s": 60.0}  # a busy machine is no reason to come to a stand
    w = World("nodes", tmp_path_factory.mktemp("nodes"), topics, trajectory_predictor=patient)
    yield w
    codes = w.close()
    assert set(codes.values()) == {0}, {n: w.nodes[n].said() for n, c in codes.items() if c}


def double(value: float) -> ParameterValue:
    return ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=value)


def set_parameter(world, node, name, value):
    request = SetParameters.Request(parameters=[Parameter(name=name, value=value)])
    return world.client.call(SetParameters, f"/{world.avatar}/{node}/set_parameters", request).results[0]


def test_each_sample_becomes_a_pose_with_its_stamp(world):
    frames, poses = world.walk_without_loss(2.0)
    assert [stamp_from_ros(m.header.stamp) for m in poses] == [f.stamp_ns for f in frames]


def test_tf_holds_all_joints_under_the_avatars_name(world):
    world.forget()
    world.walk(0.5)
    world.settle()
    mine = [m for m in world.client.received["/tf"] if m.transforms[0].child_frame_id.startswith("nodes/")]
    tf = mine[-1]
    assert len(tf.transforms) == 23
    assert tf.transforms[0].header.frame_id == "map"
    assert tf.transforms[0].child_frame_id == "nodes/root"
    assert {t.header.frame_id for t in tf.transforms[1:]} <= {t.child_frame_id for t in tf.transforms}
    assert all_finite(tf)


def test_graph_and_chain_give_the_same_poses_bit_for_bit(world):
    frames, poses = world.walk_without_loss(3.0, epoch=9)
    got = [avatar_pose_from_ros(m) for m in poses]
    model = load_facing_model(OrientationSettings())
    avatar = Avatar(read_database(default_database_path()), world.calibration, model=model)
    for frame, pose in zip(frames, got, strict=True):
        expected = avatar.step(frame)
        for name in ("root", "positions", "rotations", "contacts", "locked"):
            np.testing.assert_array_equal(getattr(pose, name), getattr(expected, name), err_msg=name)


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
    world.walk(0.3)
    world.settle()
    assert world.fresh_poses()


def test_the_engine_changes_while_running(world):
    for engine in ("learned", "tree"):
        text = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=engine)
        assert set_parameter(world, "motion_matcher", "engine", text).successful
        world.forget()
        world.walk(0.3)
        world.settle()
        assert world.fresh_poses()


def test_a_missing_learned_engine_is_refused(world):
    text = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value="/nowhere/x.onnx")
    assert set_parameter(world, "motion_matcher", "model", text).successful  # not asked for yet
    learned = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value="learned")
    answer = set_parameter(world, "motion_matcher", "engine", learned)
    assert not answer.successful
    assert "/nowhere/x.onnx" in answer.reason
    ours = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value="")
    assert set_parameter(world, "motion_matcher", "model", ours).successful


def test_each_node_of_the_chain_reports_its_health(world):
    world.forget()
    world.walk(2.5)
    names = {s.name.split("/")[-1]: s for m in world.client.received["/diagnostics"] for s in m.status}
    assert set(names) >= set(world.nodes)
    keys = {v.key for v in names["motion_matcher"].values}
    assert {"rate_hz", "latency_p99_ms", "dropped", "refused", "search_ms", "height_band"} <= keys


@pytest.mark.parametrize("name", ["tracker_bridge", "joystick_control", "path_control", "visualizer"])
def test_a_node_starts_alone_and_ends_cleanly(name, tmp_path):
    with NodeProcess(name, "alone", tmp_path / "log") as process:
        process.wait_ready()
        assert process.stop() == 0, process.said()


def test_a_stick_moves_and_one_that_is_not_a_number_is_refused(ros, tmp_path):
    client = Client("stick", ("trajectory", "/diagnostics"))
    with NodeProcess("joystick_control", "stick", tmp_path / "log") as process:
        process.wait_ready()
        commands, sticks = client.publisher("cmd_vel"), client.publisher("joy")
        for _ in range(200):
            commands.publish(Twist(linear=Vector3(x=1.0)))
            client.spin(0.05)
            if client.received["trajectory"] and client.received["trajectory"][-1].velocity[0] > 0.5:
                break
        assert client.received["trajectory"][-1].velocity[0] > 0.5
        for _ in range(200):
            sticks.publish(Joy(axes=[math.nan] * 6))
            client.spin(0.05)
            if any("NaN" in s.message for m in client.received["/diagnostics"] for s in m.status):
                break
        else:
            raise AssertionError("nobody said so")
        last = client.received["trajectory"][-1]
        assert np.isfinite([*last.position, *last.velocity]).all()
        assert process.stop() == 0, process.said()
    client.close()


def test_a_node_with_a_wrong_start_value_says_so_and_ends(tmp_path):
    with NodeProcess("motion_matcher", "wrong", tmp_path / "log", database="/nowhere/x.mmdb") as process:
        assert process.process.wait(PATIENCE_S) == 2
    assert "/nowhere/x.mmdb" in process.said()
    assert "Traceback" not in process.said()


def test_the_harness_covers_the_whole_chain(world):
    chain = {n.name for n in graph.nodes_for("vr")} - {"tracker_bridge"}
    assert chain == set(world.nodes)
