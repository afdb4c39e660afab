"""A robot follows the avatar: directions, feet, limits; and the fast kinematics agree with the plain ones."""

import json
import math
import re
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

pytest.importorskip("daqp", reason="daqp is not installed (extra 'robot')")

from robots import HUMANOID, TEXT, without

from mm_ros.body.shape import room_joints
from mm_ros.body.skeleton import LEFT_LOWER_ARM, RIGHT_LOWER_ARM, default_skeleton
from mm_ros.body.types import rest_pose
from mm_ros.cli.main import main
from mm_ros.evaluation.benchmarks.robots import _limb, measure, outside_of, walk_of_clip
from mm_ros.maths import rotations as rot
from mm_ros.motion.procedural.body import Manner, make_motion
from mm_ros.motion.procedural.desired_motion import make_desired_motion
from mm_ros.motion.procedural.recipes import recipes
from mm_ros.robot.capsules import LimbDistance
from mm_ros.robot.figure import figure_of, read_figure
from mm_ros.robot.follow import Follower, FollowSettings, make_follower, t_pose_of
from mm_ros.robot.kinematics import LinkPoses, nearest
from mm_ros.robot.roles import find_roles
from mm_ros.robot.urdf import parse_urdf

FIGURE = read_figure(HUMANOID)


@pytest.fixture(scope="module")
def walk():
    recipe = next(r for r in recipes() if r.name.startswith("walk"))
    clip, _ = make_motion("walk", make_desired_motion(list(recipe.legs), 0.3), 1, Manner())
    return walk_of_clip(clip, 6.0)


def figure(text: str):
    robot = parse_urdf(text)
    return figure_of(robot, find_roles(robot))


def test_the_t_pose_is_found_without_a_table():
    state = t_pose_of(FIGURE)
    links = FIGURE.robot.links(state.by_name(), state.base)
    for side, y in (("left", 1.0), ("right", -1.0)):
        arm = FIGURE.limbs[f"{side} arm"]
        own = FIGURE.in_link(arm.upper, arm.bend) - FIGURE.in_link(arm.upper, arm.root)
        line = rot.rotate(links[arm.upper][3:], own)
        assert line / np.linalg.norm(line) == pytest.approx([0, y, 0], abs=0.01)
        sole = FIGURE.soles[side]
        points = links[sole.link][:3] + rot.rotate(links[sole.link][3:], sole.points)
        assert points[:, 2].min() == pytest.approx(0.0, abs=1e-3)


def test_a_walk_keeps_directions_feet_and_limits(walk):
    got = measure(FIGURE, walk)
    assert got["arm_direction_deg"] < 1.0 and got["leg_direction_deg"] < 4.0
    assert abs(got["sole_height_mm"]) < 3.0 and got["penetration_mm"] < 1.0
    assert got["slide_cm_s"] < 0.5
    assert got["jumps_per_min"] == 0 and got["beyond_limits"] == 0 and got["self_collision_percent"] == 0


def test_the_pelvis_moves_over_the_foot_that_stands_alone(walk):
    straight, shifted = (measure(FIGURE, walk, "follow", FollowSettings(weight_shift=s)) for s in (0.0, 1.0))
    assert shifted["com_outside_cm"] < 0.3 * straight["com_outside_cm"]
    assert shifted["com_outside_percent"] < 0.7 * straight["com_outside_percent"]
    assert shifted["leg_direction_deg"] < 4.0
    assert shifted["slide_cm_s"] < 0.5


def test_a_robot_without_masses_keeps_the_directions_of_the_legs(walk):
    robot = figure(re.sub(r"<inertial>.*?</inertial>", "", TEXT))
    straight, shifted = (Follower(robot, walk.skeleton, FollowSettings(weight_shift=s)) for s in (0.0, 1.0))
    for pose in walk.poses[:90]:
        np.testing.assert_array_equal(shifted.step(pose).angles, straight.step(pose).angles)


def test_decomposition_uses_the_t_pose_that_was_found(walk):
    got = measure(FIGURE, walk, "decompose")
    assert got["arm_direction_deg"] < 20.0 and got["leg_direction_deg"] < 1.0


def test_kinematics_agree_with_the_plain_ones_and_with_mujoco(walk):
    follower = Follower(FIGURE, walk.skeleton)
    for pose in walk.poses[:20]:
        state = follower.step(pose)
    plain = FIGURE.robot.links(state.by_name(), state.base)
    follower._place_bodies()
    for link, (body, pose) in follower.bodies.of_link.items():
        at = follower._p[body] + rot.rotate(follower._q[body], pose[:3])
        assert at == pytest.approx(plain[link][:3], abs=1e-9), link
    mujoco = pytest.importorskip("mujoco", reason="mujoco is not installed (extra 'robot')")
    model = mujoco.MjModel.from_xml_string(TEXT)
    data = mujoco.MjData(model)
    for name, a in state.by_name().items():
        data.qpos[model.joint(name).qposadr[0]] = a
    mujoco.mj_forward(model, data)
    for name in ("left_foot", "right_hand"):  # MuJoCo fixes the base link to the world
        own = rot.rotate(rot.inverse(state.base[3:]), plain[name][:3] - state.base[:3])
        assert own == pytest.approx(data.body(name).xpos, abs=1e-6)


def test_poses_of_links_for_drawing_are_those_of_the_robot():
    text = TEXT.replace('<child link="right_thigh"/>', '<child link="right_thigh"/><mimic joint="left_hip_yaw"/>')
    robot, rng = parse_urdf(text), np.random.default_rng(2)
    angles = {n: float(rng.normal()) for n in robot.moving}
    base = np.array([1.0, 2, 3, *rot.exp(np.array([0.1, 0.2, 0.3]))])
    plain, fast = robot.links(angles, base), LinkPoses(robot)(angles, base)
    assert plain.keys() == fast.keys()
    for name, pose in plain.items():
        assert fast[name] == pytest.approx(pose, abs=1e-9), name


def test_speed_and_acceleration_stay_within_the_settings(walk):
    settings = FollowSettings(joint_speed=2.0, joint_acceleration=40.0)
    follower = Follower(FIGURE, walk.skeleton, settings)
    angles = np.array([follower.step(pose).angles for pose in walk.poses])
    dt = np.diff([p.stamp_ns for p in walk.poses])[:, None] * 1e-9
    speed = np.diff(angles, axis=0) / dt
    assert np.abs(speed).max() <= 2.0 + 1e-6
    assert np.abs(np.diff(speed, axis=0) / dt[1:]).max() <= 40.0 * 1.02


def test_coupled_hips_stay_coupled(walk):
    text = TEXT.replace('<child link="right_thigh"/>', '<child link="right_thigh"/><mimic joint="left_hip_yaw"/>')
    coupled = figure(text)
    follower = Follower(coupled, walk.skeleton)
    for pose in walk.poses[:60]:
        state = follower.step(pose)
    assert "right_hip_yaw" not in state.names
    angles = coupled.robot.with_mimics(state.by_name())
    assert angles["right_hip_yaw"] == angles["left_hip_yaw"]


@pytest.mark.parametrize("starts", [("left_hip", "right_hip"), ("left_shoulder", "right_shoulder"), ("waist_roll",)])
def test_robots_that_lack_parts_follow_with_the_rest(starts, walk):
    reduced = figure(without(TEXT, *starts))
    follower = Follower(reduced, walk.skeleton)
    for pose in walk.poses[:60]:
        state = follower.step(pose)
    assert np.isfinite(state.base).all() and np.isfinite(state.angles).all()
    if starts[0] == "left_hip":  # the base stays upright
        up = rot.rotate(rot.multiply(state.base[3:], rot.inverse(reduced.front)), np.array([0, 0, 1.0]))
        assert up == pytest.approx([0, 0, 1], abs=0.02)


def test_a_waist_without_pitch_leans_by_the_base():
    skeleton = default_skeleton()
    bent = rest_pose(skeleton)
    for j in (2, 3, 4):  # spine, chest, upper chest: 60° in total
        bent.rotations[j] = rot.exp(np.array([0, math.radians(20), 0]))

    def lean(f):
        state = Follower(f, skeleton).step(bent)
        return rot.rotate(state.base[3:], np.array([1.0, 0, 0]))[2]

    stiff = figure(TEXT.replace('name="waist_pitch" type="revolute"', 'name="waist_pitch" type="fixed"'))
    assert lean(FIGURE) > -0.25 and lean(stiff) < lean(FIGURE) - 0.2


def with_wide_thighs() -> str:
    """The project's robot with spheres at the inner sides of the thighs, of which many pairs are always near."""
    text = TEXT
    for side, y in (("left", -0.0575), ("right", 0.0575)):
        spheres = "".join(
            f'<collision><origin xyz="0 {y} {-0.08 - 0.02 * k}"/><geometry><sphere radius="0.03"/></geometry>'
            "</collision>"
            for k in range(6)
        )
        text = text.replace(f'<link name="{side}_thigh">', f'<link name="{side}_thigh">{spheres}')
    return text


@pytest.mark.parametrize("text", [TEXT, with_wide_thighs()], ids=["few_pairs_near", "many_pairs_near"])
def test_hands_do_not_enter_the_body(text):
    skeleton, robot = default_skeleton(), figure(text)
    crossed = rest_pose(skeleton)
    for side, sign in ((8, 1), (12, -1)):  # upper arms down and inward, forearms across the belly
        crossed.rotations[side] = rot.exp(np.array([-1.5 * sign, 0, 0]))
        crossed.rotations[side + 1] = rot.exp(np.array([0, -0.4, 0]))
        crossed.rotations[side] = rot.multiply(rot.exp(np.array([-0.35 * sign, 0, 0])), crossed.rotations[side])
    distances = {}
    for on in (True, False):
        follower = Follower(robot, skeleton, FollowSettings(self_collision=on))
        for i in range(120):
            crossed.stamp_ns = int(i * 1e9 / 60)
            state = follower.step(crossed)
        distances[on] = LimbDistance(robot)(state.by_name(), state.base)
    assert distances[True] > -1e-3 and distances[False] < distances[True]


def test_a_recentring_moves_the_robot_with_the_avatar(walk):
    follower = Follower(FIGURE, walk.skeleton)
    for pose in walk.poses[:60]:
        before = follower.step(pose)
    moved = walk.poses[60]
    moved.root[:3] += [5.0, 0.0, 0.0]
    after = follower.step(moved)
    moved.root[:3] -= [5.0, 0.0, 0.0]
    assert after.base[0] - before.base[0] == pytest.approx(5.0 * follower.scale, abs=0.1)
    assert np.abs(after.angles - before.angles).max() < 0.2


def test_time_that_jumps_back_is_a_usual_frame(walk):
    follower = Follower(FIGURE, walk.skeleton)
    for pose in walk.poses[:30]:
        follower.step(pose)
    last = follower.step(walk.poses[30])
    assert np.abs(follower.step(walk.poses[5]).angles - last.angles).max() < 0.3


def test_nearest_points_of_segments():
    rng = np.random.default_rng(3)
    grid = np.linspace(0, 1, 201)
    for _ in range(30):
        a, b, c, d = rng.normal(size=(4, 3))
        s, t = nearest(a, b, c, d)
        got = np.linalg.norm(a + s * (b - a) - c - t * (d - c))
        first, second = a + grid[:, None] * (b - a), c + grid[:, None] * (d - c)
        assert got <= np.linalg.norm(first[:, None] - second[None], axis=-1).min() + 1e-9


def test_distance_from_a_polygon():
    square = np.array([[0.0, 0], [1, 0], [1, 1], [0, 1], [0.5, 0.5]])
    assert outside_of(square, np.array([0.5, 0.5])) == 0.0
    assert outside_of(square, np.array([2.0, 0.5])) == pytest.approx(1.0)


def test_the_method_is_chosen_by_the_settings(walk):
    made = make_follower(FIGURE, walk.skeleton, FollowSettings(method="decompose"))
    assert type(made).__name__ == "Decomposer"
    assert room_joints(walk.poses[0])[0].shape == (23, 3)


def test_an_arm_that_is_straight_and_twisted_bends_to_the_right_side(walk):
    """The twist of a straight arm has no effect on directions, so the elbow would stay at its limit."""
    follower = Follower(FIGURE, walk.skeleton)
    state = follower.step(rest_pose(walk.skeleton))
    for side in ("left", "right"):
        follower._angles[follower.bodies.dofs.index(f"{side}_shoulder_yaw")] -= 2.5
        follower._angles[follower.bodies.dofs.index(f"{side}_elbow")] = 9.0  # to its limit
    follower._angles = np.clip(follower._angles, *follower._limits.T)
    for i in range(60):
        pose = rest_pose(walk.skeleton, (i + 1) * 16_000_000)
        pose.rotations[[LEFT_LOWER_ARM, RIGHT_LOWER_ARM]] = [rot.from_yaw(-0.6), rot.from_yaw(0.6)]
        state = follower.step(pose)
    links = [FIGURE.robot.links(state.by_name(), state.base)]
    for name in ("left arm", "right arm"):
        assert _limb(FIGURE, name, links, [room_joints(pose)])[0] < 1.5


def test_bench_robot_measures_both_methods_and_names_a_file_that_it_cannot_read(tmp_path, capsys):
    bvh, out, missing = tmp_path / "user", tmp_path / "out.json", tmp_path / "none.urdf"
    assert main(["synth", "motion", "-o", str(bvh), "--user", "3", "--quiet"]) == 0
    files = [str(HUMANOID), str(missing), *map(str, bvh.glob("*.bvh"))]
    assert main(["bench", "robot", *files, "--seconds", "1", "--json", str(out)]) == 0
    told = capsys.readouterr()
    assert "arm_direction_deg" in told.out and f"{missing}: there is no such file" in told.err
    written = json.loads(out.read_text())
    assert [r["method"] for r in written["results"]] == ["follow", "decompose"]
    assert list(written["refused"]) == [str(missing)]
    heights = [written["medians"][m]["sole_height_mm"] for m in ("follow", "decompose")]
    assert heights == pytest.approx([0.0, -50.0], abs=3.0)  # only `follow` knows the sole below the ankle
    if find_spec("general_motion_retargeting") is None:
        assert main(["bench", "robot", *files, "--seconds", "1", "--methods", "gmr"]) == 2
        assert "needs the Python package general_motion_retargeting" in capsys.readouterr().err
    assert main(["bench", "robot", str(HUMANOID)]) == 2
    assert "expected at least one robot file" in capsys.readouterr().err


AFTER_WARM = """
import sys
from mm_ros.body.skeleton import default_skeleton
from mm_ros.body.types import rest_pose
from mm_ros.cli.warm import load_kernels
from mm_ros.robot import follow, kinematics, revolute
from mm_ros.robot.figure import read_figure
from mm_ros.ros.tf import RobotTf

def compiled():
    all = [(m.__name__, n, f) for m in (follow, kinematics, revolute) for n, f in vars(m).items()]
    return {(m, n): len(f.signatures) for m, n, f in all if hasattr(f, "signatures")}

load_kernels()
before = compiled()
figure, skeleton = read_figure(sys.argv[1]), default_skeleton()
for method in ("follow", "decompose"):
    follower = follow.make_follower(figure, skeleton, follow.FollowSettings(method=method))
    for stamp_ns in range(0, 50_000_000, 10_000_000):
        state = follower.step(rest_pose(skeleton, stamp_ns))
RobotTf(figure.robot, "a/", "map", True).serialized(0, state.base, figure.robot.with_mimics(state.by_name()))
print([name for name, number in compiled().items() if number != before[name]])
"""


def test_mm_ros_warm_compiles_all_kernels_of_a_robot():
    done = subprocess.run(
        [sys.executable, "-c", AFTER_WARM, str(HUMANOID)], capture_output=True, text=True, timeout=400
    )
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stdout + done.stderr
