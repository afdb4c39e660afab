"""Contracts beyond imports: algorithms use no disk, network or device, and read no clock."""

import ast
from functools import cache
from pathlib import Path

import duplicates
import pytest
import unused

PACKAGE = Path(__file__).resolve().parents[2] / "mm_ros"
parsed = cache(ast.parse)

DISK_MODULES = {"os", "io", "tempfile", "shutil", "subprocess", "socket", "threading", "multiprocessing", "zipfile"}
DISK_MODULES |= {"tarfile", "onnxruntime", "rosbags", "yaml", "sqlite3", "urllib", "mmap", "fcntl", "signal"}
DISK_CALLS = {"open", "read_text", "read_bytes", "write_text", "write_bytes", "mkdir", "unlink", "iterdir", "glob"}
CLOCKS = {"time", "datetime"}

# Folders and modules that may touch disk, network and devices.
EDGES = ("base/", "sessions/", "show/", "ros/", "cli/", "evaluation/", "tracking/sources/", "motion/importing/", "web/")
EDGE_NAMES = ("files.py", "feature_files.py", "model_file.py", "__main__.py")
# Other modules that handle files, and why.
EDGE_MODULES = {
    "__init__.py": "points numba at its cache",
    "motion/bvh/reader.py": "reads and writes BVH files",
    "motion/default_database.py": "keeps the default database in the cache",
    "motion/shared_data.py": "finds motion data",
    "facing/camera/estimator.py": "runs the networks of the pose estimator",
    "facing/camera/pictures.py": "reads cameras and videos",
}
CLOCK_EDGES = ("base/", "sessions/", "show/", "web/", "ros/", "cli/", "evaluation/", "tracking/sources/")


def modules() -> list[str]:
    return sorted(str(p.relative_to(PACKAGE)) for p in PACKAGE.rglob("*.py"))


def may_touch_disk(name: str) -> bool:
    return name.startswith(EDGES) or "training/" in name or Path(name).name in EDGE_NAMES or name in EDGE_MODULES


def may_read_clocks(name: str) -> bool:
    return name.startswith(CLOCK_EDGES) or "training/" in name or name == "motion/importing/load.py"


def uses(source: str) -> set[str]:
    """Names of imported modules and of disk calls."""
    found: set[str] = set()
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in DISK_CALLS:
                found.add(f"{name}()")
    return found


def breaches(name: str, source: str) -> set[str]:
    used = uses(source)
    disk = used & (DISK_MODULES | {f"{call}()" for call in DISK_CALLS})
    return (set() if may_touch_disk(name) else disk) | (set() if may_read_clocks(name) else used & CLOCKS)


def test_algorithms_touch_no_disk_and_read_no_clock() -> None:
    found = {name: breaches(name, (PACKAGE / name).read_text()) for name in modules()}
    assert {name: what for name, what in found.items() if what} == {}


@pytest.mark.parametrize(
    ("name", "line", "what"),
    [
        ("maths/springs.py", "import time", "time"),
        ("pose/feet.py", "open('x')", "open()"),
        ("matching/matcher.py", "Path('x').read_text()", "read_text()"),
        ("facing/fusion.py", "import socket", "socket"),
    ],
)
def test_a_breach_is_found(name: str, line: str, what: str) -> None:
    assert what in breaches(name, (PACKAGE / name).read_text() + f"\n{line}\n")


def test_every_exception_is_needed() -> None:
    for name in EDGE_MODULES:
        path = PACKAGE / name
        assert path.is_file(), name
        assert uses(path.read_text()) & (DISK_MODULES | {f"{c}()" for c in DISK_CALLS} | {"mm_ros"}), name


JOINT_TABLES = {"PARENTS", "J", "JOINTS", "DEFAULT_OFFSETS"}


def joint_tables(source: str) -> set[str]:
    """Tables of the canonical joints that a module imports; parents and counts come from the Skeleton."""
    found = [n for n in ast.walk(parsed(source)) if isinstance(n, ast.ImportFrom)]
    return {a.name for n in found if n.module == "mm_ros.body.skeleton" for a in n.names} & JOINT_TABLES


def test_parents_and_the_number_of_joints_come_from_the_skeleton() -> None:
    found = {name: joint_tables((PACKAGE / name).read_text()) for name in modules()}
    assert {name: tables for name, tables in found.items() if tables} == {}
    assert joint_tables("from mm_ros.body.skeleton import HEAD, PARENTS, J") == {"PARENTS", "J"}


STAGES = {
    "TrackerGate", "HandStage", "Calibrator", "Room", "OrientationStage", "FusionStage", "StepStage", "TrajectoryStage",
    "MatcherStage", "StateMachineStage", "matcher_stage", "PostStage",
}  # fmt: skip
# Modules that may build stages besides the builder: benchmarks and the conversion of tables need one stage alone.
BUILDERS = ("stages.py", "tracking/", "matching/engines/state_machine.py", "cli/", "evaluation/benchmarks/")
BUILDERS += ("evaluation/hand_pose_facing.py", "evaluation/restless_users.py")


def built(source: str) -> set[str]:
    """Stages that a module builds itself."""
    calls = [n.func for n in ast.walk(parsed(source)) if isinstance(n, ast.Call)]
    return {f.id for f in calls if isinstance(f, ast.Name)} & STAGES


def test_stages_are_built_in_one_place() -> None:
    """The nodes, `Avatar` and the evaluation take their stages from `stages.py` and `tracking/live.py`."""
    found = {name: built((PACKAGE / name).read_text()) for name in modules() if not name.startswith(BUILDERS)}
    assert {name: stages for name, stages in found.items() if stages} == {}
    assert built("self._stage = PostStage(settings)") == {"PostStage"}


def test_no_name_is_reached_by_tests_alone() -> None:
    """tools/unused.py lists names below mm_ros/ that nothing refers to but tests."""
    assert [(file, name) for file, _, name, _ in unused.unused()] == []


def test_no_block_stands_in_two_packages() -> None:
    """tools/duplicates.py lists blocks of six or more equal lines in two files."""
    found = duplicates.blocks([PACKAGE / name for name in modules()])
    across = [places for _, places in found if len({f.relative_to(PACKAGE).parts[0] for f, _ in places}) > 1]
    assert across == []


MATHS = {
    "wrap", "wrapped", "wrap_angle", "slerp", "spherical", "savitzky_golay", "savgol", "cubic", "catmull_rom", "log",
    "smoothstep", "ease", "normalize", "multiply", "inverse", "rotate", "yaw_of", "from_yaw", "exp", "mul", "inv",
}  # fmt: skip
# Functions of that name outside maths/, and why.
OTHER_MATHS = {
    "matching/root_control.py": {"wrapped"},  # compiled, and keeps each bit of an angle within −π … π
    "tracking/room.py": {"inverse"},  # of a pose (7,)
    "facing/training/network.py": {"wrapped"},  # torch
}


def second_definitions(name: str, source: str) -> set[str]:
    """Functions of a module whose name, without a leading underscore, is one of the maths package."""
    own = {n.name.lstrip("_") for n in parsed(source).body if isinstance(n, ast.FunctionDef)}
    return (own & MATHS) - OTHER_MATHS.get(name, set())


def test_maths_is_defined_once() -> None:
    others = [name for name in modules() if not name.startswith("maths/")]
    found = {name: second_definitions(name, (PACKAGE / name).read_text()) for name in others}
    assert {name: names for name, names in found.items() if names} == {}
    assert second_definitions("pose/low.py", "def _slerp(a, b, t):\n    pass") == {"slerp"}


# Registries: adding a source, feature, predictor, engine, command or topic means a row in one of these tables.
REGISTRIES = {
    "CONTROLS": {"trajectory/__init__.py"}, "VERBS": {"cli/main.py"}, "TOPICS": {"ros/graph.py"},
    "PREDICTORS": {"facing/orientation.py"},
    "ENGINES": {"search/__init__.py", "matching/engines/source.py"},  # structures of the search; sources of poses
}  # fmt: skip


def test_each_registry_is_defined_once() -> None:
    found = {name: assigned((PACKAGE / name).read_text()) for name in modules()}
    for table, homes in REGISTRIES.items():
        assert {name for name in found if table in found[name]} == homes, table


def assigned(source: str) -> set[str]:
    """Names that a module assigns at its top level."""
    targets = [t for n in parsed(source).body if isinstance(n, ast.Assign) for t in n.targets]
    targets += [n.target for n in parsed(source).body if isinstance(n, ast.AnnAssign)]
    return {t.id for t in targets if isinstance(t, ast.Name)}


# Packages of algorithms, whose numbers decide how the avatar moves.
ALGORITHMS = (
    "body/", "facing/", "matching/", "maths/", "motion/", "pose/", "robot/", "search/", "steps/", "tracking/",
    "trajectory/",
)  # fmt: skip


def unexplained(source: str) -> list[str]:
    """Module-level constants with a float and without a comment: beside, above, or above their block of lines."""
    lines, out = source.splitlines(), list[str]()
    comments = {i for i, line in enumerate(lines, 1) if "# " in line.replace("# fmt: skip", "")}
    for node in parsed(source).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        number = any(isinstance(n, ast.Constant) and isinstance(n.value, float) for n in ast.walk(node.value))
        if not number or comments & set(range(node.lineno, (node.end_lineno or node.lineno) + 1)):
            continue
        start = node.lineno
        while start > 1 and lines[start - 2].strip() and not lines[start - 2].startswith("#"):
            start -= 1
        if start - 1 not in comments:
            out.append(lines[node.lineno - 1])
    return out


def test_each_constant_of_an_algorithm_says_what_it_is() -> None:
    """A constant is a fact with its source, a fitted value (in `fitted.py`), or a limit with its meaning."""
    algorithms = [name for name in modules() if name.startswith(ALGORITHMS)]
    found = {name: unexplained((PACKAGE / name).read_text()) for name in algorithms}
    assert {name: constants for name, constants in found.items() if constants} == {}
    assert unexplained("A = 1\nB = 2.0  # m\n\n# Shares\nC = 0.5\nD = 0.5\n\nE_S = 0.5\n") == ["E_S = 0.5"]


# Modules that use internal names of other packages. Each names the version that it was checked with.
FOREIGN = {
    "ros/internals.py": "test/ros/test_internals.py",
    "show/page/swift.py": "test/show/test_viewer.py",
    "show/page/server.py": "test/web/test_access.py",
    "maths/jit.py": "test/base/test_cache.py",
    "base/workers.py": "test/base/test_current_folder.py",
    "search/tree/simd.py": "test/search/test_search.py",
    "robot/load.py": "test/robot/test_loading.py",
    "tracking/sources/openxr_session.py": "test/openxr",
}
PUBLIC = {"_asdict", "_fields", "_replace", "_exit"}  # documented names


def own_names() -> set[str]:
    """Names that modules of mm_ros define: functions, classes, variables, attributes."""
    out: set[str] = set()
    for name in modules():
        for node in ast.walk(parsed((PACKAGE / name).read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                out.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                out.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                out |= {node.attr} if isinstance(node.value, ast.Name) and node.value.id == "self" else set()
    return out


def foreign_internals(source: str, own: set[str]) -> set[str]:
    """Private attributes that mm_ros does not define, and imports of private names of other packages."""
    found: set[str] = set()
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Attribute):
            private = node.attr.startswith("_") and not node.attr.startswith("__")
            found |= {node.attr} if private and node.attr not in own | PUBLIC else set()
        elif isinstance(node, ast.ImportFrom) and node.module and not node.module.startswith(("mm_ros", "__")):
            names = {part for part in (*node.module.split("."), *(a.name for a in node.names)) if part[0] == "_"}
            found |= names if node.module != "pip._vendor" else set()
            found |= {"implementation_singleton"} & set(node.module.split("."))
    return found


def test_internals_of_other_packages_are_used_in_one_file_each() -> None:
    own = own_names()
    found = {name: foreign_internals((PACKAGE / name).read_text(), own) for name in modules()}
    assert {name: names for name, names in found.items() if names and name not in FOREIGN} == {}
    for name, test in FOREIGN.items():
        assert found[name] and "hecked with" in (PACKAGE / name).read_text(), name
        assert (PACKAGE.parent / test).exists(), test
    assert foreign_internals("node._secret = 1", own) == {"_secret"}
    assert foreign_internals("from viser import _messages", own) == {"_messages"}
