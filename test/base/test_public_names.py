"""Every module can be imported, every verb has its three names, every dependency is declared."""

import ast
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "mm_ros"
# Import names of packages that only an extra installs.
OPTIONAL = {"viser", "xr", "openvr", "torch", "matplotlib", "onnx", "launch", "launch_ros", "scipy", "PIL", "imageio"}
OPTIONAL |= {"bvhio", "pymotion", "ray", "faiss", "annoy", "hnswlib", "playwright"}
OPTIONAL |= {"ament_index_python", "ai_edge_litert", "cv2"}
# Import name → name of the distribution, where they differ.
DISTRIBUTION = {
    "llvmlite": "numba",
    "lz4": "rosbags",
    "zstandard": "rosbags",
    "backports": "rosbags",
    "yaml": "pyyaml",
    "rclpy": "ros-jazzy-rclpy",
    "PIL": "pillow",
    "xr": "pyopenxr",
    "ai_edge_litert": "ai-edge-litert",
    "cv2": "opencv-python-headless",
    "faiss": "faiss-cpu",
    "pymotion": "upc-pymotion",
    "zmq": "pyzmq",
}
ROS_MESSAGES = re.compile(r"\w+_(msgs|interfaces)|std_srvs|rosidl_runtime_py")
NEWER_PYTHONS = {"compression", "tomllib"}
FROM_ROS = {"launch", "launch_ros", "tf_transformations", "ament_index_python", "tf2_ros", "rosbag2_py"}
FROM_ROS |= {"rosidl_parser"}  # each generated message imports it


def modules() -> list[str]:
    paths = sorted(path.relative_to(PACKAGE.parent) for path in PACKAGE.rglob("*.py"))
    names = [".".join(path.with_suffix("").parts) for path in paths if path.name != "__main__.py"]
    return [name.removesuffix(".__init__") for name in names]


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return found


def third_party(path: Path) -> set[str]:
    tops = {name.split(".")[0] for name in imports(path)}
    return {top for top in tops if top not in sys.stdlib_module_names | NEWER_PYTHONS | {"mm_ros"}}


@pytest.mark.parametrize("name", modules())
def test_every_module_imports(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] in OPTIONAL:
            pytest.skip(f"{name} needs {error.name}, which an extra brings")
        raise
    for public in getattr(module, "__all__", ()):
        assert hasattr(module, public), f"{name}.__all__ promises {public}"


def test_the_ground_imports_no_ros() -> None:
    code = (
        "import sys, mm_ros, mm_ros.avatar, mm_ros.maths.jit, mm_ros.body.types;"
        "print([m for m in ('rclpy', 'mm_ros.msg', 'onnxruntime', 'rosbags') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


FROM_A_CHECKOUT = ("general_motion_retargeting",)  # GMR, for `mm_ros bench robot`; no package index has it


def test_every_third_party_import_is_declared() -> None:
    text = (PACKAGE.parent / "pyproject.toml").read_text()
    declared = {name.lower() for name in re.findall(r'^\s*"?([A-Za-z][\w-]*)(?:\[[\w,]+\])?[<>=~"]', text, re.M)}
    declared |= {name.lower() for name in re.findall(r'"([A-Za-z][\w-]*)(?:\[[\w,]+\])?[<>=~"]', text)}
    for path in PACKAGE.rglob("*.py"):
        for top in third_party(path):
            if ROS_MESSAGES.fullmatch(top) or top in FROM_ROS or top in ("rclpy", "pip", "tomllib", *FROM_A_CHECKOUT):
                continue
            name = DISTRIBUTION.get(top, top).lower()
            assert name in declared, f"{path} imports {top}; pyproject.toml knows no {name}"


def test_every_ros_package_that_is_imported_is_in_package_xml() -> None:
    text = (PACKAGE.parent / "package.xml").read_text()
    for path in PACKAGE.rglob("*.py"):
        for top in third_party(path):
            if ROS_MESSAGES.fullmatch(top) and top not in ("rosidl_runtime_py",):
                assert f"depend>{top}<" in text, f"{path} imports {top}; package.xml does not depend on it"


# --- verbs ---------------------------------------------------------------------------------------------------


def verb_rows() -> list[tuple[str, ...]]:
    from mm_ros.cli.main import VERBS

    return [(verb, sub) if sub else (verb,) for verb, subs in VERBS.items() for sub in (subs or ("",))]


@pytest.mark.parametrize("words", verb_rows(), ids=" ".join)
def test_verb_is_there_and_its_help_shows_an_example(words: tuple[str, ...]) -> None:
    from mm_ros.cli.main import exists, one_line_help

    assert exists(*words), f"mm_ros {' '.join(words)} has no module in mm_ros/cli"
    assert one_line_help(*words), f"mm_ros {' '.join(words)} has no HELP"
    done = subprocess.run(
        [sys.executable, "-m", "mm_ros", *words, "--help"], capture_output=True, text=True, cwd=PACKAGE.parent
    )
    assert done.returncode == 0, done.stderr
    assert "mm_ros " + " ".join(words) in done.stdout
    assert "example" in done.stdout.lower(), f"mm_ros {' '.join(words)} --help shows no example"


def test_every_command_file_is_in_the_table() -> None:
    from mm_ros.cli.main import module_name

    table = {module_name(*words) for words in verb_rows()}
    for path in (PACKAGE / "cli").glob("*.py"):
        tree = ast.parse(path.read_text())
        is_verb = any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in tree.body)
        assert not is_verb or path.stem in table, f"{path.name} has run(), but cli.VERBS does not name it"


def test_help_lists_the_verbs_without_importing_them() -> None:
    code = (
        "import sys\n"
        "from mm_ros.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "assert not {'numba', 'rclpy', 'numpy', 'torch'} & set(sys.modules), 'heavy'"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent)
    assert done.returncode == 0, done.stderr
    assert "doctor" in done.stdout


# --- main() with wrong arguments --------------------------------------------------------------------------------


@pytest.fixture
def failing_verb(monkeypatch: pytest.MonkeyPatch):
    from mm_ros.cli import clean

    def fail_with(error: BaseException) -> None:
        def run(_args: object) -> int:
            raise error

        monkeypatch.setattr(clean, "run", run)

    return fail_with


def test_a_users_mistake_is_one_sentence_and_exit_code_2(failing_verb, capsys: pytest.CaptureFixture[str]) -> None:
    from mm_ros.base.errors import MmRosError
    from mm_ros.cli.main import main

    failing_verb(MmRosError("joint 'Tail' is not in skeleton 'cmu'"))
    assert main(["clean"]) == 2
    assert capsys.readouterr().err == "mm_ros: joint 'Tail' is not in skeleton 'cmu'\n"


def test_ctrl_c_is_exit_code_130(failing_verb) -> None:
    from mm_ros.cli.main import main

    failing_verb(KeyboardInterrupt())
    assert main(["clean"]) == 130


def test_a_mistake_of_ours_keeps_its_traceback(failing_verb) -> None:
    from mm_ros.cli.main import main

    failing_verb(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        main(["clean"])


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    done = subprocess.run(
        f"{sys.executable} -m mm_ros --help | head -c 1", shell=True, capture_output=True, text=True, cwd=PACKAGE.parent
    )
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_unknown_verb_lists_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    from mm_ros.cli.main import main

    with pytest.raises(SystemExit) as info:
        main(["walk"])
    assert info.value.code == 2
    assert "doctor" in capsys.readouterr().err


def test_bench_all_goes_on_after_one_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from mm_ros.base.errors import MmRosError
    from mm_ros.cli import bench_all
    from mm_ros.cli.main import main

    def run_verb(words: tuple[str, ...], argv: list[str]) -> int:
        if words[1] == "search":
            os.sched_setaffinity(0, {max(cores)})  # as the benchmark does for its own figures
            raise MmRosError("no database")
        if words[1] == "paper":
            raise ZeroDivisionError
        Path(argv[1]).write_text('{"p99": 3.5}')
        return 0

    cores = os.sched_getaffinity(0)
    monkeypatch.setattr(bench_all, "available", lambda: {"bench": ("search", "paper", "graph", "all")})
    monkeypatch.setattr(bench_all, "run_verb", run_verb)
    report = tmp_path / "bench.json"
    assert main(["bench", "all", "--json", str(report)]) == 1
    written = json.loads(report.read_text())
    assert (written["search"], written["paper"], written["graph"]) == (None, None, {"p99": 3.5})
    assert os.sched_getaffinity(0) == cores
    assert written["machine"]["cores"]
