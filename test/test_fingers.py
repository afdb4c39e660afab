"""A skeleton of 53 joints through the whole chain: import → database → match → pose → TF, and the picture of it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bvh_dialects import LIMBS_LAFAN, SPINE_LAFAN, names_of, walk

from mm_ros.base.errors import MmRosError
from mm_ros.body.clip import Clip
from mm_ros.body.fingers import FINGERS, NAMES_OF_FINGERS, with_fingers
from mm_ros.body.mesh import skin
from mm_ros.body.shape import room_joints
from mm_ros.body.skeleton import LEFT_HAND, NAMES, Skeleton, default_skeleton
from mm_ros.body.types import Calibration, rest_pose
from mm_ros.cli.main import main
from mm_ros.maths import rotations as rot
from mm_ros.motion.bvh.reader import write_bvh
from mm_ros.motion.cleaning.clips import mirror
from mm_ros.motion.database import MotionDatabase
from mm_ros.motion.files import read_database
from mm_ros.motion.importing import ImportOptions, import_files
from mm_ros.motion.importing.export import Dialect, to_bvh
from mm_ros.motion.importing.fingers import finger_of
from mm_ros.pose.postprocess import PostSettings, PostStage

JOINTS = 53
CURL_RAD = 0.8  # largest bend of each joint of the four fingers
MIXAMO = {"little": "Pinky"}


def walk_with_fingers() -> Clip:
    """A procedural walk whose fingers open and close once a second; the right hand is half a period behind."""
    clip = walk()
    skeleton = with_fingers(clip.skeleton)
    f = len(clip)
    positions = np.broadcast_to(skeleton.offsets, (f, JOINTS, 3)).copy()
    rotations = np.tile(np.array([1.0, 0, 0, 0], np.float32), (f, JOINTS, 1))
    positions[:, : len(NAMES)], rotations[:, : len(NAMES)] = clip.positions, clip.rotations
    for j in range(len(NAMES), JOINTS):
        name = skeleton.names[j]
        side = 1.0 if name.startswith("left") else -1.0
        bend = CURL_RAD * (1 + side * np.sin(2 * np.pi * np.arange(f) / clip.rate)) / 2
        if "thumb" not in name:  # fingers bend about x
            rotations[:, j] = rot.exp(np.stack([-side * bend, 0 * bend, 0 * bend], -1))
    return replace(clip, skeleton=skeleton, positions=positions, rotations=rotations)


def dialect() -> Dialect:
    fingers = {
        f"{side}_{finger}_{k}": f"{side.capitalize()}Hand{MIXAMO.get(finger, finger.capitalize())}{k}"
        for side in ("left", "right")
        for finger in FINGERS
        for k in (1, 2, 3)
    }
    return Dialect(names_of(SPINE_LAFAN, LIMBS_LAFAN) | fingers)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fingers") / "hands_01.bvh"
    write_bvh(to_bvh(walk_with_fingers(), dialect()), path)
    return path


@pytest.fixture(scope="module")
def database_file(file: Path) -> Path:
    path = file.with_suffix(".mmdb")
    assert main(["import", str(file), "-o", str(path), "--fingers", "--mirror", "--stooped", "0", "--quiet"]) == 0
    return path


@pytest.fixture(scope="module")
def database(database_file: Path) -> MotionDatabase:
    return read_database(database_file)


def bends(rotations: np.ndarray, joint: int) -> np.ndarray:
    return np.linalg.norm(rot.log(rotations[:, joint].astype(np.float64)), axis=-1)


def test_fingers_are_imported_when_asked_for(file: Path) -> None:
    truth = walk_with_fingers()
    (plain,) = import_files([file]).clips
    assert plain.skeleton.names == NAMES
    (clip,) = import_files([file], ImportOptions(further=True)).clips
    assert clip.skeleton.names == NAMES + NAMES_OF_FINGERS
    assert np.array_equal(clip.positions[:, : len(NAMES)], plain.positions)
    assert np.array_equal(clip.rotations[:, : len(NAMES)], plain.rotations)
    away_m = clip.skeleton.offsets[len(NAMES) :] - truth.skeleton.offsets[len(NAMES) :]
    assert np.abs(away_m).max() < 3e-3  # the import turns the palm by 1°
    for name in NAMES_OF_FINGERS:
        j = truth.skeleton.index(name)
        away = rot.multiply(rot.inverse(truth.rotations[:, j]), clip.rotations[:, j])
        assert np.abs(rot.log(away)).max() < 0.03, name


def test_a_file_without_fingers_gets_straight_ones(tmp_path: Path) -> None:
    path = tmp_path / "walk_01.bvh"
    write_bvh(to_bvh(walk()), path)
    (clip,) = import_files([path], ImportOptions(further=True)).clips
    assert len(clip.skeleton) == JOINTS
    assert np.abs(clip.rotations[:, len(NAMES) :] - (1, 0, 0, 0)).max() < 1e-6
    assert clip.skeleton.offsets[clip.skeleton.index("left_middle_2"), 1] == pytest.approx(0.044, abs=0.01)


@pytest.mark.parametrize(
    ("name", "finger"),
    [
        ("mixamorig:LeftHandIndex2", "index"), ("LThumb", "thumb"), ("Bip01 L Finger0", "thumb"),
        ("Bip01 R Finger42", "little"), ("index_metacarpal_l", ""), ("pinky_01_l", "little"),
        ("LeftInHandRing", ""), ("LeftHandRing1", "ring"), ("LeftHand", ""), ("LeftFingerBase", ""),
    ],
)  # fmt: skip
def test_fingers_are_found_by_their_names(name: str, finger: str) -> None:
    assert finger_of(name) == finger


def test_the_database_keeps_the_tree_and_mirrors_it(database: MotionDatabase) -> None:
    skeleton = database.skeleton
    assert skeleton.names == NAMES + NAMES_OF_FINGERS and database.positions.shape[1] == JOINTS
    assert skeleton.names[skeleton.parents[skeleton.index("right_ring_3")]] == "right_ring_2"
    assert skeleton.names[skeleton.parents[skeleton.index("right_ring_1")]] == "right_hand"
    left, right = skeleton.index("left_index_1"), skeleton.index("right_index_1")
    assert skeleton.mirrored[left] == right and skeleton.mirrored[right] == left
    one, other = (slice(a, b) for a, b in zip(database.range_starts, database.range_stops, strict=True))
    difference = bends(database.rotations[one], left) - bends(database.rotations[other], right)
    assert np.abs(difference).max() < 0.01
    assert np.ptp(bends(database.rotations[one], left)) > 0.9 * CURL_RAD


def test_mirroring_twice_is_the_identity() -> None:
    clip = walk_with_fingers()
    twice = mirror(mirror(clip))
    assert np.array_equal(twice.positions, clip.positions) and np.array_equal(twice.rotations, clip.rotations)


def test_a_pose_with_other_joints_than_its_skeleton_is_refused(database: MotionDatabase) -> None:
    stage = PostStage(PostSettings(), database.skeleton, Calibration())
    with pytest.raises(MmRosError, match="has 23 joints; expected the 53"):
        stage.step(rest_pose(default_skeleton(), 1))
    with pytest.raises(MmRosError, match="has 23 joints; expected the 53"):
        room_joints(rest_pose(default_skeleton()), database.skeleton)


def test_tf_of_the_running_nodes_holds_every_finger(
    database_file: Path, database: MotionDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    rclpy = pytest.importorskip("rclpy", reason="rclpy is not installed")
    pytest.importorskip("mm_ros.msg", reason="the messages are not built")
    from chain_in_process import FRAME_NS, Chain
    from rclpy.parameter import Parameter
    from sensor_msgs.msg import Joy

    from mm_ros.ros.conversions import calibration_to_ros

    rclpy.init()
    chain = None
    try:
        given = [Parameter("database", value=str(database_file))]
        chain = Chain(monkeypatch, "joystick_control", "pose_postprocessor", "motion_matcher", motion_matcher=given)
        chain.send("calibration", calibration_to_ros(Calibration(calibrated=True), chain.now_ns))
        bent = []
        for _ in range(90):
            chain.send("joy", Joy(axes=[0.0, 0.6, 0.0, 0.0, 0.0], buttons=[0] * 6))
            chain.pump()
            chain.now_ns += 3 * FRAME_NS // 2
            chain.nodes["joystick_control"]._step()
            chain.pump()
            if chain.tf:
                by_name = {t.child_frame_id: t for t in chain.tf[-1].transforms}
                q = by_name["chain/left_ring_2"].transform.rotation
                bent.append(2 * np.arccos(min(abs(q.w), 1.0)))
    finally:
        if chain is not None:
            chain.close()
        rclpy.try_shutdown()
    assert by_name.keys() == {f"chain/{n}" for n in database.skeleton.names}
    assert by_name["chain/left_ring_2"].header.frame_id == "chain/left_ring_1"
    assert by_name["chain/left_ring_1"].header.frame_id == "chain/left_hand"
    assert np.ptp(bent) > 0.5 * CURL_RAD


def test_the_skin_has_fingers_that_bend() -> None:
    skeleton = with_fingers(default_skeleton())
    mesh = skin(skeleton)
    used = {skeleton.names[j] for j in np.unique(mesh.joints[mesh.weights > 0.3])}
    assert {"left_index_2", "right_little_1", "left_thumb_2"} <= used
    pose = rest_pose(skeleton)
    flat, _ = mesh.posed(*room_joints(pose, skeleton))
    for name in NAMES_OF_FINGERS:
        if name.startswith("left") and "thumb" not in name:
            pose.rotations[skeleton.index(name)] = rot.exp(np.array([-1.2, 0.0, 0.0]))
    fist, _ = mesh.posed(*room_joints(pose, skeleton))
    wrist = skeleton.rest_positions()[LEFT_HAND, 1]
    assert fist[:, 1].max() < flat[:, 1].max() - 0.05
    assert np.abs(fist - flat)[flat[:, 1] < wrist - 0.05].max() < 1e-6


@pytest.mark.parametrize(
    ("names", "parents", "sentence"),
    [
        ((*NAMES[::-1], "extra"), None, "its first joints must be root, hips"),
        ((*NAMES, "hips"), (10,), "different names"),
        ((*NAMES, "extra"), (23,), "must follow its parent"),
        ((*NAMES, "extra"), (-1,), "must follow its parent"),
    ],
)
def test_a_tree_that_is_none_is_refused(
    names: tuple[str, ...], parents: tuple[int, ...] | None, sentence: str
) -> None:
    tree = np.array([*default_skeleton().parents, *(parents or (10,))], np.int32)
    with pytest.raises(MmRosError, match=sentence):
        Skeleton(np.zeros((len(names), 3), np.float32), names, tree)


def test_a_left_joint_without_a_right_one_cannot_be_mirrored() -> None:
    tree = np.array([*default_skeleton().parents, LEFT_HAND], np.int32)
    lonely = Skeleton(np.zeros((24, 3), np.float32), (*NAMES, "left_extra"), tree)
    with pytest.raises(MmRosError, match="'right_extra' is not in the skeleton"):
        _ = lonely.mirrored


def test_the_learned_engine_is_not_trained_on_fingers(database: MotionDatabase) -> None:
    pytest.importorskip("torch")
    from mm_ros.matching.training.data import motion_data

    with pytest.raises(MmRosError, match="has 23 joints, the database 53"):
        motion_data(database)
