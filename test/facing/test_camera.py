"""Videos and webcams by OpenCV: their pictures, errors when they are missing, and the node with a video."""

from pathlib import Path

import numpy as np
import pytest
from processes import PATIENCE_S
from test_pose_estimator import people

from mm_ros.base.errors import MmRosError
from mm_ros.facing.camera.estimator import load_networks
from mm_ros.facing.camera.pictures import pictures, read_picture

cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed: mm_ros setup webcam")
RATE = 10.0


def write_video(path: Path, images) -> Path:
    height, width = images[0].shape[:2]
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), RATE, (width, height))
    assert writer.isOpened()
    for image in images:
        writer.write(np.ascontiguousarray(image[:, :, ::-1]))
    writer.release()
    return path


@pytest.fixture
def person() -> np.ndarray:
    found = people()
    if not found:
        pytest.skip("no picture of a person: install scikit-image, or set MM_ROS_PEOPLE to a folder of some")
    return read_picture(found[0])


def test_a_video_gives_its_pictures_red_first_in_its_own_time(tmp_path):
    colours = np.array([(200, 40, 40), (40, 200, 40), (40, 40, 200), (200, 200, 40)])
    film = list(pictures(str(write_video(tmp_path / "a.avi", [np.full((48, 64, 3), c, np.uint8) for c in colours]))))
    assert [p.shape for p, _ in film] == [(48, 64, 3)] * 4
    np.testing.assert_allclose([p.mean((0, 1)) for p, _ in film], colours, atol=8)
    np.testing.assert_allclose([t for _, t in film], np.arange(4) / RATE, atol=1e-6)


def test_what_is_no_video_is_refused_at_once(tmp_path):
    broken = tmp_path / "broken.avi"
    broken.write_bytes(np.random.default_rng(0).bytes(5000))
    with pytest.raises(MmRosError, match=r"broken\.avi cannot be opened: is it a complete video"):
        pictures(str(broken))


def test_a_video_that_stops_after_its_head_is_a_sentence(tmp_path):
    whole = write_video(tmp_path / "whole.avi", [np.full((48, 64, 3), 90, np.uint8)] * 5).read_bytes()
    cut = tmp_path / "cut.avi"
    cut.write_bytes(whole[: whole.index(b"movi") + 4])
    with pytest.raises(MmRosError, match=r"cut\.avi (cannot be opened|holds no picture)"):
        list(pictures(str(cut)))


def test_a_webcam_that_is_not_there_is_refused_at_once():
    with pytest.raises(MmRosError, match="webcam 63 cannot be opened: is it connected"):
        pictures("webcam 63")


def node(tmp_path: Path, camera: str, **parameters):
    pytest.importorskip("rclpy", reason="rclpy is not installed")
    pytest.importorskip("mm_ros.msg", reason="the messages are not built")
    pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed: mm_ros setup pose")
    try:
        load_networks()
    except MmRosError as error:
        pytest.skip(str(error))
    from graph_harness import NodeProcess

    return NodeProcess("pose_estimator", "filmed", tmp_path / "log", camera=camera, **parameters)


@pytest.mark.parametrize("camera", ["webcam 63", "broken.avi"])
def test_the_node_ends_with_a_sentence_when_its_camera_cannot_be_opened(tmp_path, camera):
    (tmp_path / "broken.avi").write_bytes(b"no video")
    with node(tmp_path, camera if camera.startswith("webcam") else str(tmp_path / camera)) as process:
        assert process.process.wait(PATIENCE_S) == 2
    assert f"{camera} cannot be opened" in process.said()
    assert "Traceback" not in process.said()


def test_a_person_in_a_video_becomes_landmarks(person, tmp_path):
    """A person who walks to the right in the picture does so in the landmarks; a looped video continues."""
    film = write_video(tmp_path / "film.avi", [np.roll(person, 6 * i, axis=1) for i in range(10)])
    pytest.importorskip("rclpy", reason="rclpy is not installed")
    import rclpy
    from graph_harness import Client

    from mm_ros.body.landmarks import LEFT_HIP, LEFT_SHOULDER, NOSE
    from mm_ros.ros.conversions import landmarks_from_ros

    process = node(tmp_path, str(film), loop=True)
    try:
        rclpy.init()
        client = Client("filmed", ("landmarks",))
        process.wait_ready()
        assert client.spin_until(lambda: len(client.received["landmarks"]) >= 25, PATIENCE_S), process.said()
        got = [landmarks_from_ros(m) for m in client.received["landmarks"]]
        assert all(g.positions[NOSE, 2] > g.positions[LEFT_SHOULDER, 2] > g.positions[LEFT_HIP, 2] for g in got)
        assert np.ptp([g.image[NOSE, 0] for g in got]) * person.shape[1] == pytest.approx(54, abs=20)
        assert np.all(np.diff([g.stamp_ns for g in got]) > 0)
        assert process.stop() == 0, process.said()
        client.close()
    finally:
        process.kill()
        rclpy.try_shutdown()
