"""No process of mm_ros imports from the current folder."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hostile_folder import HostileFolder
from processes import installed_command

from mm_ros.base.own_python import module_command

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def downloads(tmp_path: Path) -> HostileFolder:
    return HostileFolder(tmp_path / "downloads")


def run(command: list[str], folder: HostileFolder, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder.path, capture_output=True, text=True, timeout=240, env=os.environ | environment
    )


def test_plain_python_m_imports_from_the_current_folder(downloads: HostileFolder) -> None:
    """Shows that the tests below can fail."""
    run([sys.executable, "-m", "mm_ros", "--version"], downloads, PYTHONSAFEPATH="")
    assert downloads.imported()


def test_the_installed_command_does_not(downloads: HostileFolder) -> None:
    done = run([installed_command("mm_ros"), "info", "none.mmdb"], downloads)
    assert "none.mmdb" in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert downloads.imported() == []


def test_our_own_python_does_not_and_gives_words_and_status_on(downloads: HostileFolder) -> None:
    done = run(module_command("mm_ros", "info", "none of these.mmdb"), downloads)
    assert done.returncode == 2 and "none of these.mmdb" in done.stderr, done.stderr
    assert run(module_command("pip", "--version"), downloads).stdout.startswith("pip ")
    assert downloads.imported() == []


def test_a_node_does_not(downloads: HostileFolder) -> None:
    pytest.importorskip("rclpy", reason="rclpy is not installed")
    pytest.importorskip("mm_ros.msg", reason="the messages are not built")
    process = subprocess.Popen(
        [installed_command("path_control"), "--ros-args", "-r", "__ns:=/downloads"],
        cwd=downloads.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if "ready" in line:
                break
        assert "ready" in said[-1], "".join(said)
    finally:
        process.kill()
        process.communicate()
    assert downloads.imported() == []


def test_helper_processes_do_not(downloads: HostileFolder) -> None:
    code = "import sys; sys.path[:] = filter(None, sys.path); from mm_ros.base.workers import in_its_own; "
    done = run([sys.executable, "-c", f"{code}print(in_its_own(abs, -3))"], downloads)
    assert done.stdout == "3\n", done.stderr
    assert downloads.imported() == []


def test_every_process_of_ours_is_started_by_module_command() -> None:
    folders = ("mm_ros", "launch", "tools")
    sources = [path for folder in folders for path in (REPOSITORY / folder).rglob("*.py")]
    by_m = [
        f"{path}:{node.lineno}"
        for path in sources
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.List)
        and len(node.elts) > 1
        and any(isinstance(e, ast.Constant) and e.value == "-m" for e in node.elts)
    ]
    assert by_m == []
