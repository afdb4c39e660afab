"""Print the test files that need only numpy and numba, besides pytest and hypothesis."""

import ast
import sys
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
ALLOWED = ("numpy", "numba", "llvmlite", "pytest", "hypothesis")
ALGORITHMS = {"maths", "body", "search", "motion", "tracking", "facing", "trajectory", "matching", "pose", "robot"}


def imports(path: Path) -> set[str]:
    """Names that a file imports, also within functions, except in the helper modules of test/."""
    found: set[str] = set()
    tree = ast.parse(path.read_text())
    helper = path.parent == SOURCE / "test" and not path.name.startswith("test_")
    for node in tree.body if helper else ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def source_of(name: str) -> list[Path]:
    """Files of a module of mm_ros, including its packages, or of a module of test/."""
    tests = SOURCE / "test"
    bases = [SOURCE] if name.startswith("mm_ros") else [tests, *(p for p in tests.iterdir() if p.is_dir())]
    parts = name.split(".")
    stems = [base.joinpath(*parts[:i]) for base in bases for i in range(1, len(parts) + 1)]
    return [p for stem in stems for p in (stem / "__init__.py", stem.with_suffix(".py")) if p.is_file()]


@cache
def third_party(path: Path) -> frozenset[str]:
    """Third-party packages that a file imports, directly or through files of this project."""
    reached, todo, found = {path}, [path], set()
    while todo:
        for name in imports(todo.pop()):
            ours = source_of(name)
            todo += [p for p in ours if p not in reached]
            reached |= set(ours)
            top = name.split(".")[0]
            if top == "mm_ros":
                if name.startswith("mm_ros.msg"):
                    found.add("mm_ros.msg")
            elif not ours and top not in sys.stdlib_module_names:
                found.add(top)
    return frozenset(found)


def needs_core_only(path: Path) -> bool:
    ours = ALGORITHMS & {name.split(".")[1] for name in imports(path) if name.startswith("mm_ros.")}
    return bool(ours) and "data_dir" not in path.read_text() and third_party(path) <= set(ALLOWED)


if __name__ == "__main__":
    for path in sorted((SOURCE / "test").rglob("test_*.py")):
        if needs_core_only(path):
            print(path.relative_to(SOURCE))
