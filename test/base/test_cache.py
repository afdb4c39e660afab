"""The cache folder: its place, changes and locks; and the `njit` that uses it."""

import ast
import itertools
import os
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from processes import running

from mm_ros.base import cache

PACKAGE = Path(cache.__file__).parents[1]


def python(code: str, *arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "MM_ROS_", "XDG_"))}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True, text=True, cwd=cwd or PACKAGE.parent, env={**plain, **environment},
    )  # fmt: skip


def test_root_is_the_named_folder_then_xdg_then_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MM_ROS_CACHE", str(tmp_path / "own"))
    assert cache.cache_root() == tmp_path / "own"
    monkeypatch.delenv("MM_ROS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cache_root() == tmp_path / "mm_ros"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/paths/are/not/xdg")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache.cache_root() == tmp_path / "home" / ".cache" / "mm_ros"


def test_without_a_home_the_cache_is_temporary(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("MM_ROS_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "expanduser", nobody)
    assert cache.cache_root().name == f"mm_ros-{os.getuid()}"


def test_old_kernels_are_forgotten_and_the_current_ones_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MM_ROS_CACHE", str(tmp_path))
    folders = [tmp_path / "kernels" / name for name in ("old", "current", "young")]
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folders[1]))
    long_ago = time.time() - 90 * 86400
    for folder in folders:
        folder.mkdir(parents=True)
    for folder in folders[:2]:
        os.utime(folder, (long_ago, long_ago))
    cache.forget_old_code()
    assert [folder.exists() for folder in folders] == [False, True, True]


@pytest.mark.parametrize("module", [("mm_ros", "info", "--help"), ("mm_ros.ros.nodes", "no_such_node")])
def test_a_start_leaves_bytecode_in_the_cache_where_none_may_lie_beside_the_sources(tmp_path: Path, module) -> None:
    environment = {**os.environ, "MM_ROS_CACHE": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    (tmp_path / "kernels").mkdir()
    subprocess.run([sys.executable, "-m", *module], env=environment, capture_output=True, timeout=120)
    assert {path.name.split(".")[0] for path in (tmp_path / "bytecode").rglob("*.pyc")} > {"errors"}


def test_a_program_that_imports_mm_ros_keeps_its_own_setting_for_bytecode(tmp_path: Path) -> None:
    done = python(
        "import sys, mm_ros.body.skeleton; print(sys.dont_write_bytecode, sys.pycache_prefix)",
        MM_ROS_CACHE=str(tmp_path), PYTHONDONTWRITEBYTECODE="1",
    )  # fmt: skip
    assert done.stdout.split() == ["True", "None"]


def test_numba_finds_its_folder_before_it_loads(tmp_path: Path) -> None:
    done = python(
        "import mm_ros, os, sys; assert 'numba' not in sys.modules; import numba;"
        "print(numba.config.CACHE_DIR, numba.config.NUMBA_NUM_THREADS)",
        MM_ROS_CACHE=str(tmp_path),
    )
    assert done.stdout.split() == [str(tmp_path / "kernels" / cache.kernels_key()), "1"]


def test_what_the_user_says_of_numba_stands(tmp_path: Path) -> None:
    done = python("import mm_ros, os; print(os.environ['NUMBA_CACHE_DIR'])", NUMBA_CACHE_DIR=str(tmp_path))
    assert done.stdout.strip() == str(tmp_path)


def test_a_folder_that_cannot_be_written_is_a_warning_and_a_temporary_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code = "import mm_ros, os; print(os.environ['NUMBA_CACHE_DIR'])"
    done = python(code, MM_ROS_CACHE=str(tmp_path / "file" / "below"), TMPDIR=str(tmp_path))
    assert done.returncode == 0
    assert Path(done.stdout.strip()).is_relative_to(tmp_path)
    assert "is not writable; using" in done.stderr


@pytest.mark.parametrize("trap", ["link", "open to all", "of another user", "a file"])
@pytest.mark.parametrize("why", ["no cache folder can be made", "the user has no home"])
def test_a_temporary_folder_that_others_may_have_made_is_not_used(trap: str, why: str, tmp_path: Path) -> None:
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / f"mm_ros-{os.getuid()}"
    elsewhere.mkdir(mode=0o700)
    if trap == "link":
        folder.symlink_to(elsewhere)
    elif trap == "a file":
        folder.write_text("")
    else:
        folder.mkdir(mode=0o700)
        if trap == "open to all":
            folder.chmod(0o777)
        elif os.getuid() == 0:
            os.chown(folder, 12345, -1)
        else:
            pytest.skip("only root can give a folder to another user")
    (tmp_path / "file").write_text("")
    code = (
        "import pathlib, sys\n"
        "def nobody(path): raise RuntimeError('no home')\n"
        "if sys.argv[1] == 'the user has no home': pathlib.Path.expanduser = nobody\n"
        "import mm_ros, os, subprocess, mm_ros.base.cache as c; print(os.environ['NUMBA_CACHE_DIR'], c.writable_root())"
    )
    own = {"MM_ROS_CACHE": str(tmp_path / "file" / "below")} if why == "no cache folder can be made" else {}
    done = python(code, why, TMPDIR=str(tmp_path), **own)
    kernels, root = map(Path, done.stdout.split())
    assert kernels.is_relative_to(root) and root.parent == tmp_path and root.name.startswith("mm_ros-"), done.stderr
    assert root != folder and root.stat().st_mode & 0o777 == 0o700
    assert "using" in done.stderr
    assert not list(elsewhere.iterdir()) and (trap == "a file" or not list(folder.iterdir()))


def test_a_change_in_a_compiled_package_is_a_new_folder(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "mm_ros", ignore=shutil.ignore_patterns("__pycache__"))
    code = "import mm_ros.base.cache; print(mm_ros.base.cache.__file__, mm_ros.base.cache.kernels_key())"

    def key() -> str:
        where, value = python(code, cwd=tmp_path).stdout.split()
        assert where.startswith(str(tmp_path))
        return value

    first = key()
    assert key() == first
    source = next((tmp_path / "mm_ros" / "matching").glob("matcher.py"))
    source.write_text(source.read_text() + "\n# changed\n")
    assert key() != first


def test_one_process_at_a_time_holds_a_lock(tmp_path: Path) -> None:
    code = (
        "import sys, time; from mm_ros.base.cache import locked\n"
        "with locked('x'):\n"
        "    print('in', time.monotonic(), flush=True); time.sleep(0.3); print('out', time.monotonic(), flush=True)"
    )
    environment = {**os.environ, "MM_ROS_CACHE": str(tmp_path)}
    command, options = [sys.executable, "-c", code], {"stdout": subprocess.PIPE, "text": True, "env": environment}
    with ExitStack() as stack:
        started = [stack.enter_context(running(command, **options)) for _ in range(3)]
        spans = sorted([float(line.split()[1]) for line in p.communicate()[0].splitlines()] for p in started)
    for (_, out), (into, _) in itertools.pairwise(spans):
        assert out <= into


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    code = "import time; from mm_ros.base.cache import locked\n"
    code += "with locked('x'):\n print('in', flush=True); time.sleep(60)"
    environment = {**os.environ, "MM_ROS_CACHE": str(tmp_path)}
    with running([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        holder.kill()
    start = time.monotonic()
    done = python("from mm_ros.base.cache import locked\nwith locked('x'): print('in')", MM_ROS_CACHE=str(tmp_path))
    assert done.stdout.strip() == "in"
    assert time.monotonic() - start < 30


def test_clean_removes_the_cache_and_nothing_else(tmp_path: Path) -> None:
    python("from mm_ros.base.cache import writable_root; writable_root()", MM_ROS_CACHE=str(tmp_path / "cache"))
    (tmp_path / "cache" / "kernels").mkdir(parents=True, exist_ok=True)
    (tmp_path / "cache" / "kernels" / "x.nbi").write_bytes(b"123")
    (tmp_path / "neighbour").write_text("")
    command = [sys.executable, "-m", "mm_ros", "clean"]
    environment = {**os.environ, "MM_ROS_CACHE": str(tmp_path / "cache"), "NUMBA_CACHE_DIR": str(tmp_path / "n")}

    def run(*more: str) -> str:
        return subprocess.run([*command, *more], env=environment, capture_output=True, text=True, check=True).stdout

    assert "would remove" in run("--dry-run")
    assert (tmp_path / "cache" / "kernels" / "x.nbi").exists()
    assert "removed" in run()
    assert not (tmp_path / "cache").exists()
    assert (tmp_path / "neighbour").exists()
    assert "nothing to remove" in run()


def test_clean_leaves_a_folder_that_was_there_before_mm_ros(tmp_path: Path) -> None:
    """MM_ROS_CACHE=$HOME by mistake must not delete the home folder."""
    (tmp_path / "thesis.tex").write_text("years of work")
    python("from mm_ros.base.cache import writable_root; writable_root()", MM_ROS_CACHE=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "mm_ros", "clean"], env={**os.environ, "MM_ROS_CACHE": str(tmp_path)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2 and "not removed" in done.stderr
    assert (tmp_path / "thesis.tex").exists()


def test_what_another_checkout_uses_is_left_to_it(tmp_path: Path) -> None:
    from mm_ros.base.cache import mark_used, unused

    for name, age_days in (("theirs", 1), ("forgotten", 60), ("ours", 60)):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (time.time() - 86400 * age_days,) * 2)
    mark_used(tmp_path / "ours")
    assert [p.name for p in unused(tmp_path, "*", 7)] == ["forgotten"]
    mark_used(tmp_path / "gone")  # no error


def imported_by(files: set[Path], top: Path) -> set[Path]:
    """Modules of mm_ros that these files import, directly or indirectly."""
    done: set[Path] = set()
    while files:
        path = files.pop()
        done.add(path)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mm_ros"):
                base = top.parent / node.module.replace(".", "/")
                found = [base / f"{a.name}.py" for a in node.names] + [base.with_suffix(".py"), base / "__init__.py"]
                files |= {f for f in found if f.is_file()} - done
    return done


def test_the_default_database_is_made_anew_when_anything_that_makes_it_changes() -> None:
    """If the key lacked a module, an outdated database would stay in use."""
    from mm_ros.motion import default_database

    top = Path(default_database.__file__).parents[1]
    made_of = imported_by({top / f"motion/{f}.py" for f in ("build", "files", "procedural/__init__")}, top)
    counted = {f for pattern in default_database._MADE_OF for f in top.glob(pattern)}
    packages = {top / f"{p}/__init__.py" for p in ("motion", "maths", "body")}
    harmless = packages | {top / f"base/{f}.py" for f in ("errors", "settings", "files", "cache")}
    assert {str(f.relative_to(top)) for f in made_of - counted - harmless} == set()


KERNEL = """
from mm_ros.maths.jit import njit

@njit
def divide(a, b):
    return a / b

@njit(inline="always")
def twice(a):
    return a + a

@njit
def use(a):
    return twice(a)
"""


def test_njit_caches_and_divides_as_numpy_does(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(KERNEL)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import kernel\n"
        "hits = kernel.divide.stats.cache_hits\n"
        "print(kernel.divide(1.0, 0.0), kernel.divide(0.0, 0.0), kernel.use(2.0), *hits.values())"
    )
    folder = {"MM_ROS_CACHE": str(tmp_path / "cache")}
    assert python(code, str(tmp_path), **folder).stdout.split() == ["inf", "nan", "4.0"]
    assert python(code, str(tmp_path), **folder).stdout.split() == ["inf", "nan", "4.0", "1"]


def test_checkouts_with_the_same_sources_share_their_kernels(tmp_path: Path) -> None:
    code = (
        "import mm_ros; from mm_ros.maths.ik import soft_reach\n"
        "print(soft_reach(0.5, 1.0, 0.1), sum(soft_reach.stats.cache_hits.values()), mm_ros.__file__)"
    )
    for hits, name in enumerate(("first", "second")):
        shutil.copytree(PACKAGE, tmp_path / name / "mm_ros", ignore=shutil.ignore_patterns("__pycache__", "models"))
        value, found, file = python(code, cwd=tmp_path / name, MM_ROS_CACHE=str(tmp_path / "cache")).stdout.split()
        assert (float(value), int(found)) == (0.5, hits) and Path(file).is_relative_to(tmp_path / name)


def test_two_processes_that_compile_a_function_for_two_types_do_not_exchange_their_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mm_ros.maths.jit  # noqa: F401 (changes the class below)

    caching = pytest.importorskip("numba.core.caching")
    both = [caching.IndexDataCacheFile(str(tmp_path), "f", "stamp") for _ in range(2)]
    with monkeypatch.context() as at_the_same_time:
        at_the_same_time.setattr(caching.IndexDataCacheFile, "_load_index", lambda _: {})
        for file, signature in zip(both, ("int", "float"), strict=True):
            file.save(signature, f"code for {signature}")
    files = [path.name for path in tmp_path.glob("*.nbc")]
    assert {both[0]._load_data(name) for name in files} == {"code for float", "code for int"}
    assert (both[0].load("int"), both[0].load("float")) == (None, "code for float")  # compiled again, at worst


def test_njit_can_be_switched_off(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(KERNEL)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import kernel; print(type(kernel.divide).__name__, kernel.use(2))"
    )
    done = python(code, str(tmp_path), NUMBA_DISABLE_JIT="1", MM_ROS_CACHE=str(tmp_path / "cache"))
    assert done.stdout.split() == ["function", "4"]
