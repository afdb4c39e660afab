"""Robot files of all formats, and files that must be refused in a sentence."""

import contextlib
import os
import shutil
from xml.etree import ElementTree

import numpy as np
import pytest
from robots import HUMANOID, TEXT

from mm_ros.base.errors import MmRosError
from mm_ros.cli.main import main
from mm_ros.robot.load import load_robot, mesh_path, robot_text
from mm_ros.robot.roles import find_roles

LINK = (
    '<link name="{0}"/><joint name="j{0}" type="revolute"><parent link="{1}"/><child link="{0}"/>'
    '<limit lower="0" upper="1"/></joint>'
)
A_A = LINK.format("a", "c") + LINK.format("b", "a").replace('"b"', '"a"', 1)
FAR = LINK.format("b", "a").replace("<parent", '<origin xyz="1e9 0 0"/><parent')
ENTITY = '<!DOCTYPE robot [<!ENTITY x SYSTEM "file:///etc/passwd">]><robot>&x;</robot>'


def test_exit_codes_of_robot_info(tmp_path, capsys):
    from robots import without

    legless = tmp_path / "legless.urdf"
    legless.write_text(without(TEXT, "left_hip", "right_hip"))
    box = tmp_path / "box.urdf"
    box.write_text('<robot name="box"><link name="lid"/></robot>')
    assert main(["robot", "info", str(HUMANOID)]) == 0
    assert "complete" in capsys.readouterr().out
    assert main(["robot", "info", str(legless)]) == 1
    assert "left leg and right leg not found" in capsys.readouterr().out
    assert main(["robot", "info", str(tmp_path / "none.urdf")]) == 2
    assert "there is no such file" in capsys.readouterr().err
    assert main(["robot", "info", str(box)]) == 3
    assert "not a humanoid: it has no joint that turns" in capsys.readouterr().err


def test_json_and_picture_of_robot_info(tmp_path):
    pytest.importorskip("PIL", reason="pillow is not installed (extra 'viewer')")
    pytest.importorskip("daqp", reason="daqp is not installed (extra 'robot')")
    import json

    out, picture = tmp_path / "r.json", tmp_path / "r.png"
    assert main(["robot", "info", str(HUMANOID), "--json", str(out), "--picture", str(picture)]) == 0
    result = json.loads(out.read_text())
    assert result["exit_code"] == 0 and result["chains"]["left_lower_leg"] == ["left_knee"]
    assert result["soles"]["left"]["source"] == "collision" and picture.stat().st_size > 1000


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not XML"),
        ("<robot>" + "<link name='a'/><link name='b'/></robot>", "links without a parent: a, b"),
        ("<robot>" + LINK.format("a", "b") + LINK.format("b", "a") + "</robot>", "form a loop"),
        ("<robot><link name='c'/>" + A_A + "</robot>", "two links have the name 'a'"),
        ("<robot>" + "".join(f'<link name="l{i}"/>' for i in range(100_000)) + "</robot>", "expected at most 2000"),
        (ENTITY, "declares a DOCTYPE or an entity"),
        ("<robot>" + "<a>" * 5000 + "</a>" * 5000 + "</robot>", "nested deeper"),
        ('<robot><link name="a"><inertial><mass value="-1"/></inertial></link></robot>', "its mass is -1"),
        ('<robot><link name="a"><inertial><mass value="nan"/></inertial></link></robot>', "is not a number"),
        ('<robot><link name="a"/>' + FAR + "</robot>", "larger than 1000"),
        ("<robot/>", "has no <link>"),
    ],
)  # fmt: skip
def test_a_bad_file_gets_a_sentence(text, says, tmp_path):
    path = tmp_path / "bad.urdf"
    path.write_text(text)
    with pytest.raises(MmRosError, match=says):
        load_robot(path)


def test_a_link_at_an_absurd_place_is_refused_in_mjcf_too(tmp_path):
    pytest.importorskip("mujoco", reason="mujoco is not installed (extra 'robot')")
    body = '<body name="b" pos="0 -1e308 0"><joint name="k"/><geom size="1"/></body>'
    path = tmp_path / "bad.xml"
    path.write_text(
        f'<mujoco><worldbody><body name="a"><joint name="j"/><geom size="1"/>{body}</body></worldbody></mujoco>'
    )
    with pytest.raises(MmRosError, match=r"joint 'k' is at 0, -1e\+308, 0; expected at most 100 m"):
        load_robot(path)


def test_a_pipe_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.urdf")
    with pytest.raises(MmRosError, match="not a regular file"):
        load_robot(tmp_path / "pipe.urdf")


def test_zero_mass_is_noted():
    import re

    from mm_ros.robot.urdf import parse_urdf

    robot = parse_urdf(re.sub(r"<inertial>.*?</inertial>", "", TEXT))
    assert any("no link has a mass" in n for n in robot.notes)
    assert not find_roles(robot).missing


def test_absent_meshes_get_a_sentence(tmp_path, capsys):
    import re

    mesh = '<geometry><mesh filename="package://nowhere/x.stl"/></geometry>'
    (tmp_path / "r.urdf").write_text(re.sub(r"<geometry>.*?</geometry>", mesh, TEXT, flags=re.S))
    assert main(["robot", "info", str(tmp_path / "r.urdf")]) == 0
    told = capsys.readouterr().out
    assert "1 of 1 meshes do not exist" in told and "'package://nowhere/x.stl'" in told
    assert not load_robot(HUMANOID).notes


def test_meshes_stay_inside_of_the_robots_folders(tmp_path):
    folder = tmp_path / "a" / "b" / "c" / "d" / "e" / "f" / "my_robot" / "urdf"
    folder.mkdir(parents=True)
    shutil.copy(HUMANOID, folder / "r.urdf")
    (folder.parent / "meshes").mkdir()
    (folder.parent / "meshes" / "foot.stl").write_text("solid")
    (tmp_path / "secret.stl").write_text("solid")
    robot = load_robot(folder / "r.urdf")
    for file in ("../meshes/foot.stl", "package://my_robot/meshes/foot.stl", "package://other/meshes/foot.stl"):
        assert mesh_path(robot, file) == folder.parent / "meshes" / "foot.stl"
    up = "../" * 8
    for file in (f"{up}secret.stl", f"package://my_robot/{up}secret.stl", "file:///etc/passwd", "http://x/y.stl"):
        assert mesh_path(robot, file) is None


def test_the_published_text_names_meshes_as_rviz_finds_them(tmp_path, monkeypatch):
    """RViz takes addresses and package:// of installed packages (resource_retriever), but no relative names."""
    folder = tmp_path / "my robot" / "urdf"
    folder.mkdir(parents=True)
    (folder / "a&b.stl").write_text("solid")
    for package in (tmp_path / "known", tmp_path / "share" / "known"):
        package.mkdir(parents=True)
        (package / "a.stl").write_text("solid")
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path))
    names = ["a&amp;b.stl", "package://my robot/urdf/a&amp;b.stl", "package://known/a.stl", "http://x/y.stl", "no.stl"]
    shapes = "".join(f'<visual><geometry><mesh scale="1 1 1"\n filename="{n}"/></geometry></visual>' for n in names)
    (folder / "r.urdf").write_text(
        f"<robot name='r'><link name='a'>{shapes}</link><material><texture filename='a&amp;b.stl'/></material></robot>"
    )
    root = ElementTree.fromstring(robot_text(folder / "r.urdf"))
    here = f"file://{tmp_path}/my%20robot/urdf/a%26b.stl"
    assert [e.get("filename") for e in root.iter("mesh")] == [here, here, *names[2:]]
    assert [e.get("filename") for e in root.iter("texture")] == [here]
    assert robot_text(HUMANOID) == TEXT


def test_xacro_is_expanded(tmp_path):
    pytest.importorskip("xacro", reason="xacro is not installed")
    body = TEXT[TEXT.index("<robot") :].replace("<robot ", '<robot xmlns:xacro="http://www.ros.org/wiki/xacro" ', 1)
    body = body.replace('xyz="0 0 -0.31"', 'xyz="0 0 ${-half_leg}"')
    body = body.replace(">", '><xacro:property name="half_leg" value="0.31"/>', 1)
    (tmp_path / "r.urdf.xacro").write_text(body)
    robot, plain = load_robot(tmp_path / "r.urdf.xacro"), load_robot(HUMANOID)
    assert [j.name for j in robot.joints] == [j.name for j in plain.joints]
    assert robot.joint("left_knee").origin == pytest.approx(plain.joint("left_knee").origin)


MJCF = """<mujoco model="m"><compiler angle="degree" meshdir="../../.."/><asset><mesh name="x" file="x.stl"/></asset>
<default><joint range="-90 90" limited="true"/></default>
<worldbody><geom type="plane" size="1 1 1"/><body name="base" pos="0 0 1"><freejoint/><geom size="0.1"/>{0}</body>
</worldbody>
<actuator><motor joint="left_hip"/></actuator></mujoco>"""


def mjcf_leg(side: str, y: float) -> str:
    return (
        f'<body name="{side}_thigh" pos="0 {y} 0"><joint name="{side}_roll" axis="1 0 0" pos="0 0 0.05"/>'
        f'<joint name="{side}_hip" axis="0 1 0"/><geom type="mesh" mesh="x"/>'
        f'<body name="{side}_shin" pos="0 0 -0.4"><joint name="{side}_knee" axis="0 1 0" range="0 120"/>'
        f'<geom type="capsule" size="0.03" fromto="0 0 0 0 0 -0.3"/>'
        f'<body name="{side}_foot" pos="0 0 -0.4"><joint name="{side}_ankle" axis="0 1 0"/>'
        '<geom type="box" size="0.1 0.04 0.02" pos="0.04 0 -0.04"/></body></body></body>'
    )


def test_mjcf_has_the_same_kinematics_as_mujoco(tmp_path):
    mujoco = pytest.importorskip("mujoco", reason="mujoco is not installed (extra 'robot')")
    path = tmp_path / "r.xml"
    path.write_text(MJCF.format(mjcf_leg("left", 0.1) + mjcf_leg("right", -0.1)))
    robot = load_robot(path)
    kinematics = path.read_text().replace('<geom type="mesh" mesh="x"/>', '<geom size="0.1"/>')
    model = mujoco.MjModel.from_xml_string(kinematics.replace('<mesh name="x" file="x.stl"/>', ""))
    data = mujoco.MjData(model)
    rng = np.random.default_rng(1)
    angles = {j.name: rng.uniform(max(j.lower, -1), min(j.upper, 1)) for j in robot.joints if j.kind == "revolute"}
    assert len(angles) == 8
    for name, a in angles.items():
        data.qpos[model.jnt_qposadr[model.joint(name).id]] = a
    mujoco.mj_forward(model, data)
    links = robot.links(angles, [0, 0, 1, 1, 0, 0, 0])
    for name in ("left_foot", "right_shin"):
        assert links[name][:3] == pytest.approx(data.body(name).xpos, abs=1e-9)
        assert abs(links[name][3:] @ data.body(name).xquat) == pytest.approx(1.0, abs=1e-9)
    assert set(find_roles(robot).missing) == {"left arm", "right arm"}


def test_mjcf_includes_stay_in_the_folder(tmp_path):
    pytest.importorskip("mujoco", reason="mujoco is not installed (extra 'robot')")
    (tmp_path / "in").mkdir()
    (tmp_path / "out.xml").write_text("<mujoco/>")
    path = tmp_path / "in" / "r.xml"
    path.write_text('<mujoco><include file="../out.xml"/></mujoco>')
    with pytest.raises(MmRosError, match=r"outside of the model's folder"):
        load_robot(path)
    path.write_text('<mujoco><include file="r.xml"/></mujoco>')
    with pytest.raises(MmRosError, match="includes more than 100 files"):
        load_robot(path)


def test_a_warning_of_mujoco_leaves_no_log_in_the_current_folder(tmp_path, monkeypatch):
    pytest.importorskip("mujoco", reason="MuJoCo is not installed")
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "robot.xml"
    file.write_text('<mujoco><worldbody><body pos="nan 0 0"><geom size="1"/></body></worldbody></mujoco>')
    with contextlib.suppress(MmRosError):
        load_robot(file)
    assert [path.name for path in tmp_path.iterdir()] == ["robot.xml"]
