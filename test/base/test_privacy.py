"""mm_ros writes no identifier into the home folder and sends nothing to a network."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("mm_ros.msg", reason="the messages are not built")

from net_link import Link, ip, missing_rights

from mm_ros.base.cache import cache_root
from mm_ros.base.onnx_runtime import ort
from mm_ros.facing.model_file import MODELS

WAIT_S = 120.0
BARE_SESSION = (
    "import onnxruntime, sys, time\n"
    f"session = onnxruntime.InferenceSession({str(MODELS / 'facing.onnx')!r}, providers=['CPUExecutionProvider'])\n"
)
OWN_CONNECTION = "import socket; socket.create_connection(('own.connection.test', 443), 1)\n"


def has_telemetry() -> bool:
    """Whether this wheel of onnxruntime has the client that ORT_DISABLE_TELEMETRY switches off."""
    folder = Path(ort.__file__).parent / "capi"
    return any(b"ORT_DISABLE_TELEMETRY" in path.read_bytes() for path in folder.glob("*.so*"))


def environment(home: Path, **more: str) -> dict[str, str]:
    """Environment without the variables of CI and without a telemetry switch of the caller."""
    names = ("PATH", "PYTHONPATH", "AMENT_PREFIX_PATH", "LD_LIBRARY_PATH", "ROS_DOMAIN_ID")
    known = {name: os.environ[name] for name in names if name in os.environ}
    return known | {"HOME": str(home), "MM_ROS_CACHE": str(cache_root()), **more}


def files_in(home: Path) -> list[str]:
    return sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())


def run(home: Path, *words: object) -> None:
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(command, env=environment(home), capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("network", ["facing.onnx", "learned_procedural.onnx"])
def test_a_session_writes_no_file_into_the_home_folder(tmp_path: Path, network: str):
    run(tmp_path, "-m", "mm_ros", "info", MODELS / network)
    run(tmp_path, "-c", "from mm_ros.matching.model_file import LearnedModel; LearnedModel()")
    assert files_in(tmp_path) == []


def test_without_the_switch_a_session_leaves_an_identifier(tmp_path: Path):
    """Shows that the test above can fail."""
    if not has_telemetry():
        pytest.skip(f"onnxruntime {ort.__version__} has no telemetry client on this platform")
    run(tmp_path, "-c", BARE_SESSION)
    assert any(name.endswith("deviceid") for name in files_in(tmp_path))


def test_clean_lists_what_it_keeps_and_how_to_remove_it(tmp_path: Path):
    folders = [
        ".config/mm_ros/users", ".config/mm_ros/headset", ".local/state/mm_ros/users", ".ros/log",
        ".cache/Microsoft/DeveloperTools/.onnxruntime",
    ]  # fmt: skip
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
    command = [sys.executable, "-m", "mm_ros", "clean"]
    cache = str(tmp_path / "cache")
    done = subprocess.run(command, env=environment(tmp_path) | {"MM_ROS_CACHE": cache}, capture_output=True, text=True)
    commands = [line.partition("remove it by: ")[2] for line in done.stdout.splitlines() if line.startswith("kept: ")]
    for line in commands:
        subprocess.run(["sh", "-c", line], check=True)
    assert len(commands) == len(folders), done.stdout + done.stderr
    assert not [folder for folder in folders if (tmp_path / folder).exists()]
    help_text = subprocess.run([*command, "--help"], env=environment(tmp_path), capture_output=True, text=True).stdout
    assert all(name in help_text for name in ("~/.ros/log", ".onnxruntime", *(f"~/{name}" for name in folders[:2])))


class Side:
    """One network namespace, whose programs reach only the listener in the other one."""

    def __init__(self, link: Link, side: int, folder: Path) -> None:
        self.link, self.side, self.home = link, side, folder / f"home{side}"
        self.home.mkdir()
        self.names = Path("/etc/netns") / link.names[side]
        self.names.mkdir(parents=True)
        (self.names / "resolv.conf").write_text(f"nameserver {self.address(1 - side)}\n")
        ip("-n", link.names[side], "route", "add", "default", "via", self.address(1 - side))
        self.log, self.heard_log = folder / f"log{side}", folder / f"heard{side}"
        self.started: list[subprocess.Popen] = []
        self.start(self.heard_log, str(Path(__file__).parents[1] / "net_ear.py"), self.address(side))

    @staticmethod
    def address(side: int) -> str:
        return f"10.99.8.{side + 1}"

    def start(self, log: Path, *words: str) -> subprocess.Popen:
        command = self.link.command(self.side, sys.executable, *words)
        with log.open("ab") as out:
            self.started.append(subprocess.Popen(command, stdout=out, stderr=out, env=environment(self.home)))
        return self.started[-1]

    def close(self) -> None:
        for process in self.started:
            process.kill()
        for process in self.started:
            process.wait()
        shutil.rmtree(self.names)


def wait_for(text: str, log: Path) -> None:
    until = time.monotonic() + WAIT_S
    while text not in (log.read_text() if log.exists() else ""):
        assert time.monotonic() < until, f"{text!r} is not in {log}: {log.read_text()}"
        time.sleep(0.05)


def test_the_graph_sends_nothing_and_the_listener_would_have_heard_it(tmp_path: Path):
    """The graph in one namespace, a bare session, started later, in the other. Only the session connects."""
    why = missing_rights()
    if why:
        pytest.skip(why)
    link, sides = Link(), []
    try:
        sides.extend(Side(link, side, tmp_path) for side in range(2))
        ours, bare = sides
        wait_for("listening", ours.heard_log)
        wait_for("listening", bare.heard_log)
        graph = ours.start(ours.log, "-m", "mm_ros", "up", "--trackers", "synthetic")
        wait_for("orientation_predictor]: ready", ours.log)
        bare.start(bare.log, "-c", BARE_SESSION + ("" if has_telemetry() else OWN_CONNECTION) + "time.sleep(1000)")
        wait_for("tcp 443", ours.heard_log)  # what a side sends arrives at the other side's listener
        assert graph.poll() is None, ours.log.read_text()
        assert bare.heard_log.read_text() == "listening\n"
        assert not [name for name in files_in(ours.home) if not name.startswith(".ros/log/")]
    finally:
        for side in sides:
            side.close()
        link.close()
