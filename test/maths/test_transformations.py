"""ROS's tf_transformations and transforms3d alone give the same rotations."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mm_ros.maths import rotations as rot
from mm_ros.maths import transformations

RANDOM = np.random.default_rng(3)

# Stand-in for ROS's package, which pip lacks: w last and 4 × 4 matrices, by transforms3d like the real package.
ROS_PACKAGE = """
from transforms3d import euler, quaternions

def quaternion_from_matrix(matrix):
    assert matrix.shape == (4, 4)
    w, x, y, z = quaternions.mat2quat(matrix[:3, :3])
    return [x, y, z, w]

def quaternion_from_euler(ai, aj, ak, axes="sxyz"):
    w, x, y, z = euler.euler2quat(ai, aj, ak, axes=axes)
    return [x, y, z, w]

def euler_from_quaternion(quaternion, axes="sxyz"):
    x, y, z, w = quaternion
    return euler.quat2euler([w, x, y, z], axes=axes)
"""


@pytest.fixture
def ros_package(tmp_path: Path) -> Path:
    (tmp_path / "tf_transformations.py").write_text(ROS_PACKAGE)
    return tmp_path


@pytest.fixture(params=["with ROS's package", "without"])
def module(request, ros_package, monkeypatch):
    """The module as imported with or without ROS's package."""
    if request.param == "without":
        monkeypatch.setitem(sys.modules, "tf_transformations", None)
    else:
        monkeypatch.delitem(sys.modules, "tf_transformations", raising=False)
        monkeypatch.syspath_prepend(str(ros_package))
    spec = importlib.util.spec_from_file_location("transformations_anew", transformations.__file__)
    out = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(out)
    assert (out.tf_transformations is None) == (request.param == "without")
    yield out
    sys.modules.pop("tf_transformations", None)


def test_matrices_become_quaternions(module):
    q = rot.normalize(RANDOM.normal(size=(200, 4)))
    turned = np.array([module.quaternion_from_matrix(m) for m in rot.to_matrix(q)])
    np.testing.assert_allclose(turned, q * np.where(q[:, :1] < 0, -1, 1), atol=1e-12)
    for axis in np.eye(3):  # half turns, where w is 0
        half = module.quaternion_from_matrix(rot.to_matrix(np.array([0.0, *axis])))
        np.testing.assert_allclose(np.abs(half), [0, *axis], atol=1e-12)


def test_roll_pitch_and_yaw_turn_about_fixed_axes(module):
    for roll, pitch, yaw in RANDOM.uniform(-1.5, 1.5, (200, 3)):
        x, y, z = (rot.exp(np.eye(3)[k] * a) for k, a in enumerate((roll, pitch, yaw)))
        q = module.quaternion_from_rpy(roll, pitch, yaw)
        np.testing.assert_allclose(q, rot.multiply(z, rot.multiply(y, x)), atol=1e-12)
        np.testing.assert_allclose(module.rpy_from_quaternion(q), (roll, pitch, yaw), atol=1e-9)


@pytest.mark.parametrize("pitch", [np.pi / 2, -np.pi / 2])
def test_a_vertical_pitch_is_still_the_same_rotation(module, pitch):
    q = module.quaternion_from_rpy(0.4, pitch, 1.1)
    again = module.quaternion_from_rpy(*module.rpy_from_quaternion(q))
    assert abs(float(q @ again)) == pytest.approx(1.0, abs=1e-12)


EDGES = """
import json, sys
import numpy as np
from mm_ros.body.skeleton import default_skeleton
from mm_ros.robot.urdf import parse_urdf
from mm_ros.robot.description import capsules_urdf
from mm_ros.tracking.sources.axes import from_matrix

urdf = '<robot name="r"><link name="a"/><link name="b"/><joint name="j" type="fixed"><parent link="a"/>' \\
    '<child link="b"/><origin xyz="1 2 3" rpy="0.1 0.2 0.3"/></joint></robot>'
position, rotation = from_matrix(np.array([[0, 0, -1, 1], [1, 0, 0, 2], [0, -1, 0, 3.0]]))
print(json.dumps({
    "ros": "tf_transformations" in sys.modules,
    "steamvr": [*position, *rotation],
    "urdf": parse_urdf(urdf).joints[0].origin.tolist(),
    "capsules": capsules_urdf(default_skeleton(), "a"),
}))
"""


def test_the_edges_give_the_same_on_a_machine_with_the_ros_package_and_without(ros_package):
    def edges(path: str) -> dict:
        environment = {"PYTHONPATH": path, "PATH": "/usr/bin", "ROS_LOG_DIR": str(ros_package)}
        done = subprocess.run(
            [sys.executable, "-c", EDGES], env=environment, text=True, capture_output=True, check=True, timeout=120,
            cwd=Path(__file__).parents[2],
        )  # fmt: skip
        return json.loads(done.stdout)

    pip, ros = edges(""), edges(str(ros_package))
    assert (pip.pop("ros"), ros.pop("ros")) == (False, True)
    assert pip == ros
    np.testing.assert_allclose(pip["urdf"], [1, 2, 3, 0.98334744, 0.0342708, 0.10602051, 0.14357218], atol=1e-8)
    np.testing.assert_allclose(pip["steamvr"], [-3, -1, 2, 0.5, -0.5, 0.5, -0.5], atol=1e-12)
