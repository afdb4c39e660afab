"""Both installations: a wheel in a second venv and a colcon workspace. Equal hashes, and a complete uninstall."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from processes import running

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = ("build_support", "config", "launch", "mm_ros", "msg", "rviz")
FILES = ("CMakeLists.txt", "LICENSE", "MANIFEST.in", "README.md", "package.xml", "pyproject.toml", "setup.py")

pytestmark = pytest.mark.slow_packaging


NOT_OURS = ("_ROS_WHEELS_BOOTSTRAP_COMPLETE", "LD_LIBRARY_PATH", "PYTHONPATH")


def run(*command: object, cwd: Path, **environment: str) -> str:
    # The ROS wheels' environment of this Python does not fit the Python of another venv.
    plain = {k: v for k, v in os.environ.items() if k not in NOT_OURS}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**plain, **environment}, timeout=1200, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tracked files, without the builds of this checkout."""
    folder = tmp_path_factory.mktemp("sources") / "mm_ros"
    folder.mkdir()
    for name in SOURCES:
        if (REPOSITORY / name).is_dir():
            shutil.copytree(REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(REPOSITORY / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", folder, sources, cwd=folder)
    (path,) = folder.glob("mm_ros-*.whl")
    return path


def listing(prefix: Path) -> set[str]:
    """All files, except the bytecode that Python writes beside the modules of other packages."""
    paths = {str(path.relative_to(prefix)) for path in prefix.rglob("*")}
    return {path for path in paths if "__pycache__" not in path or "mm_ros" in path or "tf2_msgs" in path}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*") if path.name != "__pycache__"}


class Installed:
    """A second venv with the wheel, and the files that were in it before."""

    def __init__(self, prefix: Path, before: set[str]) -> None:
        self.prefix = prefix
        self.before = before
        self.cache = prefix.parent / "cache"

    def python(self, *arguments: object, **environment: str) -> str:
        return run(
            self.prefix / "bin" / "python",
            *arguments,
            cwd=self.prefix.parent,
            MM_ROS_CACHE=str(self.cache),
            **environment,
        )


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    prefix = tmp_path_factory.mktemp("second") / "venv"
    run(sys.executable, "-m", "venv", prefix, cwd=prefix.parent)
    pip = (prefix / "bin" / "python", "-m", "pip", "install", "--quiet")
    # The wheel's dependencies first, so that the difference to `before` is the wheel alone.
    run(*pip, wheel, cwd=prefix.parent)
    run(prefix / "bin" / "python", "-m", "pip", "uninstall", "--quiet", "-y", "mm_ros", cwd=prefix.parent)
    before = listing(prefix)
    run(*pip, "--no-deps", wheel, cwd=prefix.parent)
    return Installed(prefix, before)


def test_wheel_brings_modules_messages_and_share(installed: Installed) -> None:
    out = installed.python(
        "-c",
        "import mm_ros.body.types, mm_ros.msg, tf2_msgs.msg; from mm_ros.base.share import share_folder;"
        "print(mm_ros.__file__, mm_ros.msg.__file__, tf2_msgs.msg.__file__, share_folder())",
    )
    assert all(word.startswith(str(installed.prefix)) for word in out.split()), out
    share = installed.prefix / "share" / "mm_ros"
    for folder in ("launch", "config", "rviz"):
        assert names(share / folder) == names(REPOSITORY / folder)
    (package,) = installed.prefix.glob("lib/python3.*/site-packages/mm_ros")
    assert names(package / "models") == names(REPOSITORY / "mm_ros" / "models")
    assert (installed.prefix / "share/ament_index/resource_index/packages/mm_ros").is_file()


def test_command_and_executables_work(installed: Installed) -> None:
    import mm_ros

    out = run(installed.prefix / "bin" / "mm_ros", "--version", cwd=installed.prefix.parent)
    assert out.strip() == f"mm_ros {mm_ros.__version__}"
    from mm_ros.ros import graph

    for node in graph.NODES:
        assert os.access(installed.prefix / "lib" / "mm_ros" / node.name, os.X_OK)


def test_doctor_says_that_the_demo_can_run(installed: Installed) -> None:
    report = installed.prefix.parent / "doctor.json"
    assert "The demo can run" in installed.python("-m", "mm_ros", "doctor", "--json", report)
    findings = {finding["topic"]: finding["state"] for finding in json.loads(report.read_text())["findings"]}
    assert findings["ROS"] == findings["middleware"] == findings["messages"] == "ok"


SUBSCRIBER = """
import rclpy
from mm_ros.msg import TrackerArray
rclpy.init()
node = rclpy.create_node("listener")
heard = []
node.create_subscription(TrackerArray, "trackers", heard.append, 20)  # 2 s
print("ready", flush=True)
for _ in range(600):
    rclpy.spin_once(node, timeout_sec=0.1)
    if heard:
        info = node.get_publishers_info_by_topic("/trackers")[0]
        print(heard[0].epoch, [t.role for t in heard[0].trackers], info.topic_type, info.topic_type_hash, flush=True)
        break
"""

PUBLISHER = """
import time, rclpy
from mm_ros.msg import Tracker, TrackerArray
rclpy.init()
node = rclpy.create_node("talker")
publisher = node.create_publisher(TrackerArray, "trackers", 20)
for _ in range(600):
    publisher.publish(TrackerArray(epoch=7, trackers=[Tracker(role="head"), Tracker(role="left_hand")]))
    time.sleep(0.1)
    if _ > 20 and not publisher.get_subscription_count():
        break
"""


def test_messages_go_from_one_process_to_another(installed: Installed) -> None:
    python = str(installed.prefix / "bin" / "python")
    inherited = {k: v for k, v in os.environ.items() if k not in ("_ROS_WHEELS_BOOTSTRAP_COMPLETE", "LD_LIBRARY_PATH")}
    environment = {**inherited, "MM_ROS_CACHE": str(installed.cache)}
    plain = {"env": environment, "cwd": "/"}
    hearing = running([python, "-c", SUBSCRIBER], stdout=subprocess.PIPE, text=True, **plain)
    with hearing as listener, running([python, "-c", PUBLISHER], **plain):
        out, _ = listener.communicate(timeout=90)
    assert "7 ['head', 'left_hand'] mm_ros/msg/TrackerArray" in out


@pytest.fixture(scope="module")
def workspace(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    colcon = Path(sys.prefix) / "bin" / "colcon"
    if not colcon.is_file():
        pytest.skip("colcon is not installed: mm_ros setup colcon")
    if not (Path(sys.prefix) / "share" / "ament_cmake_core").is_dir():
        pytest.skip("the venv does not hold the wheels to build messages with: make venv")
    folder = tmp_path_factory.mktemp("workspace")
    (folder / "src").mkdir()
    (folder / "src" / "mm_ros").symlink_to(sources)
    run(
        colcon, "build", "--cmake-args", "-DBUILD_TESTING=OFF", f"-DPython3_EXECUTABLE={sys.executable}", cwd=folder,
        AMENT_PREFIX_PATH=sys.prefix, CMAKE_PREFIX_PATH=sys.prefix,
        PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    )  # fmt: skip
    return folder


def test_sourced_workspace_gives_the_installed_ones(workspace: Path) -> None:
    code = "import mm_ros.msg, mm_ros.maths; print(mm_ros.msg.__file__, mm_ros.maths.__file__)"
    out = run("bash", "-c", f"source install/setup.bash && cd / && {sys.executable} -c '{code}'", cwd=workspace)
    assert all(word.startswith(str(workspace / "install")) for word in out.split()), out


def test_setup_resolves_extras_from_a_wheel_and_from_a_workspace(installed: Installed, workspace: Path) -> None:
    assert "pyopenxr==" in installed.python("-m", "mm_ros", "setup", "openxr", "--dry-run")
    call = f"source install/setup.bash && cd / && {sys.executable} -m mm_ros setup openxr --dry-run"
    assert "pyopenxr==" in run("bash", "-c", call, cwd=workspace)


def hashes(share: Path) -> dict[str, str]:
    found = {}
    for path in (share / "mm_ros" / "msg").glob("*.json"):
        for entry in json.loads(path.read_text())["type_hashes"]:
            found[entry["type_name"]] = entry["hash_string"]
    return found


def test_pip_and_colcon_build_the_same_types(installed: Installed, workspace: Path) -> None:
    by_pip = hashes(installed.prefix / "share")
    assert by_pip == hashes(workspace / "install" / "mm_ros" / "share")
    for path in (REPOSITORY / "msg").glob("*.msg"):
        assert by_pip[f"mm_ros/msg/{path.stem}"].startswith("RIHS01_")


def test_uninstalling_leaves_the_cache_which_clean_removes(installed: Installed) -> None:
    """The last test, because it removes the installation."""
    installed.python("-c", "import numba, mm_ros.base.cache as c; c.writable_root()")
    assert installed.cache.is_dir()
    installed.python("-m", "mm_ros", "clean")
    assert not installed.cache.exists()
    installed.python("-m", "pip", "uninstall", "--quiet", "-y", "mm_ros")
    assert listing(installed.prefix) == installed.before
