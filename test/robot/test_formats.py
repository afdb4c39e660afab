"""Messages of receivers, read by independent parsers that were written from the published formats."""

import csv
import io
import json
import pickletools
import struct

import numpy as np
import pytest
from robots import HUMANOID

from mm_ros.base.errors import MmRosError
from mm_ros.body.skeleton import HIPS, LEFT_UPPER_ARM, default_skeleton
from mm_ros.body.types import rest_pose
from mm_ros.maths import rotations as rot
from mm_ros.robot import formats, smpl
from mm_ros.robot.figure import read_figure
from mm_ros.robot.guard import Command

rng = np.random.default_rng(0)
WIDTH = {"f32": ("f", 4), "f64": ("d", 8), "i32": ("i", 4), "i64": ("q", 8), "u8": ("B", 1), "bool": ("?", 1)}


def read_sonic(message: bytes, topic: str) -> tuple[dict, dict]:
    """Read as the receiver does: topic, 1280 bytes of header, then the fields in order."""
    assert message.startswith(topic.encode())
    message = message[len(topic) :]
    text, zeros = message[:1280].split(b"\0", 1)
    assert set(zeros) <= {0}
    header, at, out = json.loads(text), 1280, {}
    assert header["endian"] == "le" and header["count"] == len(header["fields"])
    for f in header["fields"]:
        letter, size = WIDTH[f["dtype"]]
        count = int(np.prod(f["shape"]))
        out[f["name"]] = np.array(struct.unpack_from(f"<{count}{letter}", message, at)).reshape(f["shape"])
        at += count * size
    assert at == len(message)  # nothing is left
    return header, out


def test_sonic_version_1():
    angles, rates, turns = rng.normal(size=(5, 29)), rng.normal(size=(5, 29)), rng.normal(size=(5, 4))
    header, got = read_sonic(formats.sonic_v1(angles, rates, turns, np.arange(7, 12)), "pose")
    assert header["v"] == 1 and list(got) == ["joint_pos", "joint_vel", "body_quat", "frame_index"]
    assert [f["dtype"] for f in header["fields"]] == ["f32", "f32", "f32", "i64"]
    assert got["joint_pos"] == pytest.approx(angles, abs=1e-6) and got["body_quat"] == pytest.approx(turns, abs=1e-6)
    assert got["frame_index"].tolist() == [7, 8, 9, 10, 11]


def test_sonic_version_3():
    n = 3
    body, poses = rng.normal(size=(n, 24, 3)), np.ones((n, 21, 3))
    message = formats.sonic_v3(np.zeros((n, 29)), np.zeros((n, 29)), np.zeros((n, 4)), range(n), body, poses)
    header, got = read_sonic(message, "pose")
    assert header["v"] == 3 and got["smpl_joints"].shape == (n, 24, 3) and got["smpl_pose"].shape == (n, 21, 3)


def test_sonic_planner_and_command():
    _, got = read_sonic(formats.sonic_command(True, False, True), "command")
    assert {k: v.tolist() for k, v in got.items()} == {"start": [1], "stop": [0], "planner": [1]}
    places, turns = np.arange(9).reshape(3, 3), np.arange(12).reshape(3, 4)
    header, got = read_sonic(formats.sonic_planner(2, [1, 0, 0], [0, 1, 0], 0.5, -1.0, places, turns), "planner")
    types = {f["name"]: f["dtype"] for f in header["fields"]}
    assert types["mode"] == "i32" and types["movement"] == "f32"
    assert got["vr_position"].tolist() == list(range(9)) and got["vr_orientation"].tolist() == list(range(12))


def test_the_planner_walks_as_the_base_does():
    figure = read_figure(HUMANOID)
    order = formats.breadth_order(figure)
    planner = formats.Planner(figure, order)
    still = Command(np.zeros(29), np.zeros(29))
    start = np.array([2.0, 1.0, 0.7, *rot.from_yaw(np.pi / 2)])
    for speed, mode in ((0.1, 0), (0.5, 1), (1.2, 2), (2.5, 3)):
        planner.message(still, start, 0.02)
        base = start + np.array([0.0, 0.02 * speed, 0, 0, 0, 0, 0])  # forward, because the base faces +y
        _, got = read_sonic(planner.message(still, base, 0.02), "planner")
        assert got["mode"].tolist() == [mode]
        assert got["movement"] == pytest.approx([min(mode, 1), 0, 0], abs=1e-6)
        assert got["speed"] == pytest.approx([speed if mode else -1.0], abs=1e-5)
        assert got["height"].tolist() == [-1.0]
    turned = np.array([*start[:3], *rot.from_yaw(np.pi / 2 + 0.5)])
    _, got = read_sonic(planner.message(still, turned, 0.02), "planner")
    assert got["facing"] == pytest.approx([np.cos(0.5), np.sin(0.5), 0], abs=1e-6)
    angles = np.linspace(-0.2, 0.3, 29)
    _, got = read_sonic(planner.message(Command(angles, np.zeros(29)), turned, 0.02), "planner")
    links = figure.robot.links(dict(zip(order, angles, strict=True)))  # the base is the pelvis of this robot
    left = links["left_hand"][:3] + rot.rotate(links["left_hand"][3:], np.array([0.18, -0.025, 0.0]))
    assert got["vr_position"][:3] == pytest.approx(left, abs=1e-5)
    assert got["vr_orientation"][4:8] == pytest.approx(links["right_hand"][3:], abs=1e-5)  # w x y z
    assert got["vr_orientation"][8:] == pytest.approx(links["chest"][3:], abs=1e-5)


def test_a_body_of_smpl():
    skeleton, pose = default_skeleton(), rest_pose(default_skeleton())
    assert smpl.rotation_vectors(pose).shape == (21, 3) and not smpl.rotation_vectors(pose).any()
    points = smpl.smpl_points(np.zeros((1, 21, 3)), skeleton)[0]
    rest = skeleton.rest_positions()
    assert points[16] == pytest.approx(rest[LEFT_UPPER_ARM] - rest[HIPS], abs=1e-6)
    assert points[22, 1] - points[20, 1] == pytest.approx(0.08) == points[21, 1] - points[23, 1]
    hanging = smpl.smpl_points(smpl.standing()[None], skeleton)[0]
    assert (hanging[[20, 21], 2] < points[[20, 21], 2] - 0.4).all()
    # z of SMPL points forward, y up, x to the left: a bow about our y is one about its x.
    bow = np.zeros((21, 3))
    bow[2] = [0.0, 0.3, 0.0]
    assert smpl.smpl_pose(bow)[2] == pytest.approx([0.3, 0.0, 0.0])


def test_orders_of_joints():
    figure = read_figure(HUMANOID)
    limbs, breadth = formats.limb_order(figure), formats.breadth_order(figure)
    assert limbs[:6] == tuple(
        f"left_{j}" for j in ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
    )
    assert limbs[12:15] == ("waist_yaw", "waist_roll", "waist_pitch") and limbs[22:23] == ("right_shoulder_pitch",)
    first = ("left_hip_pitch", "right_hip_pitch", "waist_yaw", "left_hip_roll", "right_hip_roll", "waist_roll")
    assert breadth[:6] == first
    assert sorted(limbs) == sorted(breadth) and len(limbs) == 29


def test_a_robot_with_other_joints_is_refused(tmp_path):
    (tmp_path / "robot.yaml").write_text("ignore: [left_wrist_yaw]\n")
    with pytest.raises(MmRosError, match="takes 29 body joints"):
        formats.limb_order(read_figure(HUMANOID, tmp_path / "robot.yaml"), "SONIC")


def test_twist2_keys():
    before = np.array([0.0, 0, 0.8, *rot.from_yaw(np.pi / 2)])
    turned = rot.multiply(rot.from_yaw(np.pi / 2 + 0.01), rot.exp(np.array([0.1, 0.0, 0.0])))
    base = np.array([0.0, 0.02, 0.8, *turned])
    keys = formats.twist2("g1", base, before, 0.02, np.arange(29.0), 1234)
    names = ["action_body_g1", "action_hand_left_g1", "action_hand_right_g1", "action_neck_g1", "t_action"]
    assert sorted(keys) == names
    body = json.loads(keys["action_body_g1"])
    assert len(body) == 35
    assert body[:2] == pytest.approx([1.0, 0.0], abs=0.02)  # 2 cm forward in 20 ms, in the root's own axes
    assert body[2:6] == pytest.approx([0.8, 0.1, 0.0, 0.5], abs=1e-6)
    assert body[6:] == list(range(29))
    assert [len(json.loads(keys[f"action_{k}_g1"])) for k in ("hand_left", "hand_right", "neck")] == [7, 7, 2]
    assert json.loads(keys["t_action"]) == 1234


def test_beyondmimic_csv():
    bases, angles = rng.normal(size=(4, 7)), rng.normal(size=(4, 29))
    rows = [[float(v) for v in row] for row in csv.reader(io.StringIO(formats.beyondmimic_csv(bases, angles)))]
    assert [len(row) for row in rows] == [36] * 4
    assert rows[2][:3] == pytest.approx(bases[2, :3], abs=1e-6)
    assert rows[2][3:7] == pytest.approx(bases[2, [4, 5, 6, 3]], abs=1e-6)  # x y z w
    assert rows[2][7:] == pytest.approx(angles[2], abs=1e-6)


def test_gmr_pickle_names_its_fields_and_runs_only_numpy():
    bases = rng.normal(size=(4, 7))
    data = formats.gmr_pickle(30.0, bases, rng.normal(size=(4, 29)), rng.normal(size=(4, 2, 3)), ["a", "b"])
    words = [arg for _, arg, _ in pickletools.genops(data) if isinstance(arg, str)]
    fields = ["fps", "root_pos", "root_rot", "dof_pos", "local_body_pos", "link_body_list"]
    assert [w for w in words if w in fields] == fields
    modules = {w for w in words if "." in w or w == "numpy"}
    assert all(m.startswith("numpy") for m in modules), modules
    rotations = np.ascontiguousarray(bases[:, [4, 5, 6, 3]]).tobytes()
    assert rotations in data  # root_rot is x y z w, (4, 4) of float64
