"""BlazePose: its arithmetic in small, the real networks on real pictures, and the node over DDS.

The networks come from `mm_ros pose-setup`; pictures of people from scikit-image, or from the folder MM_ROS_PEOPLE.
"""

import hashlib
import itertools
import os
import time
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from processes import PATIENCE_S

from mm_ros.base.errors import MmRosError
from mm_ros.body.landmarks import LEFT_HIP, LEFT_SHOULDER, NOSE, RIGHT_HIP, RIGHT_SHOULDER
from mm_ros.cli import main as cli
from mm_ros.facing.camera import blazepose as bp
from mm_ros.facing.camera import model_file as pose_models
from mm_ros.facing.camera.estimator import BlazePose, Networks, load_networks, warm_up
from mm_ros.facing.camera.one_euro import OneEuro
from mm_ros.facing.camera.pictures import pictures, read_picture

# ---- around the networks


def test_the_whole_picture_is_cut_out_unchanged():
    image = np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    out = bp.cut(image, *bp.whole(image), 64, 0.0, 255.0, True)
    np.testing.assert_allclose(out[0], image, atol=1e-3)


def test_a_wide_picture_gets_black_borders():
    image = np.full((32, 64, 3), 255, np.uint8)
    out = bp.cut(image, *bp.whole(image), 64, -1.0, 1.0, False)[0]
    assert out[32].min() == pytest.approx(1.0)
    assert out[5].max() == out[60].max() == pytest.approx(-1.0)


def test_what_was_cut_out_is_found_again_in_the_picture():
    """A bright dot in a turned region: where it is in the cut, times the region, is where it was."""
    image = np.zeros((200, 300, 3), np.uint8)
    image[80:83, 190:193] = 255
    region = bp.Region(180.0, 90.0, 120.0, 0.5)
    out = bp.cut(image, *region, 256, 0.0, 1.0, True)[0, :, :, 0]
    v, u = np.unravel_index(np.argmax(out), out.shape)
    bright = np.argwhere(out > 0.9).mean(0)
    assert np.hypot(*(bright - (v, u))) < 6
    np.testing.assert_allclose(bp.in_picture(bright[::-1] / 256, region), (191, 81), atol=0.6)


def test_a_person_who_stands_upright_is_cut_out_upright():
    region = bp.region_around((100.0, 120.0), (100.0, 40.0))
    assert region == pytest.approx((100.0, 120.0, 200.0, 0.0))
    assert bp.region_around((100.0, 120.0), (180.0, 120.0)).angle == pytest.approx(np.pi / 2)


def test_the_anchors_are_as_many_as_the_detector_says():
    assert bp.ANCHORS.shape == (2254, 2)
    assert bp.ANCHORS.min() > 0 and bp.ANCHORS.max() < 1


def test_two_boxes_of_one_person_are_one_and_others_stay():
    boxes, scores = np.zeros((2254, 12), np.float32), np.full(2254, -50.0, np.float32)
    boxes[:, 2:4] = 60.0
    near, far = 0, 28 * 28 * 2 - 1  # first and last cell of the finest layer
    scores[[near, near + 1, far]] = 3.0, 1.0, 2.0
    found = bp.detections(boxes, scores, 0.5)
    assert len(found) == 2
    assert found[0].score > found[1].score
    assert found[0].hips == pytest.approx((0.5 / 28, 0.5 / 28))


def test_a_hill_in_the_heatmap_draws_its_landmark():
    heat = np.full((64, 64, 1), -20.0, np.float32)
    heat[31, 33] = 10.0
    points = np.array([[32 / 64, 31.4 / 64]])
    bp.refine(points, heat)
    np.testing.assert_allclose(points[0], (33 / 64, 31 / 64), atol=1e-3)
    outside = np.array([[1.4, -0.2]])
    bp.refine(outside, heat)
    np.testing.assert_array_equal(outside, [[1.4, -0.2]])


def test_the_world_is_in_the_cameras_body_axes():
    """The network: x right, y down, z away. A person tilted in the picture is set upright again."""
    raw = np.zeros((39, 3), np.float32)
    raw[0] = (0.1, -0.6, -0.2)
    raw[1] = (0.0, -1.0, 0.0)
    np.testing.assert_allclose(bp.world_of(raw, bp.Region(0, 0, 1, 0.0))[0], (-0.2, -0.1, 0.6), atol=1e-6)
    np.testing.assert_allclose(bp.world_of(raw, bp.Region(0, 0, 1, np.pi / 2))[1], (0, -1, 0), atol=1e-6)


def test_one_euro_keeps_still_values_and_calms_trembling_ones():
    rng = np.random.default_rng(1)
    still, noisy = OneEuro(0.1, 40.0), OneEuro(0.1, 0.5)
    for _ in range(50):
        np.testing.assert_allclose(still.step(np.array([2.0]), 1 / 30), 2.0)
    values = np.array([noisy.step(rng.normal(size=1) * 0.01, 1 / 30)[0] for _ in range(300)])
    assert values[50:].std() < 0.005


class Scripted:
    """Networks that detect one person in the middle while the test sets this."""

    def __init__(self) -> None:
        self.there, self.searched = True, 0
        self.raw = np.zeros((39, 5), np.float32)
        self.raw[:, :2], self.raw[bp.RIM, 1] = 128.0, 20.0

    def detector(self, _picture):
        self.searched += 1
        boxes, scores = np.zeros((1, 2254, 12), np.float32), np.full((1, 2254, 1), -50.0, np.float32)
        boxes[..., 7] = -80.0  # the rim above
        scores[0, 14 * 28 * 2 + 28] = 5.0 if self.there else -50.0
        return [boxes, scores]

    def landmarks(self, _picture):
        world = np.random.default_rng(0).normal(size=(1, 117)).astype(np.float32)
        presence = np.array([[1.0 if self.there else 0.0]], np.float32)
        return [self.raw.reshape(1, 195), presence, None, np.full((1, 64, 64, 39), -20.0, np.float32), world]


def test_a_person_is_searched_once_and_again_when_lost():
    fake, image = Scripted(), np.zeros((100, 100, 3), np.uint8)
    estimator = BlazePose(Networks(fake.detector, fake.landmarks))
    for i in range(3):
        assert estimator.step(image, i * 33_000_000) is not None
    assert fake.searched == 1
    fake.there = False
    assert estimator.step(image, 99_000_000) is None
    assert estimator.step(image, 132_000_000) is None
    fake.there = True
    assert estimator.step(image, 165_000_000) is not None
    assert fake.searched == 3


def test_a_picture_of_another_shape_is_refused_with_its_shape():
    fake = Scripted()
    with pytest.raises(MmRosError, match=r"\(100, 100\)"):
        BlazePose(Networks(fake.detector, fake.landmarks)).step(np.zeros((100, 100), np.uint8), 0)


# ---- sources and models, and errors when they are missing


def test_missing_networks_are_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("MM_ROS_CACHE", str(tmp_path))
    with pytest.raises(MmRosError, match="mm_ros setup pose"):
        load_networks()


def test_a_wheel_without_the_networks_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("MM_ROS_CACHE", str(tmp_path))
    wrong = tmp_path / "x.whl"
    wrong.write_bytes(b"no zip")
    with pytest.raises(MmRosError, match=r"x\.whl is not a wheel"):
        pose_models.fetch_models(wrong)


def test_a_network_that_was_tampered_with_is_refused_and_not_kept(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("MM_ROS_CACHE", str(tmp_path / "cache"))
    true = {name: f"network {name}".encode() for name in pose_models.FILES}
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in true.items()}
    monkeypatch.setattr(pose_models, "FILES", digests)
    for name in true:
        wheel = tmp_path / "mediapipe.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for other, value in true.items():
                archive.writestr(f"modules/{other}", value + b"!" * (other == name))
        assert cli.main(["pose-setup", "--wheel", str(wheel)]) == 2
        assert f"modules/{name} is not the file that" in capsys.readouterr().err
        assert not (pose_models.models_folder() / name).exists()
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in true.items():
            archive.writestr(f"modules/{name}", data)
    folder = pose_models.fetch_models(wheel)
    (folder / pose_models.DETECTOR).write_bytes(b"changed later")
    with pytest.raises(MmRosError, match="has a wrong SHA-256"):
        pose_models.model_paths()


def test_a_camera_that_is_not_there_is_a_sentence(tmp_path):
    with pytest.raises(MmRosError, match="neither the number of a webcam"):
        pictures("/nowhere/film.mp4")
    with pytest.raises(MmRosError, match="has no pictures"):
        pictures(str(tmp_path))
    if find_spec("cv2") is None:
        with pytest.raises(MmRosError, match="setup webcam"):
            next(pictures("0"))


def test_a_folder_is_a_film(tmp_path):
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    for i in range(3):
        image.fromarray(np.full((20, 30, 3), 80 * i, np.uint8)).save(tmp_path / f"{i}.png")
    film = list(pictures(str(tmp_path)))
    assert [int(p[0, 0, 0]) for p, _ in film] == [0, 80, 160]
    assert film[1][1] == pytest.approx(1 / 30)


# ---- the real networks on real people


def people() -> list[Path]:
    folder = os.environ.get("MM_ROS_PEOPLE")
    if folder:
        return sorted(p for p in Path(folder).iterdir() if p.suffix in (".jpg", ".png"))
    spec = find_spec("skimage")
    found = Path(spec.origin).parent / "data" / "astronaut.png" if spec and spec.origin else None
    return [found] if found and found.is_file() else []


@pytest.fixture(scope="module")
def estimator() -> BlazePose:
    pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed: mm_ros setup pose")
    try:
        out = BlazePose(load_networks())
    except MmRosError as error:
        pytest.skip(str(error))
    warm_up(out)
    return out


@pytest.fixture(scope="module")
def portrait(estimator):
    """A picture with a person in it, and that person's landmarks."""
    for path in people():
        image = read_picture(path)
        estimator.reset()
        found = estimator.step(image, 0)
        if found is not None:
            return path, image, found
    pytest.skip("no picture of a person: install scikit-image, or set MM_ROS_PEOPLE to a folder of some")


def test_a_real_person_is_found_the_right_way_up(portrait):
    _, _, found = portrait
    p = found.positions
    assert found.confidence > 0.8
    assert p[NOSE, 2] > p[LEFT_SHOULDER, 2] > p[LEFT_HIP, 2]
    assert 0.2 < np.linalg.norm(p[LEFT_SHOULDER] - p[RIGHT_SHOULDER]) < 0.5
    np.testing.assert_allclose((p[LEFT_HIP] + p[RIGHT_HIP]) / 2, 0, atol=0.03)


def test_the_mirrored_picture_shows_the_mirrored_person(portrait, estimator):
    _, image, found = portrait
    estimator.reset()
    other = estimator.step(np.ascontiguousarray(image[:, ::-1]), 0)
    assert other is not None
    shares = np.abs(1 - other.image[[NOSE, LEFT_SHOULDER], 0] - found.image[[NOSE, RIGHT_SHOULDER], 0])
    assert shares.max() < 0.03


def test_a_person_is_followed_without_searching_again(portrait, estimator):
    _, image, _ = portrait
    estimator.reset()
    before = estimator.detections
    rolled = [np.roll(image, 2 * i, axis=1) for i in range(8)]
    noses = [estimator.step(r, i * 33_000_000).image[NOSE, 0] * image.shape[1] for i, r in enumerate(rolled)]
    assert estimator.detections == before + 1
    assert noses[-1] - noses[0] == pytest.approx(14, abs=6)


def test_the_rate_on_a_real_picture_is_told(portrait, estimator, capsys):
    """Print the rate, because machines differ; assert only that each picture gives landmarks."""
    _, image, _ = portrait
    estimator.reset()
    start, n = time.perf_counter(), 40
    found = [estimator.step(image, i * 33_000_000) for i in range(n)]
    rate = n / (time.perf_counter() - start)
    assert all(f is not None for f in found)
    with capsys.disabled():
        print(f"\npose estimator: {rate:.0f} pictures a second of {image.shape[1]} x {image.shape[0]}, one thread")


def test_noise_shows_no_person(estimator):
    estimator.reset()
    assert estimator.step(np.random.default_rng(0).integers(0, 255, (240, 320, 3)).astype(np.uint8), 0) is None


# ---- the node


def test_an_image_over_dds_becomes_landmarks(portrait, tmp_path):
    pytest.importorskip("rclpy", reason="rclpy is not installed")
    pytest.importorskip("mm_ros.msg", reason="the messages are not built")
    import rclpy
    from graph_harness import Client, NodeProcess
    from sensor_msgs.msg import Image

    from mm_ros.ros.conversions import landmarks_from_ros

    _, image, found = portrait
    rclpy.init()
    client, process = Client("seen", ("landmarks",)), NodeProcess("pose_estimator", "seen", tmp_path / "log")
    try:
        process.wait_ready()
        sender = client.publisher("image")
        bgr = np.ascontiguousarray(image[:, :, ::-1])
        msg = Image(height=image.shape[0], width=image.shape[1], encoding="bgr8", step=3 * image.shape[1])
        msg.data.frombytes(bgr.tobytes())
        seconds = itertools.count(100)

        def heard() -> bool:
            msg.header.stamp.sec = next(seconds)
            sender.publish(msg)
            return client.spin_until(lambda: bool(client.received["landmarks"]), 0.1)

        assert client.spin_until(heard, PATIENCE_S), process.said()
        got = landmarks_from_ros(client.received["landmarks"][0])
        np.testing.assert_allclose(got.positions, found.positions, atol=1e-5)
        assert got.stamp_ns // 10**9 >= 100
        assert process.stop() == 0, process.said()
    finally:
        process.kill()
        client.close()
        rclpy.try_shutdown()


def test_the_node_without_networks_says_how_to_get_them(tmp_path, monkeypatch):
    pytest.importorskip("rclpy", reason="rclpy is not installed")
    pytest.importorskip("mm_ros.msg", reason="the messages are not built")
    from graph_harness import NodeProcess

    monkeypatch.setenv("MM_ROS_CACHE", str(tmp_path))
    with NodeProcess("pose_estimator", "blind", tmp_path / "log") as process:
        assert process.process.wait(PATIENCE_S) == 2
    assert "mm_ros setup pose" in process.said()
    assert "Traceback" not in process.said()
