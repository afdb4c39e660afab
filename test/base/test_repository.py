"""Standard parts of a repository: licences of all shipped files, one version, a release command."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import release
import yaml

TOP = Path(__file__).resolve().parents[2]
# Made by this project; all other shipped files need a row in THIRD_PARTY.md.
OURS = (".py", ".msg", ".md", ".yaml", ".yml", ".rviz", ".in", ".sh", ".toml", ".txt", ".cff", ".typed", ".xml")
OURS_BY_NAME = ("LICENSE", "Makefile", "MANIFEST.in", "CMakeLists.txt", "COLCON_IGNORE")
OURS_BY_NAME += (".gitignore", "run")
WITHOUT = ("test/", "docs/pictures/", "benchmarks/")  # not in the wheel, made by this project


def tracked() -> list[str]:
    done = subprocess.run(["git", "ls-files"], cwd=TOP, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("this is no git checkout")
    return done.stdout.splitlines()


def foreign(files: list[str]) -> list[str]:
    named = re.findall(r"^\| `([^`]+)`", (TOP / "THIRD_PARTY.md").read_text(), re.M)
    return [
        f
        for f in files
        if not f.startswith(WITHOUT)
        and not (f.endswith(OURS) or Path(f).name in OURS_BY_NAME)
        and not f.startswith(tuple(named))
    ]


def test_the_licence_of_everything_that_ships_is_listed():
    assert foreign(tracked()) == []


def test_a_file_without_a_licence_is_found():
    assert foreign(["mm_ros/models/other.onnx"]) == ["mm_ros/models/other.onnx"]


def test_every_listed_third_party_file_exists():
    for name in re.findall(r"^\| `([^`]+)`", (TOP / "THIRD_PARTY.md").read_text(), re.M):
        assert (TOP / name).exists(), name


def test_pre_commit_and_make_lint_use_the_same_ruff():
    hooks = yaml.safe_load((TOP / ".pre-commit-config.yaml").read_text())
    entry = hooks["repos"][0]["hooks"][0]["entry"]
    assert entry.startswith(".venv/bin/ruff check")
    assert "-m ruff check ." in (TOP / "Makefile").read_text()


def test_the_workflow_calls_the_gate():
    steps = yaml.safe_load((TOP / ".github/workflows/ci.yml").read_text())["jobs"]["gate"]["steps"]
    assert [s["run"] for s in steps if "run" in s][-1] == "bash .ci/run"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in (*release.VERSIONED, "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(TOP / name, tmp_path / name)
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def test_a_release_has_one_version_everywhere(copy: Path):
    left = release.release("9.8.7", copy, "2026-01-02")
    assert all("9.8.7" in (copy / name).read_text() for name in release.VERSIONED)
    assert "## [9.8.7] - 2026-01-02" in (copy / "CHANGELOG.md").read_text()
    assert "git tag v9.8.7" in left


def test_a_release_refuses_a_wrong_version_and_a_changed_tree(copy: Path):
    with pytest.raises(SystemExit, match="expected a version"):
        release.release("9.8", copy)
    (copy / "CHANGELOG.md").write_text("changed")
    with pytest.raises(SystemExit, match="has changes"):
        release.release("9.8.7", copy)
