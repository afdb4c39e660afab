"""The graph is described once: YAML, docs, RViz file, launch arguments and QoS agree with mm_ros/ros/graph.py."""

import json
import runpy
import sys
import time
import types
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from mm_ros.base.errors import MmRosError
from mm_ros.ros import graph
from mm_ros.trajectory import CONTROLS

rclpy = pytest.importorskip("rclpy", reason="rclpy is not installed")

from processes import wait_until
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import QoSCompatibility, qos_check_compatible

from mm_ros.base.share import share_folder
from mm_ros.robot.figure import read_robot
from mm_ros.robot.guard import GuardSettings
from mm_ros.ros import describe, launching, rviz
from mm_ros.ros.nodes.visualizer import SOURCES
from mm_ros.ros.qos import listener_qos, message_class, publisher_qos, subscription_qos
from mm_ros.ros.replay import ticks_kept
from mm_ros.sessions.session import INPUTS

TOP = Path(__file__).resolve().parents[2]
FACTS = json.loads((Path(__file__).parents[1] / "data" / "rviz_facts.json").read_text())


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
    hz = fastest_hz(topic) if topic.qos.reliable else 0.0
    writers = 12 * sum(topic.name in node.outputs for node in graph.NODES) if topic.name == "/tf" else 1
    assert publisher_qos(topic.qos).depth >= 2.0 * hz
    assert listener_qos(topic.qos).depth >= 2.0 * hz * writers
    assert subscription_qos(topic.qos).depth <= (100 if topic.name == "/tf" else 5)


def fastest_hz(topic):
    """Rate of a topic with a headset of 144 Hz, a camera of 60 Hz and the fastest commands of a robot.

    A replay publishes /clock 100 times per second and with each message of the session.
    """
    if topic.name == "/clock":
        return 100.0 + sum(fastest_hz(graph.TOPICS[name]) for name in INPUTS)
    fastest_command = {f.name: f.metadata["spec"].high for f in fields(GuardSettings)}["rate"]
    named = {"rate of `trackers`": 144.0, "rate of the camera": 60.0, "parameter `rate`": fastest_command}
    number = topic.rate.split()[0]
    return named.get(topic.rate, float(number) if number.isdecimal() else 0.0)


def test_a_replays_clock_keeps_two_seconds_of_a_session_with_many_messages():
    period_ns = 1_000_000
    messages = [SimpleNamespace(logged_ns=i * period_ns) for i in range(10_000)]
    assert ticks_kept(messages, 1.0) == pytest.approx(2000 + 200, abs=2)
    assert ticks_kept(messages, 2.0) == pytest.approx(4000 + 200, abs=2)


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
        for message.header.stamp.sec in range(200):  # over two seconds of messages, before any is taken
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


def test_a_listener_of_tf_that_stalls_gets_the_messages_of_all_writers():
    """DDS counts the messages of all publishers of a topic together."""
    context = rclpy.Context()
    rclpy.init(context=context)
    try:
        node, got = rclpy.create_node("stalls", context=context), []
        kind, qos = message_class(graph.TOPICS["/tf"].type), graph.TOPICS["/tf"].qos
        node.create_subscription(kind, "tf", got.append, listener_qos(qos), raw=True)
        publishers = [node.create_publisher(kind, "tf", publisher_qos(qos)) for _ in range(4)]
        wait_until(lambda: all(p.get_subscription_count() == 1 for p in publishers), 30.0)
        for _ in range(200):
            for publisher in publishers:
                publisher.publish(kind())
        assert all(p.wait_for_all_acked() for p in publishers)
        executor = SingleThreadedExecutor(context=context)
        executor.add_node(node)
        until = time.monotonic() + 30.0
        while len(got) < 800 and time.monotonic() < until:
            executor.spin_once(0.1)
        assert len(got) == 800
    finally:
        rclpy.shutdown(context=context)


@pytest.mark.parametrize("control", CONTROLS)
def test_exactly_one_node_publishes_the_trajectory(control):
    makers = [n.name for n in graph.nodes_for(control) if "trajectory" in n.outputs]
    assert len(makers) == 1


def test_an_unknown_control_is_refused_with_the_choices():
    with pytest.raises(MmRosError, match="vr, joystick, keyboard, path"):
        graph.nodes_for("telepathy")


def test_an_unknown_node_is_refused_with_the_names():
    with pytest.raises(MmRosError, match="motion_matcher"):
        graph.node("motion_macher")


def test_names_of_file_class_and_node_agree():
    for node in graph.NODES:
        assert node.name == node.node_class().NAME


def test_the_yaml_holds_all_settings_and_no_others(share):
    blocks = yaml.safe_load((share / "config" / "avatar.yaml").read_text())
    assert blocks.pop("/**") == {"ros__parameters": graph.FrameSettings.defaults()}
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
        names = [k for kind in (*node.settings_types(), graph.FrameSettings) for k in kind.specs()]
        assert len(names) == len(set(names)), node.name


def rviz_file(*names: str, **how: Any) -> Any:
    return yaml.safe_load(rviz.rviz_config(names or ("avatar",), **how))


def flat(displays: list[dict]) -> list[dict]:
    return [e for d in displays for e in (d, *flat(d.get("Displays", [])))]


def rviz_displays(*names: str, **how: Any) -> list[dict]:
    return flat(rviz_file(*names, **how)["Visualization Manager"]["Displays"])


def topics_of(displays: list[dict]) -> list[dict]:
    found = [d.get("Topic", d.get("Description Topic")) for d in displays]
    return [t for t in found if isinstance(t, dict)]


def test_the_visualizer_declares_what_it_reads_and_rviz_shows_all_that_it_draws():
    node = graph.node("visualizer")
    assert set(node.inputs) == {source for sources in SOURCES.values() for source in sources}
    assert set(node.outputs) == set(SOURCES)
    drawn = {topic for n in graph.NODES for topic in n.outputs if topic.startswith("markers")}
    assert drawn == {m.topic for m in rviz.MARKERS}


def test_the_rviz_file_is_the_one_that_a_launch_writes(share):
    assert (share / "rviz" / "avatar.rviz").read_text() == rviz.rviz_config(["avatar"]), "run tools/describe.py"


@pytest.mark.parametrize("names", [("avatar",), ("avatar1", "avatar2")])
def test_rviz_knows_each_display_tool_panel_and_view(names):
    text = rviz_file(*names)
    manager = text["Visualization Manager"]
    used = [d["Class"] for d in rviz_displays(*names) + manager["Tools"]] + [manager["Views"]["Current"]["Class"]]
    assert set(used) <= {*FACTS["plugins"], "rviz_common/Group"}
    panels = {p["Class"].removeprefix("rviz_common/") for p in text["Panels"]}
    assert panels <= set(FACTS["panels"])


def test_rviz_knows_each_property_of_the_displays():
    for display in rviz_displays("avatar"):
        kind = display["Class"].split("/")[1]
        known = set(FACTS["properties"][kind]) | set(FACTS["display"])
        assert set(display) <= known, kind
        for nested in ("Topic", "Description Topic"):
            if isinstance(display.get(nested), dict):
                assert set(display[nested]) <= set(FACTS["qos"]) | {"Value"}


def test_rviz_knows_each_property_of_the_view():
    view = rviz_file()["Visualization Manager"]["Views"]["Current"]
    assert set(view) <= set(FACTS["properties"]["Orbit"]) | {"Class", "Name", "Value"}


@pytest.mark.parametrize("names", [("anna",), ("avatar1", "avatar2")])
def test_rviz_listens_to_the_topics_of_each_avatar_with_their_qos(names):
    topics = topics_of(rviz_displays(*names))
    outputs = ("robot_description", *(m.topic for m in rviz.MARKERS))
    assert {t["Value"] for t in topics} == {f"/{name}/{topic}" for name in names for topic in outputs}
    for topic in topics:
        qos = graph.TOPICS[topic["Value"].split("/", 2)[2]].qos
        assert topic["Reliability Policy"] == ("Reliable" if qos.reliable else "Best Effort")
        assert topic["Durability Policy"] == ("Transient Local" if qos.latched else "Volatile")


def test_rviz_takes_the_world_frame_and_follows_the_avatar():
    manager = rviz_file("anna", world_frame="odom")["Visualization Manager"]
    assert manager["Global Options"]["Fixed Frame"] == "odom"
    view = manager["Views"]["Current"]
    assert (view["Class"], view["Target Frame"]) == ("rviz_default_plugins/Orbit", "anna/root")


def test_no_panel_of_rviz_makes_the_left_dock_wide():
    assert not [p for p in rviz_file()["Panels"] if p["Class"] == "rviz_common/Time"]


def test_the_panels_of_rviz_are_shown():
    """RViz 14 does not initialise the variable into which it reads these keys (`loadWindowGeometry`)."""
    geometry = rviz_file()["Window Geometry"]
    assert geometry["Hide Left Dock"] is False and geometry["Hide Right Dock"] is False


def test_one_body_is_shown_and_the_optional_displays_are_off():
    bodies = ("RobotModel", "skeleton", "truth", "matched_pose")
    shown = [d for d in rviz_displays() if d["Enabled"]]
    drawn = [b for d in shown for b in bodies if d["Class"].endswith(b) or d.get("Namespaces", {}).get(b)]
    assert drawn == ["RobotModel"]
    optional = {n for d in rviz_displays() if not d["Enabled"] for n in d.get("Namespaces", {})}
    assert {"truth", "text", "velocity", "features", "candidates"} <= optional


def test_links_of_the_users_robot_have_a_prefix_and_ours_none():
    """RViz joins `TF Prefix` and link with a slash."""
    assert [d["TF Prefix"] for d in rviz_displays("anna") if "TF Prefix" in d] == [""]
    assert [d["TF Prefix"] for d in rviz_displays("anna", robot=True) if "TF Prefix" in d] == ["", "anna/robot"]


@pytest.mark.parametrize("names", [("avatar",), ("avatar1", "avatar2")])
def test_what_rviz_expands_is_there_and_so_are_its_parents(names):
    """`Expanded` holds property names with a count from 1; a property is visible only if its parents are expanded."""
    tree = rviz_file(*names)
    expanded = tree["Panels"][0]["Property Tree Widget"]["Expanded"]
    there = set()

    def walk(displays: list[dict], prefix: str) -> None:
        for d in displays:
            there.add(path := f"{prefix}/{d['Name']}1")
            there.update(f"{path}/{key}1" for key in d if key == "Namespaces")
            walk(d.get("Displays", []), path)

    walk(tree["Visualization Manager"]["Displays"], "")
    assert set(expanded) <= there
    assert {p for e in expanded if (p := e.rpartition("/")[0])} <= set(expanded)


class Made:
    """Stand-in for a launch action that stores its arguments."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.given, self.named = given, named


@pytest.fixture
def launch(monkeypatch, tmp_path, share):
    """Execute a launch file without `ros2 launch`, and return the arguments of each node and process by its name. With
    several avatars, the names of their nodes contain the namespace."""
    actions = (
        "DeclareLaunchArgument", "ExecuteProcess", "OpaqueFunction", "RegisterEventHandler", "SetEnvironmentVariable",
        "Shutdown",
    )
    modules = {
        "launch": {"LaunchDescription": Made}, "launch.event_handlers": {"OnProcessExit": Made}, "launch_ros": {},
        "launch.actions": dict.fromkeys(actions, Made),
        "launch.logging": {"launch_config": types.SimpleNamespace(log_dir=str(tmp_path))},
        "launch_ros.actions": {"Node": Made},
        "launch_ros.parameter_descriptions": {"ParameterValue": lambda value, value_type: value_type(value)},
    }  # fmt: skip
    for name, content in modules.items():
        module = types.ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)

    def start(file: str = "avatar", **arguments: str) -> dict[str, dict]:
        described = runpy.run_path(str(share / "launch" / f"{file}.launch.py"))["generate_launch_description"]()
        *declared, function = described.given[0]
        given = {a.given[0]: a.named["default_value"] for a in declared}
        assert set(arguments) <= set(given)
        context = types.SimpleNamespace(launch_configurations=given | arguments)
        monkeypatch.setattr(launching, "_after", lambda first, then: [first, *then])
        named = [a.named for a in function.named["function"](context)]
        spaces = [f"{n['namespace']}/" if file == "multi" and "namespace" in n else "" for n in named]
        return {s + n.get("executable", n.get("name", "")): n for s, n in zip(spaces, named, strict=True)}

    return start


def opened(rviz2: dict) -> Any:
    return yaml.safe_load(Path(rviz2["arguments"][1]).read_text())["Visualization Manager"]


def test_a_launch_starts_rviz_with_a_file_for_its_avatar_on_the_time_of_the_graph(launch):
    node = launch(rviz="true", avatar="anna", world_frame="odom", use_sim_time="true")["rviz2"]
    assert node["parameters"] == [{"use_sim_time": True}]
    assert {t["Value"].split("/")[1] for t in topics_of(opened(node)["Displays"])} == {"anna"}
    assert opened(node)["Global Options"]["Fixed Frame"] == "odom"


def uses_sim_time(node: dict) -> bool:
    values = [p["use_sim_time"] for p in node["parameters"] if "use_sim_time" in p]  # other entries are file names
    return values[-1:] == [True]


def test_a_replay_runs_all_nodes_and_rviz_on_the_time_of_the_recording(launch):
    started = launch("replay", session="folder", rviz="true", viewer="true", loop="true", rate="2.0")
    nodes = {name for name, node in started.items() if "executable" in node}
    expected = {n.name for n in graph.nodes_for("vr", ["visualizer"])} - {"tracker_bridge"}
    assert nodes == {*expected, "rviz2", "viewer"}
    assert all(uses_sim_time(started[name]) for name in nodes)
    assert {"folder", "--clock", "--loop", "2.0"} <= set(started["mm_ros_replay"]["cmd"])
    started = launch("replay", session="folder", rviz="true", composed="true")
    assert {"--use-sim-time", "--trackers=none", "--visualizer"} <= set(started["mm_ros_up"]["cmd"])
    assert uses_sim_time(started["rviz2"]) and "--loop" not in started["mm_ros_replay"]["cmd"]


@pytest.mark.parametrize("from_file", [False, True])
def test_rviz_shows_all_of_several_avatars(launch, tmp_path, from_file):
    users = tmp_path / "users.yaml"
    users.write_text("anna: {}\nben: {place: [2, 0]}\n")
    names, avatars = (("anna", "ben"), str(users)) if from_file else (("avatar1", "avatar2", "avatar3"), "3")
    started = launch("multi", avatars=avatars, rviz="true", world_frame="odom")
    topics = topics_of(flat(opened(started["rviz2"])["Displays"]))
    assert {t["Value"].split("/")[1] for t in topics} == set(names)
    assert opened(started["rviz2"])["Global Options"]["Fixed Frame"] == "odom"
    assert {name for name in started if name.endswith("/visualizer")} == {f"{name}/visualizer" for name in names}
    command = launch("multi", avatars=avatars, rviz="true", composed="true")["mm_ros_up"]["cmd"]
    assert "--visualizer" in command
    assert command[command.index("--users" if from_file else "--avatars") + 1] == avatars
    without = launch("multi", avatars=avatars)
    assert not [name for name in without if "visualizer" in name or name == "rviz2"]


def test_robot_state_publisher_is_used_only_if_it_is_installed(launch, monkeypatch, tmp_path):
    from ament_index_python.packages import PackageNotFoundError

    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    urdf = tmp_path / "robot.urdf"
    urdf.write_text(ROBOT.format(JOINT.format("i", "fixed", "a", "b", "") + JOINT.format("j", "fixed", "b", "c", "")))
    for find, installed in ((lambda name: "/opt", True), (absent, False)):
        monkeypatch.setattr("ament_index_python.packages.get_package_prefix", find)
        started = launch(urdf=str(urdf))
        assert ("robot_state_publisher" in started) is installed
        assert started["robot_follower"]["parameters"][-1]["link_tf"] is not installed


def test_the_camera_looks_at_the_middle_of_the_users_rooms(launch, tmp_path):
    users = tmp_path / "users.yaml"
    users.write_text("anna: {place: [1, 0]}\nben: {place: [4, 4]}\n")
    view = opened(launch("multi", avatars=str(users), rviz="true")["rviz2"])["Views"]["Current"]
    assert view["Target Frame"] == "anna/root"
    assert (view["Focal Point"]["X"], view["Focal Point"]["Y"], view["Distance"]) == (1.5, 2.0, 9.5)
    view = opened(launch("multi", avatars="3", rviz="true")["rviz2"])["Views"]["Current"]
    assert (view["Focal Point"]["X"], view["Focal Point"]["Y"], view["Distance"]) == (0.0, 5.0, 14.5)


def test_slashes_around_the_name_of_an_avatar_are_left_out(launch):
    node = launch(rviz="true", avatar="/anna/")["rviz2"]
    assert all(t["Value"].startswith("/anna/") for t in topics_of(opened(node)["Displays"]))
    assert opened(node)["Views"]["Current"]["Target Frame"] == "anna/root"
    with pytest.raises(MmRosError, match="expected a name"):
        launch(avatar="/")


def test_a_world_frame_in_the_file_of_parameters_holds_for_all_nodes_and_rviz(launch, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("/**/pose_postprocessor:\n  ros__parameters:\n    world_frame: odom\n")
    started = launch(rviz="true", config=str(file))
    assert opened(started["rviz2"])["Global Options"]["Fixed Frame"] == "odom"
    assert {started[n.name]["parameters"][-1]["world_frame"] for n in graph.nodes_for("vr")} == {"odom"}
    file.write_text(file.read_text() + "/**/visualizer:\n  ros__parameters:\n    world_frame: map\n")
    with pytest.raises(MmRosError, match="different world frames: map, odom"):
        launch(config=str(file))


@pytest.mark.parametrize("name", ["/map", "the room"])
def test_a_world_frame_that_tf_does_not_take_is_refused(launch, name):
    with pytest.raises(MmRosError, match="name of a TF frame"):
        launch(world_frame=name)


@pytest.mark.parametrize("installed", [True, False])
def test_a_robots_links_are_published_once(launch, monkeypatch, tmp_path, installed):
    """robot_state_publisher publishes them with a prefix if it is installed, else `robot_follower` does."""
    urdf = tmp_path / "robot.urdf"
    urdf.write_text("<robot name='r: x'/>")
    monkeypatch.setattr(launching, "_has_state_publisher", lambda robot: installed and bool(robot))
    started = launch(urdf=str(urdf), rviz="true", avatar="anna", use_sim_time="true")
    assert started["robot_follower"]["parameters"][-1]["link_tf"] is not installed
    assert ("robot_state_publisher" in started) is installed
    if installed:
        node = started["robot_state_publisher"]
        assert node["namespace"] == "anna"
        assert node["parameters"] == [
            {
                "robot_description": "<robot name='r: x'/>", "frame_prefix": "anna/robot/",
                "publish_frequency": 1000.0, "use_sim_time": True,
            }
        ]
        # The topic `robot_description` is the avatar's.
        assert node["remappings"] == [("robot_description", "robot_state_publisher/robot_description")]
    assert [d["TF Prefix"] for d in opened(started["rviz2"])["Displays"] if "TF Prefix" in d] == ["", "anna/robot"]


def test_rviz_has_no_display_for_a_robot_without_a_published_description(launch, tmp_path):
    mjcf = tmp_path / "robot.xml"
    mjcf.write_text("<mujoco/>")
    node = launch(urdf=str(mjcf), rviz="true")["rviz2"]
    assert [d["Name"] for d in opened(node)["Displays"] if "TF Prefix" in d] == ["Body"]


JOINT = (
    '<joint name="{0}" type="{1}"><parent link="{2}"/><child link="{3}"/><limit lower="-1" upper="1"/>{4}</joint>'
)
ROBOT = '<robot name="r"><link name="a"/><link name="b"/><link name="c"/>{}</robot>'


def links_of_state_publisher(text: str, states: set[str]) -> set[str]:
    """Return the child links that robot_state_publisher puts on TF, by the rule in its `addChildren`,
    `callbackJointState` and `publishTransforms`."""
    joints = ElementTree.fromstring(text).findall("joint")
    known = states | {j.get("name") for j in joints for m in j.findall("mimic") if m.get("joint") in states}
    fixed = [j for j in joints if j.get("type") == "fixed"]
    moved = [j for j in joints if j.get("type") in ("revolute", "continuous", "prismatic") and j.get("name") in known]
    return {j.find("child").get("link") for j in fixed + moved}


@pytest.mark.parametrize("composed", ["false", "true"])
@pytest.mark.parametrize(
    ("kind", "mimic", "ignored", "published"),
    [
        ("revolute", "", "", True), ("continuous", "", "", True), ("fixed", "", "", True), ("revolute", "i", "", True),
        ("prismatic", "", "", False), ("floating", "", "", False), ("planar", "", "", False),
        ("prismatic", "i", "", True), ("revolute", "", "j", False), ("revolute", "i", "i", False),
    ],
)  # fmt: skip
def test_each_link_of_a_robot_is_on_tf_once(launch, monkeypatch, tmp_path, kind, mimic, ignored, published, composed):
    """robot_state_publisher is started only if it publishes all links; otherwise `robot_follower` publishes them."""
    monkeypatch.setattr("ament_index_python.packages.get_package_prefix", lambda name: "/opt")
    urdf = tmp_path / "robot.urdf"
    follows = f'<mimic joint="{mimic}"/>' if mimic else ""
    joints = JOINT.format("i", "revolute", "a", "b", ""), JOINT.format("j", kind, "b", "c", follows)
    urdf.write_text(ROBOT.format("".join(joints)))
    (tmp_path / "robot.yaml").write_text(f"ignore: [{ignored}]")
    states = set(read_robot(urdf)[0].moving)
    assert (links_of_state_publisher(urdf.read_text(), states) == {"b", "c"}) is published
    started = launch(urdf=str(urdf), composed=composed)
    assert ("robot_state_publisher" in started) is published
    if composed == "true":
        assert ("robot_follower.link_tf=false" in started["mm_ros_up"]["cmd"]) is published
    else:
        assert started["robot_follower"]["parameters"][-1]["link_tf"] is not published


def test_launch_arguments_match_the_graph():
    by_name = {a.name: a for a in launching.ARGUMENTS}
    assert by_name["control"].choices == CONTROLS
    assert all(a.description for a in launching.ARGUMENTS)
    given = {a.name: a.default for a in launching.ARGUMENTS}
    for node in graph.NODES:
        kinds = (*node.settings_types(), graph.FrameSettings)
        declared = {k for kind in kinds for k in kind.specs()} | {"use_sim_time"}
        assert set(launching.overrides(node.name, given)) <= declared, node.name


def test_a_missing_database_is_refused_with_what_to_do(tmp_path):
    given = {a.name: a.default for a in launching.ARGUMENTS} | {"database": str(tmp_path / "none.mmdb")}
    with pytest.raises(MmRosError, match="mm_ros import"):
        launching.check(given)
