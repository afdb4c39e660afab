"""The check that no process outlives the tests."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import PATIENCE_S, alive, wait_until

LEAKS = """
import subprocess, sys

SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]

def test_a_child():
    subprocess.Popen(SLEEPS)

def test_an_orphan():
    start = f"import subprocess; subprocess.Popen({SLEEPS!r}, start_new_session=True)"
    subprocess.run([sys.executable, "-c", start], check=True)
"""
ENDED = """
import subprocess, sys

def test_a_child():
    p = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    p.kill()
    p.wait()
"""
FAILING_SET_UP = """
import pytest, rclpy

@pytest.fixture(scope="module")
def ros():
    rclpy.init()
    raise OSError("no browser")
    yield

def test_it(ros):
    pass
"""
NEXT_FILE = """
import rclpy

def test_it():
    rclpy.init()
    rclpy.shutdown()
"""


PARALLEL = ("-p", "xdist.plugin", "-n", "2")


def run_of(folder: Path, tests: str, *options: str) -> "subprocess.CompletedProcess[str]":
    (folder / "test_inside.py").write_text(tests)
    (folder / "conftest.py").write_text("import leftover_processes\nleftover_processes.PATIENCE_S = 0.2\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    environment |= {"PYTHONPATH": str(Path(__file__).parents[1]), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    plugins = ("-p", "leftover_processes", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-q", *plugins, *options, "."]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("options", [(), PARALLEL], ids=["one process", "two workers"])
def test_a_run_that_leaves_processes_fails_names_their_tests_and_ends_them(tmp_path, options):
    if options:
        pytest.importorskip("xdist")
    done = run_of(tmp_path, LEAKS, *options)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    left = [line for line in done.stdout.splitlines() if "time.sleep(600)" in line]
    assert len(left) == 2
    assert {line.rsplit("::", 1)[1].split()[0] for line in left} == {"test_a_child", "test_an_orphan"}
    wait_until(lambda: not any(alive(int(line.split(":")[0])) for line in left), PATIENCE_S, "the end of both")


def test_a_run_that_ends_its_processes_passes(tmp_path):
    done = run_of(tmp_path, ENDED)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_set_up_that_leaves_ros_initialized_fails_its_own_file_only(tmp_path):
    pytest.importorskip("rclpy", reason="rclpy is not installed")
    (tmp_path / "test_next.py").write_text(NEXT_FILE)
    done = run_of(tmp_path, FAILING_SET_UP)
    assert "1 passed, 1 error" in done.stdout, done.stdout + done.stderr


TESTS = Path(__file__).resolve().parents[1]
HARNESS = {"NodeProcess", "AllNodesProcess", "World"}  # classes of graph_harness.py whose constructor starts processes


def starts(node: ast.AST, starters: set[str]) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in starters


def starters_of(tree: ast.Module) -> set[str]:
    """Return the names whose call starts a process in a module: Popen, and classes whose constructor starts one."""
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names}
    names = {"Popen"} | (imported & HARNESS)
    for made in (n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)):
        constructors = [n for n in made.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
        if any(starts(node, names) for constructor in constructors for node in ast.walk(constructor)):
            names.add(made.name)
    return names


def unsafe_starts(source: str) -> list[int]:
    """Return the lines at which a module starts a process that an exception would leave behind.

    Safe are: a context of `with`; an argument of `enter_context`; the body of a `try`; the statement before a `try` or
    `yield`; `return`; in a constructor the last statement; in another method a statement that stores it in `self`.
    """
    tree = ast.parse(source)
    starters = starters_of(tree)
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    return [node.lineno for node in ast.walk(tree) if starts(node, starters) and not is_safe(node, above)]


def is_safe(node: ast.AST, above: dict[ast.AST, ast.AST]) -> bool:
    while not isinstance(node, ast.stmt):
        if isinstance(node, ast.withitem) or starts(node, {"enter_context"}):
            return True
        node = above[node]
    if isinstance(node, ast.Return):
        return True
    stored = ast.unparse(node).startswith("self.")
    after: list[ast.AST] = []  # statements of the function that run next
    while not isinstance(node, ast.FunctionDef | ast.Module):
        parent = above[node]
        block = next(b for _, b in ast.iter_fields(parent) if isinstance(b, list) and node in b)
        if isinstance(parent, ast.Try) and block is parent.body:
            return True
        after = after or block[block.index(node) + 1 :]
        node = parent
    if after and (isinstance(after[0], ast.Try) or ast.unparse(after[0]).startswith("yield")):
        return True
    in_method = stored and isinstance(node, ast.FunctionDef) and isinstance(above[node], ast.ClassDef)
    return in_method and (not after or node.name != "__init__")


def test_an_exception_leaves_no_process() -> None:
    found = {str(path.relative_to(TESTS)): unsafe_starts(path.read_text()) for path in TESTS.rglob("*.py")}
    assert {name: lines for name, lines in found.items() if lines} == {}


OWNER = """
class Owner:
    def __init__(self):
        {0}
    def start(self):
        self.process = Popen([])
        self.wait()
def test():
    {1}
"""
STORES = "self.process = subprocess.Popen([])"


@pytest.mark.parametrize(
    ("constructor", "test", "lines"),
    [
        (STORES, "with Owner() as x:\n        x.wait()", []),
        (STORES, "stack.enter_context(Owner())", []),
        (STORES, "x = Owner()\n    try:\n        x.wait()\n    finally:\n        x.kill()", []),
        (STORES, "x = Owner()\n    x.wait()", [9]),
        (STORES, "x = Owner()", [9]),
        (STORES, "x, y = Owner(), Popen([])\n    x.wait()", [9, 9]),
        (f"{STORES}; rclpy.init()", "pass", [4]),
        ("process = Popen([])", "pass", [4]),
        ("self.process = None", "x = Owner()\n    x.start()", []),
    ],
)
def test_the_rule_about_started_processes(constructor: str, test: str, lines: list[int]) -> None:
    assert unsafe_starts(OWNER.format(constructor, test)) == lines
