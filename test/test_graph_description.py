"""The graph is described once: YAML, docs, RViz file, launch arguments and QoS agree with mm_ros/graph.py."""

import json
import time
from pathlib import Path

import pytest
import yaml

from mm_ros import graph
from mm_ros.core.errors import MmRosError

rclpy = pytest.importorskip("rclpy", reason="rclpy is not installed")

from processes import wait_until
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import QoSCompatibility, qos_check_compatible

from mm_ros.ros import describe
from mm_ros.ros.qos import listener_qos, message_class, publisher_qos, subscription_qos
from mm_ros.share import share_folder

TOP = Path(__file__).resolve().parents[1]
FACTS = json.loads((Path(__file__).parent / "data" / "rviz_facts.json").read_text())


@pytest.fixture(scope="module")
def share() -> Path:
    return share_folder()


def test_every_topic_of_a_node_is_described():
    for node in graph.NODES:
        assert set(node.inputs + node.outputs) <= set(graph.TOPICS), node.name


def test_every_topic_has_a_message_class():
    for topic in graph.TOPICS.values():
        assert message_class(topic.type).__name__ == topic.type.split("/")[-1]


@pytest.mark.parametrize("topic", graph.TOPICS.values(), ids=lambda t: t.name)
@pytest.mark.parametrize("subscriber", [subscription_qos, listener_qos])
def test_publisher_and_subscriber_of_a_topic_are_compatible(topic, subscriber):
    found, _ = qos_check_compatible(publisher_qos(topic.qos), subscriber(topic.qos))
    assert found.value == QoSCompatibility.OK.value


@pytest.mark.parametrize("topic", graph.TOPICS.values(), ids=lambda t: t.name)
def test_a_reliable_stream_keeps_two_seconds_and_the_chain_keeps_few(topic):
    streams = topic.qos.reliable and topic.rate != "when it changes"
    assert publisher_qos(topic.qos).depth == listener_qos(topic.qos).depth == (256 if streams else topic.qos.depth)
    assert subscription_qos(topic.qos).depth <= (100 if topic.name == "/tf" else 5)


def test_a_listener_that_stalls_gets_all_and_the_chain_gets_the_newest():
    context = rclpy.Context()
    rclpy.init(context=context)
    try:
        node = rclpy.create_node("stalls", context=context)
        kind, qos = message_class(graph.TOPICS["pose"].type), graph.TOPICS["pose"].qos
        got = {"chain": [], "listener": []}
        for name, profile in (("chain", subscription_qos(qos)), ("listener", listener_qos(qos))):
            node.create_subscription(kind, "pose", lambda m, name=name: got[name].append(m.header.stamp.sec), profile)
        publisher = node.create_publisher(kind, "pose", publisher_qos(qos))
        wait_until(lambda: publisher.get_subscription_count() == 2, 30.0)
        message = kind()
        for message.header.stamp.sec in range(200):  # more than two seconds, and not one of them taken
            publisher.publish(message)
        assert publisher.wait_for_all_acked()
        executor = SingleThreadedExecutor(context=context)
        executor.add_node(node)
        until = time.monotonic() + 30.0
        while any(stamps[-1:] != [199] for stamps in got.values()) and time.monotonic() < until:
            executor.spin_once(0.1)
        assert got == {"listener": list(range(200)), "chain": list(range(195, 200))}
    finally:
        rclpy.shutdown(context=context)


@pytest.mark.parametrize("control", ["vr", "joystick", "path"])
def test_exactly_one_node_publishes_the_trajectory(control):
    makers = [n.name for n in graph.nodes_for(control) if "trajectory" in n.outputs]
    assert len(makers) == 1


def test_an_unknown_control_is_refused_with_the_choices():
    with pytest.raises(MmRosError, match="vr, joystick, path"):
        graph.nodes_for("telepathy")


def test_an_unknown_node_is_refused_with_the_names():
    with pytest.raises(MmRosError, match="motion_matcher"):
        graph.node("motion_macher")


def test_names_of_file_class_and_node_agree():
    for node in graph.NODES:
        assert node.name == node.node_class().NAME


def test_the_yaml_holds_all_settings_and_no_others(share):
    blocks = yaml.safe_load((share / "config" / "avatar.yaml").read_text())
    assert set(blocks) == {f"/**/{n.name}" for n in graph.NODES}
    for node in graph.NODES:
        written = blocks[f"/**/{node.name}"]["ros__parameters"]
        declared = {k: v for kind in node.settings_types() for k, v in kind.defaults().items()}
        assert {k: tuple(v) if isinstance(v, list) else v for k, v in written.items()} == declared, node.name


@pytest.mark.skipif(not (TOP / "package.xml").exists(), reason="runs in a checkout only")
def test_generated_files_are_up_to_date():
    assert (TOP / "config" / "avatar.yaml").read_text() == describe.parameters_yaml(), "run tools/describe.py"
    for page in (TOP / "docs" / "graph.md", TOP / "README.md"):
        assert describe.filled(page.read_text()) == page.read_text(), f"{page.name}: run tools/describe.py"


def test_each_parameter_is_named_once_in_a_node():
    for node in graph.NODES:
        names = [k for kind in node.settings_types() for k in kind.specs()]
        assert len(names) == len(set(names)), node.name


def rviz_displays(share: Path) -> list[dict]:
    return yaml.safe_load((share / "rviz" / "avatar.rviz").read_text())["Visualization Manager"]["Displays"]


def test_rviz_knows_each_display_tool_panel_and_view(share):
    text = yaml.safe_load((share / "rviz" / "avatar.rviz").read_text())
    manager = text["Visualization Manager"]
    used = [d["Class"] for d in manager["Displays"] + manager["Tools"]] + [
        manager["Views"]["Current"]["Class"]
    ]
    assert set(used) <= set(FACTS["plugins"])
    panels = {p["Class"].removeprefix("rviz_common/") for p in text["Panels"]}
    assert panels <= set(FACTS["panels"])


def test_rviz_knows_each_property_of_the_displays(share):
    for display in rviz_displays(share):
        kind = display["Class"].split("/")[1]
        known = set(FACTS["properties"][kind]) | set(FACTS["display"])
        assert set(display) <= known, kind
        for nested in ("Topic", "Description Topic"):
            if isinstance(display.get(nested), dict):
                assert set(display[nested]) <= set(FACTS["qos"]) | {"Value"}


def test_rviz_knows_each_property_of_the_view(share):
    view = yaml.safe_load((share / "rviz" / "avatar.rviz").read_text())["Visualization Manager"]["Views"][
        "Current"
    ]
    assert set(view) <= set(FACTS["properties"]["Orbit"]) | {"Class", "Name", "Value"}


def test_rviz_listens_to_our_topics_with_their_qos(share):
    for display in rviz_displays(share):
        topic = display.get("Topic", display.get("Description Topic"))
        if isinstance(topic, dict):
            qos = graph.TOPICS[topic["Value"]].qos
            assert topic["Reliability Policy"] == ("Reliable" if qos.reliable else "Best Effort")
            assert topic["Durability Policy"] == ("Transient Local" if qos.latched else "Volatile")


def test_launch_arguments_match_the_graph():
    from mm_ros.ros import launching

    by_name = {a.name: a for a in launching.ARGUMENTS}
    assert by_name["control"].choices == ("vr", "joystick", "path")
    assert all(a.description for a in launching.ARGUMENTS)
    given = {a.name: a.default for a in launching.ARGUMENTS}
    for node in graph.NODES:
        declared = {k for kind in node.settings_types() for k in kind.specs()} | {"use_sim_time"}
        assert set(launching.overrides(node.name, given)) <= declared, node.name


def test_a_missing_database_is_refused_with_what_to_do(tmp_path):
    from mm_ros.ros import launching

    given = {a.name: a.default for a in launching.ARGUMENTS} | {"database": str(tmp_path / "none.mmdb")}
    with pytest.raises(MmRosError, match="mm_ros import"):
        launching.check(given)
