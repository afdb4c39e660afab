"""Duplicated facts agree, each gate can fail, and missing tools are reported in a sentence."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
CMAKE = (REPOSITORY / "CMakeLists.txt").read_text()


def run(*command: object, cwd: Path = REPOSITORY, **environment: str) -> subprocess.CompletedProcess[str]:
    # These tests are run by make, and run make.
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**plain, **environment},
    )  # fmt: skip


# --- described in two places -----------------------------------------------------------------------------------


def cmake_nodes() -> list[str]:
    block = re.search(r"set\(MM_ROS_NODES\n(.*?)\n\)", CMAKE, re.S)
    assert block
    return block.group(1).split()


def test_cmakes_nodes_are_those_of_graph() -> None:
    from mm_ros.ros import graph

    assert sorted(cmake_nodes()) == sorted(node.name for node in graph.NODES)


def test_every_module_of_nodes_is_a_node_and_installed() -> None:
    sources = {path.stem: path.read_text() for path in (REPOSITORY / "mm_ros" / "ros" / "nodes").glob("*.py")}
    # The graph's benchmark is beside the nodes but is not a node.
    nodes = {name for name, text in sources.items() if f"class {name.title().replace('_', '')}(AvatarNode)" in text}
    assert nodes == set(cmake_nodes())


def test_cmakes_messages_are_those_of_msg() -> None:
    assert sorted(re.findall(r"msg/(\w+\.msg)", CMAKE)) == sorted(p.name for p in (REPOSITORY / "msg").glob("*.msg"))


def test_versions_agree() -> None:
    import mm_ros

    root = ElementTree.parse(REPOSITORY / "package.xml").getroot()
    assert root.findtext("version") == mm_ros.__version__


@pytest.mark.parametrize("path", sorted((REPOSITORY / "msg").glob("*.msg")), ids=lambda path: path.stem)
def test_every_field_of_a_message_has_a_comment(path: Path) -> None:
    bare = {"uint32 epoch", "std_msgs/Header header"}
    for line in path.read_text().splitlines():
        field = line.split("#")[0].strip()
        if field and field not in bare and "=" not in field:
            assert "#" in line, f"{path.name}: {field}"


def test_poses_travel_as_flat_float32() -> None:
    from mm_ros.msg import AvatarPose

    fields = AvatarPose.get_fields_and_field_types()
    for name in ("positions", "rotations", "velocities", "angular_velocities"):
        assert fields[name] == "sequence<float>"


def test_tf_message_is_that_of_ros() -> None:
    """The type hash of ROS 2's own tf2_msgs/msg/TFMessage (from the sources of rmw_zenoh)."""
    from rclpy.type_support import check_for_type_support
    from tf2_msgs.msg import TFMessage

    check_for_type_support(TFMessage)
    folder = Path(sys.prefix) / "share" / "tf2_msgs" / "msg" / "TFMessage.json"
    if not folder.is_file():
        pytest.skip("tf2_msgs is that of a ROS installation")
    assert "RIHS01_e369d0f05a23ae52508854b66f6aa0437f3449d652e8cbf22d5abe85d020f087" in folder.read_text()


def test_the_extras_that_were_promised_are_there() -> None:
    text = (REPOSITORY / "pyproject.toml").read_text()
    for extra in ("viewer", "openxr", "steamvr", "train", "test", "dev"):
        assert re.search(rf"^{extra} = \[", text, re.M)


def test_torch_is_never_installed_by_make_test() -> None:
    sys.path.insert(0, str(REPOSITORY))
    try:
        from build_support.setup_venv import read_pyproject, requirements
    finally:
        sys.path.pop(0)
    makefile = (REPOSITORY / "Makefile").read_text()
    pyproject = read_pyproject(Path(sys.executable))
    for extras in re.findall(r"--extras ([\w,]+)", makefile):
        assert not [line for line in requirements(pyproject, extras.split(",")) if line.startswith("torch")]


# --- missing tools are reported ---------------------------------------------------------------------------------


def test_an_old_python_is_refused_in_a_sentence() -> None:
    old = "import sys, runpy; sys.version_info = (3, 9, 1); runpy.run_path(sys.argv[1], run_name='__main__')"
    done = run(sys.executable, "-c", old, REPOSITORY / "build_support" / "setup_venv.py")
    assert done.returncode == 1
    assert "mm_ros needs Python 3.10 to 3.13" in done.stdout
    assert "make PYTHON=python3.12" in done.stdout
    assert "Traceback" not in done.stdout


def test_a_real_old_python_is_refused_in_a_sentence() -> None:
    found = sorted(Path("/root/.pyenv/versions").glob("3.[6-9].*/bin/python3")) or [
        Path(p) for name in ("python3.9", "python3.8") if (p := shutil.which(name))
    ]
    if not found:
        pytest.skip("no Python older than 3.10 on this machine")
    done = run(found[0], REPOSITORY / "build_support" / "setup_venv.py")
    assert "mm_ros needs Python 3.10 to 3.13" in done.stdout
    assert "Traceback" not in done.stdout


def test_missing_tools_are_named_with_their_packages(tmp_path: Path) -> None:
    code = "from build_support.messages import *\ntry: check_tools()\nexcept BuildError as error: print(error)"
    done = run(sys.executable, "-c", code, PATH=str(tmp_path), CXX="")
    assert "lacks a C++ compiler, cmake, make or ninja" in done.stdout
    assert "sudo apt install g++ cmake make" in done.stdout


def test_a_missing_venv_module_is_named_with_its_package(tmp_path: Path) -> None:
    without = "import sys, runpy; sys.modules['ensurepip'] = None; sys.argv = sys.argv[1:]; "
    without += "runpy.run_path(sys.argv[0], run_name='__main__')"
    script = REPOSITORY / "build_support" / "setup_venv.py"
    done = run(sys.executable, "-c", without, script, "--venv", tmp_path / "venv")
    assert done.returncode == 1
    assert f"sudo apt install python3.{sys.version_info[1]}-venv" in done.stdout
    assert "Traceback" not in done.stdout


def test_make_names_a_python_that_is_not_there() -> None:
    done = run("make", "lint", "PYTHON=python3.99")
    assert done.returncode
    assert "'python3.99' is not there" in done.stdout


def test_an_editable_install_is_refused_in_a_sentence() -> None:
    assert "no editable install" in (REPOSITORY / "setup.py").read_text()


def test_a_second_set_up_does_nothing() -> None:
    if not (Path(sys.prefix) / ".stamps" / "messages").is_file() or Path(sys.prefix).parent != REPOSITORY:
        pytest.skip("this Python's venv was not made by this checkout's Makefile")
    stamp = next((Path(sys.prefix) / ".stamps").glob("requirements=*"))
    extras = stamp.name.partition("=")[2].replace("+", ",")
    command = [sys.executable, "build_support/setup_venv.py", "--venv", sys.prefix, "--extras", extras]
    run(*command)
    assert run(*command).stdout == ""


# --- each gate fails when it should ----------------------------------------------------------------------------


def copied(folder: Path) -> Path:
    """A copy of sources and settings to damage."""
    shutil.copytree(REPOSITORY / "mm_ros", folder / "mm_ros", ignore=shutil.ignore_patterns("__pycache__", "*.onnx"))
    shutil.copy(REPOSITORY / "pyproject.toml", folder)
    return folder


def tool(name: str) -> list[str]:
    path = Path(sys.executable).parent / name
    if not path.is_file():
        pytest.skip(f"{name} is not installed: mm_ros setup lint")
    return [str(path)]


TORCH = "torch and matplotlib only in training and evaluation"
BREACHES = {
    "maths imports tracking": ("maths/springs.py", "import mm_ros.tracking", "Packages import downwards only"),
    "the search imports the matcher": ("search/brute.py", "import mm_ros.matching", "Packages import downwards only"),
    "a source imports ROS": ("tracking/sources/base.py", "import rclpy", "rclpy and ROS messages only in ros"),
    "evaluation imports nodes": ("evaluation/explain.py", "import mm_ros.ros.nodes", "Packages import downwards only"),
    "a node draws": ("ros/nodes/viewer.py", "import matplotlib", TORCH),
    "the chain trains": ("matching/matcher.py", "import torch", TORCH),
}


@pytest.fixture(scope="module")
def broken_contracts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The report about each contract that the breaches break together; one run for all of them takes a sixth."""
    folder = copied(tmp_path_factory.mktemp("breaches"))
    for name, line, _ in BREACHES.values():
        with (folder / "mm_ros" / name).open("a") as handle:
            handle.write(f"\n{line}\n")
    # python -c, so that mypy analyses the copy instead of the checkout on the venv's path.
    done = run(*tool("lint-imports"), "--no-cache", cwd=folder, PYTHONPATH=str(folder))
    assert done.returncode, done.stdout
    parts = re.split(r"^(.+)\n-+\n", done.stdout.split("Broken contracts")[1], flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("breach", BREACHES)
def test_an_import_against_the_layers_fails(broken_contracts: dict[str, str], breach: str) -> None:
    name, line, contract = BREACHES[breach]
    imported = f"mm_ros.{name.removesuffix('.py').replace('/', '.')} -> {line.removeprefix('import ')} "
    assert imported in broken_contracts[contract], broken_contracts


def test_ruff_fails_on_an_unused_import(tmp_path: Path) -> None:
    copy = copied(tmp_path)
    assert run(*tool("ruff"), "check", "mm_ros/base/cache.py", cwd=copy).returncode == 0
    with (copy / "mm_ros" / "base" / "cache.py").open("a") as handle:
        handle.write("\nimport json\n")
    assert run(*tool("ruff"), "check", "mm_ros/base/cache.py", cwd=copy).returncode == 1


@pytest.fixture(scope="module")
def mypy_cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What mypy found in the standard library: each run would analyse it again."""
    return str(tmp_path_factory.mktemp("mypy"))


@pytest.mark.parametrize("layer", ["matching", "show"])
def test_mypy_is_strict_below_ros(tmp_path: Path, layer: str, mypy_cache: str) -> None:
    folder = tmp_path / "mm_ros" / layer
    folder.mkdir(parents=True)
    for path in (tmp_path / "mm_ros", folder):
        (path / "__init__.py").write_text("")
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    (folder / "typed.py").write_text("def f(x: int) -> int:\n    return x\n")
    assert run(*tool("mypy"), cwd=tmp_path, MYPY_CACHE_DIR=mypy_cache).returncode == 0
    (folder / "bare.py").write_text("def f(x):\n    return x\n")
    done = run(*tool("mypy"), cwd=tmp_path, MYPY_CACHE_DIR=mypy_cache)
    assert done.returncode == 1
    assert "missing a type annotation" in done.stdout


def test_mypy_is_not_strict_elsewhere(tmp_path: Path, mypy_cache: str) -> None:
    folder = tmp_path / "mm_ros" / "ros"
    folder.mkdir(parents=True)
    for path in (tmp_path / "mm_ros", folder):
        (path / "__init__.py").write_text("")
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    (folder / "bare.py").write_text("def f(x):\n    return x\n")
    assert run(*tool("mypy"), cwd=tmp_path, MYPY_CACHE_DIR=mypy_cache).returncode == 0


def ci(tmp_path: Path, makefile: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / ".ci").mkdir()
    shutil.copy(REPOSITORY / ".ci" / "run", tmp_path / ".ci" / "run")
    (tmp_path / "Makefile").write_text(makefile)
    return run("bash", tmp_path / ".ci" / "run", cwd=tmp_path, **{"STAGES": "lint", **environment})


def test_ci_passes_when_all_pass(tmp_path: Path) -> None:
    done = ci(tmp_path, "lint:\n\t@echo linted\ntest:\n\t@echo 3 passed\n")
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1] == "3 passed"


def test_ci_fails_when_a_stage_fails_and_still_runs_the_tests(tmp_path: Path) -> None:
    done = ci(tmp_path, "lint:\n\t@exit 1\ntest:\n\t@echo 3 passed\n")
    assert done.returncode == 1
    assert "!!! FAILED: lint" in done.stdout
    assert done.stdout.splitlines()[-1] == "3 passed"


def test_ci_fails_when_the_tests_fail(tmp_path: Path) -> None:
    assert ci(tmp_path, "lint:\ntest:\n\t@exit 1\n").returncode != 0


def test_ci_is_loud_but_passes_without_an_openxr_runtime(tmp_path: Path) -> None:
    recipe = "test-openxr:\n\t@echo '# OpenXR was NOT tested: no debootstrap'; exit 3\ntest:\n\t@echo 3 passed\n"
    done = ci(tmp_path, recipe, STAGES="OpenXR")
    assert done.returncode == 0
    assert "!!! OPENXR IS NOT TESTED" in done.stdout


def test_ci_fails_when_the_openxr_tests_fail(tmp_path: Path) -> None:
    done = ci(tmp_path, "test-openxr:\n\t@echo 1 failed; exit 1\ntest:\n\t@echo 3 passed\n", STAGES="OpenXR")
    assert done.returncode == 1
