"""Options of `mm_ros up` reach the nodes."""

import argparse
import os
import signal

import pytest

pytest.importorskip("rclpy")
import rclpy

from mm_ros.base.errors import MmRosError
from mm_ros.cli import up


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    up.add_arguments(parser)
    return parser.parse_args(words)


def values_on(node: str, *words: str) -> dict[str, object]:
    """Parameters with which a node of this name starts, as parsed by rclpy."""
    args = parsed(*words)
    context = rclpy.context.Context()
    rclpy.init(args=up.ros_arguments(args), context=context)
    try:
        made = rclpy.create_node(node, context=context, parameter_overrides=up.overrides(node, args))
        assert made.get_namespace() == f"/{args.avatar}"
        out = {name: p.value for name, p in made._parameter_overrides.items()}
        made.destroy_node()
        return out
    finally:
        rclpy.try_shutdown(context=context)


def test_options_reach_a_node_in_a_namespace():
    words = ("--avatar", "anna", "--trackers", "mocap", "--path", "a b.bvh", "--seed", "3", "--place", "0,5")
    got = values_on("tracker_bridge", *words)
    assert got == {"source": "mocap", "path": "a b.bvh", "seed": 3, "place": [0.0, 5.0]}
    assert values_on("motion_matcher", "--database", "mine.mmdb") == {"database": "mine.mmdb"}
    assert values_on("robot_follower", "--urdf", "r.urdf", "--use-sim-time") == {
        "urdf": "r.urdf", "use_sim_time": True}  # fmt: skip


def test_options_that_are_not_given_are_left_to_the_file(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("/**/tracker_bridge:\n  ros__parameters:\n    source: openxr\n    seed: 9\n")
    assert values_on("tracker_bridge", "--config", str(file)) == {"source": "openxr", "seed": 9}
    assert values_on("tracker_bridge", "--config", str(file), "--seed", "0")["seed"] == 0


def test_every_option_is_a_parameter_of_its_node():
    from mm_ros.ros import graph

    args = parsed("--trackers", "mocap", "--path", "x", "--seed", "1", "--place", "0,1", "--database", "d",
                  "--urdf", "u", "--urdf-t-pose", "t=1", "--world-frame", "w")  # fmt: skip
    for node in graph.NODES:
        known = {name for kind in (*node.settings_types(), graph.FrameSettings) for name in kind.specs()}
        assert {p.name for p in up.overrides(node.name, args)} <= known


def test_an_invalid_place_is_refused():
    for text in ("here", "1", "1,2,3", "nan,0", "1e300,0", "0,-10001"):
        with pytest.raises(MmRosError, match="expected x,y"):
            up.overrides("tracker_bridge", parsed("--place", text))


@pytest.mark.parametrize("name", ["ü x", "9lives", "a//b"])
def test_an_invalid_namespace_is_refused(name):
    with pytest.raises(SystemExit):
        parsed("--avatar", name)


def test_a_launch_leaves_arguments_that_are_not_given_to_its_file():
    from mm_ros.ros import graph, launching

    plain = {a.name: a.default for a in launching.ARGUMENTS}
    for node in graph.NODES:
        assert launching.overrides(node.name, plain) == {"use_sim_time": False}
    said = launching.overrides("tracker_bridge", {**plain, "trackers": "mocap", "seed": "0", "place": "0.0,5.0"})
    assert said == {"use_sim_time": False, "source": "mocap", "seed": 0, "place": [0.0, 5.0]}


@pytest.mark.parametrize(
    ("line", "says"),
    [("rate: fast", "rate"), ("rate: 1.0e9", "rate"), ("place: [a, b]", "place"), ("[", "params file")],
)
def test_a_mistake_in_a_parameter_file_is_reported_in_one_sentence(line, says, tmp_path, capfd):
    from mm_ros.ros.node import run_all
    from mm_ros.ros.nodes.tracker_bridge import TrackerBridge

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    file = tmp_path / "mine.yaml"
    file.write_text(f"/**/tracker_bridge:\n  ros__parameters:\n    {line}\n")
    try:
        assert run_all([TrackerBridge], ["--ros-args", "-r", "__ns:=/anna", "--params-file", str(file)]) == 2
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    said = capfd.readouterr().err
    assert "mm_ros: " in said and says in said and "Traceback" not in said


@pytest.mark.parametrize(
    ("text", "says"),
    [("a: &a\n  b: *a\n", "nested too deeply"), ("[" * 3000, "nested too deeply"), (None, "not a regular file")],
)
def test_a_file_of_parameters_that_never_ends_is_refused(text, says, tmp_path):
    """Before ROS reads it: the world frame of all nodes is looked up in it."""
    file = tmp_path / "mine.yaml"
    os.mkfifo(file) if text is None else file.write_text(text)
    with pytest.raises(MmRosError, match=says) as refused:
        up.overrides("tracker_bridge", parsed("--config", str(file)))
    assert str(refused.value).count(str(file)) == 1


@pytest.mark.parametrize("value", ["[", "2020-13-45", "{a: b}", "!!python/object:os.system", "9" * 30, "[1, a]"])
def test_a_value_that_is_none_of_ros_is_left_to_the_node(value):
    assert values_on("motion_matcher", "-p", f"motion_matcher.quality={value}") == {"quality": value}


def test_integers_for_float_parameters_and_misspelt_names_in_a_file(tmp_path, capfd):
    from mm_ros.base.settings import Settings
    from mm_ros.ros.nodes.tracker_bridge import BridgeSettings
    from mm_ros.ros.parameters import LiveSettings

    file = tmp_path / "mine.yaml"
    file.write_text("/**/bridge:\n  ros__parameters:\n    rate: 72\n    place: [1, 2]\n    sede: 4\n")
    context = rclpy.context.Context()
    rclpy.init(args=["--ros-args", "-r", "__ns:=/anna", "--params-file", str(file)], context=context)
    node = rclpy.create_node("bridge", context=context)
    live: Settings = LiveSettings(node, [BridgeSettings], lambda: None).current[0]
    node.destroy_node()
    rclpy.try_shutdown(context=context)
    assert (live.rate, live.place) == (72.0, (1.0, 2.0))
    assert "did you mean 'seed'?" in capfd.readouterr().err


def test_single_parameters_of_nodes_are_given_by_name():
    pairs = ("motion_matcher.quality=2", "motion_matcher.engine=learned", "tracker_bridge.place=[0.0, 5.0]")
    words = [word for pair in pairs for word in ("-p", pair)]
    assert values_on("motion_matcher", *words) == {"quality": 2.0, "engine": "learned"}
    assert values_on("tracker_bridge", *words) == {"place": [0.0, 5.0]}
    assert values_on("tracker_bridge", "-p", "tracker_bridge.place=[0.5, 5]") == {"place": [0.5, 5.0]}


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("quality=2", "expected NODE.NAME=VALUE"),
        ("motion_matcher.qualty=2", "no parameter 'qualty'. Parameters: .*quality"),
        ("matcher.quality=2", "node 'matcher' does not exist. Nodes: .*motion_matcher"),
    ],
)
def test_an_unknown_parameter_is_reported_in_one_sentence(pair, said):
    with pytest.raises(MmRosError, match=said):
        up.overrides("tracker_bridge", parsed("-p", pair))


def test_zero_avatars_are_refused():
    from mm_ros.ros.several import side_by_side

    with pytest.raises(SystemExit):
        parsed("--avatars", "0")
    with pytest.raises(MmRosError, match="1 to 64"):  # as a launch argument
        side_by_side("avatar", 0, 0)


def test_host_and_names_reach_the_page_as_they_were_typed(monkeypatch):
    pytest.importorskip("viser")
    from mm_ros.cli.main import main

    started = []
    monkeypatch.setattr("mm_ros.ros.node.run_all", lambda makers, args=None: started.extend(makers) or 0)
    assert main(["view", "--host", "::1", "--show", "true"]) == 0
    given = {p.name: p.value for p in started[0].keywords["parameter_overrides"]}
    assert given == {"host": "::1", "port": 8080, "avatars": "true"}
