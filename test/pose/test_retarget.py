"""Retargeting to two robots with revolute joints."""


import numpy as np
import pytest

from mm_ros.base.errors import MmRosError
from mm_ros.body.skeleton import (  # fmt: skip
    HEAD,
    LEFT_FOOT,
    LEFT_LOWER_ARM,
    LEFT_LOWER_LEG,
    LEFT_UPPER_ARM,
    LEFT_UPPER_LEG,
    NAMES,
    PARENTS,
    RIGHT_FOOT,
    RIGHT_LOWER_LEG,
    RIGHT_UPPER_ARM,
    RIGHT_UPPER_LEG,
    J,
    default_skeleton,
)
from mm_ros.body.types import AvatarPose
from mm_ros.maths import rotations as rot
from mm_ros.robot.figure import figure_of
from mm_ros.robot.model import Robot
from mm_ros.robot.revolute import RevoluteRetargeter, RobotMap, map_of
from mm_ros.robot.roles import find_roles
from mm_ros.robot.urdf import parse_urdf

SKELETON = default_skeleton()
ROOT = np.array([1.0, -2.0, 0.0, *rot.from_yaw(0.7)])


def pose(turns: dict[int, tuple[float, float, float]], hips: float = 0.0) -> AvatarPose:
    q = np.tile(np.array([1.0, 0, 0, 0], np.float32), (J, 1))
    for j, v in turns.items():
        q[j] = rot.exp(np.array(v))
    p = SKELETON.offsets.copy()
    p[0] = 0
    p[1, 2] += hips
    zero = np.zeros((J, 3), np.float32)
    return AvatarPose(0, 0, SKELETON.hash, ROOT.copy(), p, q, zero, zero, np.zeros(2, bool), np.zeros(2, bool))


STRIDE = {
    LEFT_UPPER_LEG: (0.1, -0.5, 0.0), LEFT_LOWER_LEG: (0.0, 0.4, 0.0), RIGHT_UPPER_LEG: (0.0, 0.3, 0.05),
    RIGHT_LOWER_LEG: (0.0, 0.3, 0.0),
    LEFT_UPPER_ARM: (0.9, 0.2, 0.3), LEFT_LOWER_ARM: (0.0, 0.0, -0.8), HEAD: (0.0, 0.1, 0.5),
    RIGHT_UPPER_ARM: (-1.2, 0.0, 0.2),
}  # fmt: skip


def room(p: np.ndarray, q: np.ndarray, parents: object = PARENTS) -> tuple[np.ndarray, np.ndarray]:
    return rot.forward_kinematics(parents, p.astype(np.float64), q.astype(np.float64))


def source_room(a: AvatarPose) -> tuple[np.ndarray, np.ndarray]:
    p, q = a.positions.astype(np.float64), a.rotations.astype(np.float64)
    p[0], q[0] = a.root[:3], a.root[3:]
    return room(p, q)


def joint(
    name: str, parent: str, child: str, xyz: str, axis: str, limits: tuple[float, float] | None, rpy: str = "0 0 0"
) -> str:
    kind = "continuous" if limits is None else "revolute"
    limit = "" if limits is None else f'<limit lower="{limits[0]}" upper="{limits[1]}" effort="1" velocity="1"/>'
    return (
        f'<link name="{child}"/><joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{xyz}" rpy="{rpy}"/><axis xyz="{axis}"/>{limit}</joint>'
    )


def upright_robot() -> str:
    """Zero angles are the T-pose. Hips: yaw, roll, pitch."""
    out = ['<robot name="upright"><link name="pelvis"/>']
    out.append(joint("waist_yaw", "pelvis", "torso", "0 0 0.1", "0 0 1", (-2, 2)))
    out.append(joint("neck_yaw", "torso", "neck", "0 0 0.5", "0 0 1", None))
    out.append(joint("neck_pitch", "neck", "head", "0 0 0.05", "0 1 0", (-0.8, 0.8)))
    for s, y in (("left", 1), ("right", -1)):
        out.append(joint(f"{s}_hip_yaw", "pelvis", f"{s}_a", f"0 {0.1 * y} 0", "0 0 1", (-1, 1)))
        out.append(joint(f"{s}_hip_roll", f"{s}_a", f"{s}_b", "0 0 -0.02", "1 0 0", (-1, 1)))
        out.append(joint(f"{s}_hip_pitch", f"{s}_b", f"{s}_thigh", "0 0 -0.02", "0 1 0", (-2, 2)))
        out.append(joint(f"{s}_knee", f"{s}_thigh", f"{s}_shin", "0 0 -0.4", "0 1 0", (0, 2.5)))
        out.append(joint(f"{s}_ankle_pitch", f"{s}_shin", f"{s}_c", "0 0 -0.4", "0 1 0", (-1, 1)))
        out.append(joint(f"{s}_ankle_roll", f"{s}_c", f"{s}_foot", "0 0 0", "1 0 0", (-0.5, 0.5)))
        out.append(joint(f"{s}_shoulder_pitch", "torso", f"{s}_d", f"0 {0.2 * y} 0.4", "0 1 0", (-3, 3)))
        out.append(joint(f"{s}_shoulder_roll", f"{s}_d", f"{s}_e", "0 0 0", "1 0 0", (-3, 3)))
        out.append(joint(f"{s}_shoulder_yaw", f"{s}_e", f"{s}_arm", "0 0 0", "0 0 1", (-3, 3)))
        out.append(joint(f"{s}_elbow", f"{s}_arm", f"{s}_forearm", f"0 {0.25 * y} 0", "0 0 1", (-2.5, 2.5)))
    return "".join(out) + "</robot>"


def hanging_robot() -> str:
    """Zero angles let the arms hang; hips pitch, roll, yaw; turned frames; short names."""
    out = ['<robot name="hanging"><link name="base"/>']
    for s, y in (("L", 1), ("R", -1)):
        hip = f"0 {0.08 * y} -0.05"
        out.append(joint(f"{s}HipPitch", "base", f"{s}1", hip, "0 0 1", (-2.2, 2.2), "-1.5707963 0 0"))
        out.append(joint(f"{s}HipRoll", f"{s}1", f"{s}2", "0 0 0", "1 0 0", (-0.8, 0.8), "1.5707963 0 0"))
        out.append(joint(f"{s}HipYaw", f"{s}2", f"{s}3", "0 0 0", "0 0 -2", (-0.8, 0.8)))
        out.append(joint(f"{s}Knee", f"{s}3", f"{s}4", "0 0 -0.3", "0 1 0", (-0.1, 2.4)))
        out.append(joint(f"{s}Ankle", f"{s}4", f"{s}5", "0 0 -0.3", "0 1 0", (-0.9, 0.9)))
        out.append(joint(f"{s}ShoulderPitch", "base", f"{s}6", f"0 {0.2 * y} 0.4", "0 1 0", (-3.1, 3.1)))
        out.append(joint(f"{s}ShoulderRoll", f"{s}6", f"{s}7", "0 0 0", "1 0 0", (-3.1, 3.1)))
        out.append(joint(f"{s}ShoulderYaw", f"{s}7", f"{s}8", "0 0 0", "0 0 1", (-3.1, 3.1)))
        out.append(joint(f"{s}Elbow", f"{s}8", f"{s}9", "0 0 -0.25", "0 1 0", (-2.4, 0.0)))
    return "".join(out) + "</robot>"


HALF = np.pi / 2
ARMS_UP = {"LShoulderRoll": HALF, "RShoulderRoll": -HALF, "LShoulderYaw": -HALF, "RShoulderYaw": HALF}


def robots() -> list[tuple[Robot, RobotMap]]:
    a, b = parse_urdf(upright_robot()), parse_urdf(hanging_robot())
    return [(r, map_of(figure_of(r, find_roles(r)), angles)) for r, angles in ((a, {}), (b, ARMS_UP))]


def test_the_map_is_that_of_the_roles() -> None:
    a, b = (m for _, m in robots())
    assert a.chains["left_upper_leg"] == ("left_hip_yaw", "left_hip_roll", "left_hip_pitch")
    assert a.chains["head"] == ("neck_yaw", "neck_pitch") and a.feet == ("left_foot", "right_foot")
    assert b.chains["right_upper_arm"] == ("RShoulderPitch", "RShoulderRoll", "RShoulderYaw") and b.feet == ("L5", "R5")


@pytest.mark.parametrize("which", [0, 1])
def test_the_t_pose_is_the_robots_t_pose(which: int) -> None:
    robot, mapping = robots()[which]
    out = RevoluteRetargeter(SKELETON, robot, mapping).step(pose({}))
    assert max(out.error_rad.values()) < 1e-5
    links, rest = robot.links(out.angles), robot.links(mapping.t_pose)
    for name, at in rest.items():
        assert links[name][:3] == pytest.approx(at[:3], abs=1e-5), name


@pytest.mark.parametrize("which", [0, 1])
def test_limbs_point_where_the_humans_point(which: int) -> None:
    robot, mapping = robots()[which]
    turns = {k: v for k, v in STRIDE.items() if k != HEAD}
    a = pose(turns)
    out = RevoluteRetargeter(SKELETON, robot, mapping).step(a)
    source_q = source_room(a)[1]
    links = robot.links(out.angles, out.base)
    rest = robot.links(mapping.t_pose)
    for canonical in ("left_upper_leg", "right_upper_leg", "left_upper_arm", "right_upper_arm", "left_lower_leg"):
        link = robot.joint(mapping.chains[canonical][-1]).child
        want = rot.multiply(source_q[NAMES.index(canonical)], rest[link][3:])
        assert out.error_rad[canonical] < 1e-4, canonical
        assert np.abs((links[link][3:] * want).sum()) == pytest.approx(1.0, abs=1e-7)


def test_limits_hold_and_what_is_left_is_told() -> None:
    robot, mapping = robots()[0]
    back = RevoluteRetargeter(SKELETON, robot, mapping).step(pose({LEFT_LOWER_LEG: (0.0, -0.5, 0.0)}))
    assert back.angles["left_knee"] == 0.0
    assert back.error_rad["left_lower_leg"] == pytest.approx(0.5, abs=1e-5)
    rng = np.random.default_rng(0)
    stage = RevoluteRetargeter(SKELETON, robot, mapping)
    for _ in range(50):
        out = stage.step(pose({j: tuple(rng.normal(size=3)) for j in range(1, J)}))
        for j in robot.joints:
            if j.kind == "revolute":
                assert j.lower <= out.angles[j.name] <= j.upper


@pytest.mark.parametrize("which", [0, 1])
def test_the_lower_foot_is_on_the_floor(which: int) -> None:
    robot, mapping = robots()[which]
    out = RevoluteRetargeter(SKELETON, robot, mapping).step(pose(STRIDE, -0.03))
    links = robot.links(out.angles, out.base)
    scale = RevoluteRetargeter(SKELETON, robot, mapping).scale
    source = source_room(pose(STRIDE, -0.03))[0]
    clearance = (source[[LEFT_FOOT, RIGHT_FOOT], 2] - SKELETON.rest_positions()[LEFT_FOOT, 2]).min() * scale
    assert min(links[f][2] for f in mapping.feet) == pytest.approx(clearance, abs=1e-6)


def test_angles_move_smoothly_with_the_pose() -> None:
    robot, mapping = robots()[1]
    stage, last = RevoluteRetargeter(SKELETON, robot, mapping), None
    for i in range(200):
        t = i / 60
        swing = float(np.sin(3 * t))
        out = stage.step(pose({LEFT_UPPER_LEG: (0.0, -0.6 * swing, 0.0), LEFT_UPPER_ARM: (-1.2, 0.5 * swing, 0.0)}))
        if last is not None:
            assert max(abs(out.angles[n] - last[n]) for n in last) < 0.1
        last = out.angles


def test_only_moving_joints_need_an_axis() -> None:
    """A common CAD exporter writes <axis xyz="0 0 0"/> for fixed joints."""
    text = hanging_robot()
    ends = f'<parent link="{parse_urdf(text).base}"/><child link="lamp"/>'
    lamp = f'<link name="lamp"/><joint name="lamp" type="fixed">{ends}<axis xyz="0 0 0"/></joint>'
    robot = parse_urdf(text.replace("</robot>", lamp + "</robot>"))
    assert robot.joint("lamp").kind == "fixed"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<robot", "not XML"),
        ("<sdf/>", "expected <robot>, came <sdf>"),
        (upright_robot().replace('<link name="torso"/>', '<link name="torso"/><link name="x"/>'), "pelvis, x"),
        (upright_robot().replace('upper="2.5"', 'upper="-1"', 1), "lower limit 0.0 is above the upper -1.0"),
        (upright_robot().replace('xyz="0 0 0.1"', 'xyz="0 0 x"'), 'expected three numbers in xyz, came "0 0 x"'),
        (upright_robot().replace('axis xyz="0 0 1"', 'axis xyz="0 0 0"', 1), "its axis has no length"),
    ],
)
def test_a_bad_urdf_gets_a_sentence(text: str, says: str) -> None:
    with pytest.raises(MmRosError, match=says):
        parse_urdf(text)


def test_a_map_with_an_unknown_joint_names_it() -> None:
    robot, mapping = robots()[0]
    with pytest.raises(MmRosError, match="joint 'tail' is not in robot 'upright'"):
        RevoluteRetargeter(SKELETON, robot, RobotMap({"hips": ("tail",)}))
    with pytest.raises(MmRosError, match="link 'paw' is not in robot 'upright'"):
        RevoluteRetargeter(SKELETON, robot, RobotMap(mapping.chains, feet=("paw", "left_foot")))
