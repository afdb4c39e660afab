"""`mm_ros setup`: every hint that names it works literally, for every kind of installation."""

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from mm_ros.base.extras import extras, missing, resolved
from mm_ros.cli.main import main
from mm_ros.cli.setup import PURPOSES

TOP = Path(__file__).resolve().parents[2]
SOURCES = [TOP / "README.md", *sorted((TOP / "docs").glob("*.md")), *sorted((TOP / "mm_ros").rglob("*.py"))]
PROGRAM = r"""(?:mm_ros setup|setup_command\(["'])[ ]?"""
INSTALLS_MM_ROS_ITSELF = r"pip install (?:\.(?=[ `\n])|mm_ros-\*\.whl)"
CORE = {"docs/install.md": ["onnxruntime rosbags"]}  # not extras: pip keys of rosdep on a ROS 2 machine


def hints() -> dict[str, str]:
    """Extras after each `mm_ros setup` in the sources, and the first file that names them."""
    found: dict[str, str] = {}
    for path in SOURCES:
        for words in re.findall(rf"{PROGRAM}([a-z_]+(?: [a-z_]+)*)", path.read_text()):
            extras_named = " ".join(word for word in words.split() if word in PURPOSES)
            if extras_named:
                found.setdefault(extras_named, path.name)
    return found


def mm_ros(*words: str, python: Path | str = sys.executable, **where) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(python), "-m", "mm_ros", *words], capture_output=True, text=True, timeout=300, **where)


def test_the_hints_cover_the_extras_for_users():
    assert {"viewer", "openxr", "steamvr", "pose", "webcam", "plot", "train", "tune", "bench"} <= set(hints())


@pytest.mark.parametrize("words", hints())
def test_each_hint_resolves_to_requirements(words: str):
    done = mm_ros("setup", *words.split(), "--dry-run", cwd=TOP)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{sys.executable} -m pip install ")
    for line in resolved(extras(), words.split()):
        assert line in done.stdout
    assert "mm_ros" not in done.stdout.replace(sys.executable, "")


def test_no_text_names_another_way_to_install_an_extra():
    for path in SOURCES:
        text = path.read_text()
        name = str(path.relative_to(TOP))
        if name == "mm_ros/cli/setup.py":
            continue
        assert not re.search(r"mm_ros\[\w|'\.\[", text.replace('r"mm_ros\\[', "").replace("`mm_ros[a,b]`", "")), name
        for call in re.findall(r"pip install[^\n]*", text):
            known = re.match(INSTALLS_MM_ROS_ITSELF, call + "\n") or any(part in call for part in CORE.get(name, []))
            assert known, f"{name}: {call}"


def test_the_list_names_every_extra(capsys: pytest.CaptureFixture[str]):
    assert set(PURPOSES) == set(extras())
    assert main(["setup"]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()[2:]}
    assert set(rows) == set(extras())
    assert "installed" in rows["viewer"] or missing(resolved(extras(), ["viewer"]))


def test_an_unknown_extra_is_reported_in_one_sentence(capsys: pytest.CaptureFixture[str]):
    assert main(["setup", "headset"]) == 2
    assert "extra 'headset' does not exist. Extras: viewer, webxr, openxr" in capsys.readouterr().err


def test_a_plot_without_matplotlib_names_only_matplotlib(tmp_path: Path, monkeypatch, capsys):
    from bvh_dialects import DIALECTS, walks

    from mm_ros.motion.bvh.reader import write_bvh
    from mm_ros.motion.importing.export import to_bvh

    write_bvh(to_bvh(walks()["walk 1.3"], DIALECTS["Xsens"]), tmp_path / "a.bvh")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["info", str(tmp_path / "a.bvh"), "--plot", str(tmp_path / "a.png")]) == 2
    assert "--plot needs matplotlib" in (said := capsys.readouterr().err)
    assert said.strip().endswith("mm_ros setup plot")
    assert resolved(extras(), ["plot"]) == ["matplotlib"]


# --- every state of installation -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new virtual environment."""
    folder = tmp_path_factory.mktemp("bare") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, capture_output=True)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of one module that an extra can name without network access."""
    path = tmp_path_factory.mktemp("part") / "tiny_part-1.0-py3-none-any.whl"
    info = "tiny_part-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tiny_part.py", "")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny_part\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


def put(modules: Path, share: Path, part: Path) -> None:
    """Install mm_ros with an extra `plot` that names `part`."""
    ignored = shutil.ignore_patterns("__pycache__", "*.onnx")
    shutil.copytree(TOP / "mm_ros", modules / "mm_ros", ignore=ignored)
    share.mkdir(parents=True, exist_ok=True)
    shutil.copy(TOP / "package.xml", share)
    text = (TOP / "pyproject.toml").read_text()
    assert 'plot = ["matplotlib"]' in text
    new = text.replace('plot = ["matplotlib"]', f'plot = ["tiny_part @ {part.as_uri()}"]')
    (share / "pyproject.toml").write_text(new)


@pytest.mark.parametrize("state", ["checkout", "colcon", "wheel"])
def test_set_up_installs_from_every_state(state: str, bare: Path, part: Path, tmp_path: Path):
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PIP_NO_INDEX": "1"}
    prefix = bare.parents[1] if state == "wheel" else tmp_path / "prefix"
    (packages,) = bare.parents[1].glob("lib/python3.*/site-packages")
    modules = packages if state == "wheel" else prefix
    share = prefix if state == "checkout" else prefix / "share" / "mm_ros"
    if state != "wheel":
        environment["PYTHONPATH"] = str(modules)
    if state == "colcon":
        environment["AMENT_PREFIX_PATH"] = str(prefix)
    put(modules, share, part)
    (tmp_path / "pip.py").write_text("raise SystemExit('this is a file of the current folder')\n")
    try:
        assert mm_ros("setup", python=bare, env=environment, cwd=tmp_path).returncode == 0
        where = {"capture_output": True, "text": True, "timeout": 300, "env": environment, "cwd": tmp_path}
        code = "import sys; del sys.path[0]; from mm_ros.base.extras import setup_command; print(setup_command('plot'))"
        hint = subprocess.run([bare, "-c", code], check=True, **where).stdout
        done = subprocess.run(["sh", "-c", hint], **where)
        assert done.returncode == 0, hint + done.stderr
        assert done.stdout.endswith("installed: plot\n")
        subprocess.run([bare, "-c", "import tiny_part"], check=True)
        names = {path.name for path in packages.glob("*.dist-info")}
        assert not [name for name in names if name.startswith("mm_ros")], "a frozen copy was installed"
        again = mm_ros("setup", "plot", python=bare, env=environment, cwd=tmp_path)
        assert again.stdout.count("\n") == 2, "pip was called although everything is installed"
    finally:
        subprocess.run([bare, "-m", "pip", "uninstall", "-q", "-y", "tiny_part"], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("stderr", "says"),
    [
        ("error: externally-managed-environment", "-m pip install --user --break-system-packages openvr"),
        ("python3: No module named pip", "sudo apt install python3-pip"),
        ("ERROR: No matching distribution found for openvr", "pip could not install openvr: No matching distribution"),
        ("", "pip ended without an error, but openvr cannot be found"),
    ],
)
def test_a_failure_of_pip_is_reported_with_advice(stderr: str, says: str, bare: Path, tmp_path: Path):
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "__init__.py").touch()
    (tmp_path / "pip" / "__main__.py").write_text(f"import sys\nsys.exit({stderr!r} or 0)\n")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": f"{tmp_path}:{TOP}"}
    done = mm_ros("setup", "steamvr", python=bare, env=environment, cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr and "Traceback" not in done.stderr, done.stderr
