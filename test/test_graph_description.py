"""The graph is described once: YAML, docs, RViz file, launch arguments and QoS agree with mm_ros/graph.py."""

import json
from pathlib import Path

import pytest
import yaml

from mm_ros import graph
from mm_ros.core.errors import MmRosError

rclpy = pytest.importorskip("rclpy", reason="rclpy is not installed")

from rclpy.qos import QoSCompatibility, qos_check_compatible

from mm_ros.ros import describe
from mm_ros.ros.qos import message_class, publisher_qos, subscription_qos
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
def test_publisher_and_subscriber_of_a_topic_are_compatible(topic):
    assert (
        qos_check_compatible(publisher_qos(topic.qos), subscription_qos(topic.qos))[0].value
        == QoSCompatibility.OK.value
    )


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
