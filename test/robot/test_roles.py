"""Roles of a robot's joints, by geometry and names."""

import math
import re

import numpy as np
import pytest
from robots import HUMANOID, TEXT, nameless, turned_round, without

from mm_ros.base.errors import MmRosError
from mm_ros.robot.figure import figure_of, read_figure
from mm_ros.robot.load import load_robot
from mm_ros.robot.names import vote
from mm_ros.robot.overrides import Overrides, adapted, read_overrides, roles_with
from mm_ros.robot.roles import NotHumanoidError, find_roles
from mm_ros.robot.urdf import parse_urdf

EXPECTED = {
    "upper_chest": ("waist_yaw", "waist_roll", "waist_pitch"),
    "left_upper_arm": ("left_shoulder_pitch", "left_shoulder_roll", "left_shoulder_yaw"),
    "left_lower_arm": ("left_elbow",),
    "left_upper_leg": ("left_hip_pitch", "left_hip_roll", "left_hip_yaw"),
    "left_lower_leg": ("left_knee",),
    "left_foot": ("left_ankle_pitch", "left_ankle_roll"),
}


def test_names_and_geometry_agree_on_the_projects_robot():
    roles = find_roles(load_robot(HUMANOID))
    for part, chain in EXPECTED.items():
        assert roles.chains[part] == chain
    assert not roles.missing and not roles.warnings and not roles.unmapped
    assert set(roles.confidence.values()) == {1.0}
    assert (roles.pelvis, roles.chest) == ("pelvis", "chest")


def test_geometry_alone_finds_the_same_roles():
    named, alone = find_roles(parse_urdf(TEXT)), find_roles(parse_urdf(nameless(TEXT)))
    order = {j.name: i for i, j in enumerate(parse_urdf(TEXT).joints)}
    numbers = {j.name: i for i, j in enumerate(parse_urdf(nameless(TEXT)).joints)}
    assert alone.facing == pytest.approx(0.0, abs=1e-6)
    for part, chain in named.chains.items():
        found = [numbers[j] for j in alone.chains[part]]
        if part.endswith(("lower_arm", "hand")):  # a twist of the forearm belongs to either neighbour
            continue
        assert found == [order[j] for j in chain], part
    assert set(alone.confidence.values()) == {0.8}


def test_a_robot_that_faces_backward_is_turned():
    roles = find_roles(parse_urdf(turned_round(TEXT)))
    assert abs(roles.facing) == pytest.approx(math.pi, abs=1e-6)
    assert roles.chains["left_lower_leg"] == ("left_knee",)


def test_sides_follow_from_the_direction_of_the_knees():
    """Without names and with its base turned round, knees, elbows and feet show the front."""
    text = nameless(turned_round(TEXT))
    assert abs(find_roles(parse_urdf(text)).facing) == pytest.approx(math.pi, abs=1e-6)


@pytest.mark.parametrize(
    ("starts", "missing"),
    [
        (("left_hip", "right_hip"), {"left leg", "right leg"}),
        (("left_shoulder", "right_shoulder"), {"left arm", "right arm"}),
    ],
)
def test_a_robot_without_legs_or_arms_keeps_the_rest(starts, missing):
    roles = find_roles(parse_urdf(without(TEXT, *starts)))
    assert set(roles.missing) == missing
    assert roles.chains["upper_chest" if "hip" in starts[0] else "left_lower_leg"]


def test_arms_with_a_base_in_the_chest_are_no_legs():
    roles = find_roles(parse_urdf(nameless(without(TEXT, "left_hip", "right_hip"))))
    assert set(roles.missing) == {"left leg", "right leg"}


def test_four_legs_are_refused_with_the_reason():
    legs = without(TEXT, "left_shoulder", "right_shoulder", "waist")
    hind = re.sub(r'name="(left|right)', r'name="\1_hind', legs)
    hind = re.sub(r'link="(left|right)', r'link="\1_hind', hind)
    hind = re.sub(r'(<joint name="[^"]*hip_pitch"[^>]*><origin xyz=")0 ', r"\g<1>-0.5 ", hind)
    part = r'<(?:joint|link) name="\w*_hind.*?</(?:joint|link)>|<link name="\w*_hind\w*"/>'
    parts = "\n".join(re.findall(part, hind, re.S))
    with pytest.raises(NotHumanoidError, match="stands on 4 legs"):
        find_roles(parse_urdf(legs.replace("</robot>", parts + "</robot>")))


def test_one_arm_is_refused():
    text = without(TEXT, "left_hip", "right_hip", "right_shoulder")
    with pytest.raises(NotHumanoidError, match="no two limbs of it mirror each other"):
        find_roles(parse_urdf(text))


def test_a_name_that_contradicts_geometry_is_reported():
    text = TEXT.replace('"left_hip_yaw"', '"left_wrist_extra"').replace('"right_hip_yaw"', '"right_wrist_extra"')
    roles = find_roles(parse_urdf(text))
    assert "left_wrist_extra" in roles.chains["left_upper_leg"]
    assert any("left_wrist_extra" in w for w in roles.warnings) and roles.confidence["left_wrist_extra"] == 0.5


def test_limits_that_do_not_mirror_are_reported():
    text = re.sub(r'(name="left_knee".*?lower=")-0.05(" upper=")2.7', r"\g<1>-2.7\g<2>0.05", TEXT, flags=re.S)
    assert any("left_knee" in w and "mirror" in w for w in find_roles(parse_urdf(text)).warnings)


def test_a_coupled_hip_stays_a_joint_of_the_body():
    text = TEXT.replace(
        '<child link="right_hip_pitch_link"/>', '<child link="right_hip_pitch_link"/><mimic joint="left_hip_pitch"/>'
    )
    assert find_roles(parse_urdf(text)).chains["right_upper_leg"][0] == "right_hip_pitch"


def test_grippers_and_fingers_do_not_follow():
    finger = (
        '<link name="{0}"/><joint name="{0}" type="revolute"><origin xyz="0 {1} -0.1"/><parent link="left_hand"/>'
        '<child link="{0}"/><axis xyz="1 0 0"/><limit lower="0" upper="1"/>{2}</joint>'
    )
    fingers = finger.format("grip", 0.02, "") + finger.format("grip2", -0.02, '<mimic joint="grip" multiplier="-1"/>')
    roles = find_roles(parse_urdf(TEXT.replace("</robot>", fingers + "</robot>")))
    assert set(roles.unmapped) == {"grip", "grip2"} and not roles.missing


@pytest.mark.parametrize(
    ("name", "part", "side"),
    [
        ("LHipYawPitch", "upper_leg", "left"), ("leg_left_4_joint", "", "left"), ("LLEG_HIP_R", "upper_leg", "left"),
        ("r_shoulder_roll", "upper_arm", "right"), ("RightForearmYaw", "lower_arm", "right"), ("Waist", "spine", ""),
        ("J01_HIP_PITCH_L", "upper_leg", "left"),
    ],
)  # fmt: skip
def test_words_of_names(name, part, side):
    assert (vote(name).part, vote(name).side) == (part, side)


def test_soles_lie_under_the_ankles():
    figure = read_figure(HUMANOID)
    for side, y in (("left", 0.1), ("right", -0.1)):
        sole = figure.soles[side]
        assert (sole.source, sole.height) == ("collision", pytest.approx(0.05, abs=1e-6))
        low = sole.points[sole.points[:, 2] < sole.points[:, 2].min() + 1e-6]
        assert np.ptp(low[:, 0]) == pytest.approx(0.2) and np.ptp(low[:, 1]) == pytest.approx(0.08)
        assert figure.limbs[f"{side} leg"].root == pytest.approx([0, y, -0.06], abs=1e-6)
    assert figure.leg_length == pytest.approx(0.62)


def test_soles_without_geometry_are_estimated():
    text = re.sub(r"<(collision|visual)>.*?</\1>", "", TEXT)
    figure = figure_of(parse_urdf(text), find_roles(parse_urdf(text)))
    assert figure.soles["left"].source == "estimate"
    assert figure.soles["left"].height == pytest.approx(0.09 * 0.62, rel=1e-3)


def test_robot_yaml_overrides_parts(tmp_path):
    (tmp_path / "r.urdf").write_text(TEXT)
    (tmp_path / "robot.yaml").write_text(
        "facing: 90\nignore: [left_wrist_roll]\njoints: {left_hand: [left_wrist_pitch]}\nlimits: {left_knee: [0, 90]}\n"
        "sole: {height: 0.06}\nlinks: {head: chest}\n"
    )
    figure = read_figure(tmp_path / "r.urdf")
    assert figure.roles.facing == pytest.approx(math.pi / 2)
    assert figure.roles.chains["left_hand"] == ("left_wrist_pitch",)
    assert "left_wrist_yaw" in figure.roles.unmapped
    assert figure.robot.joint("left_wrist_roll").kind == "fixed"
    assert figure.robot.joint("left_knee").upper == pytest.approx(math.pi / 2)
    assert (figure.soles["left"].source, figure.roles.head) == ("robot.yaml", "chest")
    assert figure.soles["left"].height == pytest.approx(0.06)


def test_robot_yaml_can_map_a_robot_that_geometry_refuses():
    robot = parse_urdf(without(TEXT, "left_hip", "right_hip", "right_shoulder"))
    stated = Overrides(joints={"left_upper_arm": ("left_shoulder_pitch",), "left_lower_arm": ("left_elbow",)})
    assert roles_with(adapted(robot, stated), stated).missing == ("left leg", "right leg", "right arm")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("facing: north", "facing: expected a number"), ("joints: {nose: [a]}", "unknown key 'nose'"),
        ("speed: 3", "unknown key 'speed'"), ("limits: {left_knee: [3, 1]}", "above the upper"),
        ("- 1", "expected the keys"), ("ignore: 5", "expected a list of joint names"),
    ],
)  # fmt: skip
def test_a_wrong_robot_yaml_gets_a_sentence(text, says, tmp_path):
    (tmp_path / "robot.yaml").write_text(text)
    with pytest.raises(MmRosError, match=says):
        read_overrides(tmp_path / "robot.yaml")
