"""Inputs of RViz from a running graph: one TF tree, one world frame, markers per display, links of a robot."""

import signal
import subprocess
import sys
import time
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("mm_ros.msg", reason="the messages are not built")
pytest.importorskip("daqp", reason="daqp is not installed (extra 'robot')")

import rclpy
from graph_harness import START_S, Client
from processes import PATIENCE_S

from mm_ros.ros import graph
from mm_ros.ros.conversions import stamp_from_ros
from mm_ros.ros.qos import listener_qos, message_class
from mm_ros.ros.rviz import MARKERS, rviz_config

AVATAR, WORLD = "seen", "odom"
# Topics published by `mm_ros up` here whose header names the world frame.
FRAMED = [*(t.name for t in graph.TOPICS.values() if t.in_world), "robot_base"]
EXPECTED = ("/tf", "joint_states", "markers", "robot/robot_description", *FRAMED)
OPTIONAL = ("markers/match", "markers/motion", "markers/truth")


def leg(side: str, y: float) -> str:
    out, parent = "", "pelvis"
    for name, child, z in (("hip_pitch", "thigh", 0.0), ("knee", "shin", -0.4), ("ankle", "foot", -0.4)):
        link = f"{side}_{child}"
        out += (
            f'<link name="{link}"/><joint name="{side}_{name}" type="revolute"><parent link="{parent}"/>'
            f'<child link="{link}"/><origin xyz="0 {y} {z}"/><axis xyz="0 1 0"/>'
            '<limit lower="-2" upper="2" effort="1" velocity="1"/></joint>'
        )
        parent, y = link, 0.0
    return out


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """The whole graph in one process, in the frame `odom`, with a robot of two legs."""
    folder = tmp_path_factory.mktemp("rviz")
    urdf, log = folder / "legs.urdf", folder / "log"
    urdf.write_text(f'<robot name="legs"><link name="pelvis"/>{leg("left", 0.1)}{leg("right", -0.1)}</robot>')
    command = ["up", "--avatar", AVATAR, "--world-frame", WORLD, "--visualizer", "--urdf", str(urdf)]
    command += ["-p", "motion_matcher.runners_up=true"]
    rclpy.init()
    client = Client(AVATAR, EXPECTED)
    with log.open("wb") as handle:
        process = subprocess.Popen([sys.executable, "-m", "mm_ros", *command], stdout=handle, stderr=handle)
    try:
        until = time.monotonic() + START_S
        while not all(client.received[t] for t in EXPECTED):
            silent = [t for t, messages in client.received.items() if not messages]
            assert process.poll() is None and time.monotonic() < until, f"{silent}: {log.read_text()}"
            client.spin(0.1)
        yield client
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
        client.close()
        rclpy.try_shutdown()


def transforms(client: Client) -> dict[str, object]:
    return {t.child_frame_id: t for m in client.received["/tf"] for t in m.transforms}


def test_all_of_tf_is_one_tree_below_the_world_frame(client):
    wanted = {f"{AVATAR}/root", f"{AVATAR}/tracker/head", f"{AVATAR}/robot/pelvis"}  # of one node each
    assert client.spin_until(lambda: wanted <= set(transforms(client)), PATIENCE_S)
    parents = {child: t.header.frame_id for child, t in transforms(client).items()}
    assert {p for p in parents.values() if p not in parents} == {WORLD}


@pytest.mark.parametrize("topic", FRAMED)
def test_every_header_names_the_world_frame(client, topic):
    assert {m.header.frame_id for m in client.received[topic]} == {WORLD}


def test_every_marker_is_in_the_world_frame(client):
    frames = {m.header.frame_id for a in client.received["markers"] for m in a.markers}
    assert frames == {WORLD}


def test_the_links_of_a_robot_are_on_tf_as_its_joints_say(client):
    def both():
        states = {stamp_from_ros(m.header.stamp): m for m in client.received["joint_states"]}
        links = [t for m in client.received["/tf"] for t in m.transforms if t.child_frame_id.endswith("/left_shin")]
        return [(t, states[at]) for t in links if (at := stamp_from_ros(t.header.stamp)) in states]

    assert client.spin_until(lambda: bool(both()), PATIENCE_S)
    shin, state = both()[-1]
    assert shin.header.frame_id == f"{AVATAR}/robot/left_thigh"
    angle = state.position[list(state.name).index("left_knee")]
    q = shin.transform.rotation
    assert [shin.transform.translation.z, q.x, q.z] == pytest.approx([-0.4, 0.0, 0.0])
    assert [q.w, q.y] == pytest.approx([np.cos(angle / 2), np.sin(angle / 2)], abs=1e-6)


def test_rviz_finds_all_links_of_a_robot(client):
    """RViz looks for the frame `TF Prefix` + "/" + link, in rviz_default_plugins/robot/tf_link_updater.cpp."""
    displays = yaml.safe_load(rviz_config([AVATAR], WORLD, robot=True))["Visualization Manager"]["Displays"]
    (robot,) = (d for d in displays if d["Name"] == "Robot")
    assert robot["Description Topic"]["Value"] == f"/{AVATAR}/robot/robot_description"
    description = client.received["robot/robot_description"][-1].data
    links = {f"{robot['TF Prefix']}/{link.get('name')}" for link in ElementTree.fromstring(description).iter("link")}
    assert len(links) == 7
    assert client.spin_until(lambda: links <= set(transforms(client)), PATIENCE_S)


def namespaces(arrays: list) -> set[str]:
    return {m.ns for a in arrays for m in a.markers}


def test_markers_are_in_the_namespaces_that_rviz_lists(client):
    expected = {d.topic: set(d.namespaces) for d in MARKERS}["markers"]
    client.spin_until(lambda: expected <= namespaces(client.received["markers"]), PATIENCE_S)
    assert namespaces(client.received["markers"]) == expected


def test_no_array_has_a_marker_twice(client):
    """Otherwise RViz shows "Duplicate Marker Check" and draws only the last one."""
    for array in client.received["markers"]:
        assert len({(m.ns, m.id) for m in array.markers}) == len(array.markers)


def test_a_display_that_is_switched_on_is_drawn_and_off_it_costs_no_subscription(client):
    def readers() -> int:
        return int(client.node.count_subscribers(f"/{AVATAR}/truth"))

    ours = readers()
    extra = Client(AVATAR, ())
    try:
        arrays: dict[str, list] = {topic: [] for topic in OPTIONAL}
        kind = graph.TOPICS["markers"].type
        for topic in OPTIONAL:
            extra.node.create_subscription(
                message_class(kind), topic, arrays[topic].append, listener_qos(graph.TOPICS[topic].qos)
            )
        for display in (d for d in MARKERS if d.topic in OPTIONAL):
            wanted = set(display.namespaces)
            drawn = extra.spin_until(lambda d=display, w=wanted: w <= namespaces(arrays[d.topic]), PATIENCE_S)
            assert drawn, display.title
            frames = {m.header.frame_id for a in arrays[display.topic] for m in a.markers}
            assert frames == {WORLD}, display.title
        assert client.spin_until(lambda: readers() == ours + 1, PATIENCE_S)
        declared = {f"/{AVATAR}/{name}" for name in graph.node("visualizer").inputs}

        def read() -> set[str]:
            found = client.node.get_subscriber_names_and_types_by_node("visualizer", f"/{AVATAR}")
            return {name for name, _ in found}

        assert client.spin_until(lambda: declared <= read(), PATIENCE_S), declared - read()
    finally:
        extra.close()
    assert client.spin_until(lambda: readers() == ours, PATIENCE_S)
