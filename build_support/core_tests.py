"""Print the test files that need core alone: they run where there are only numpy, numba, pytest and hypothesis."""

import ast
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
ALLOWED = ("mm_ros.core", "mm_ros.cache", "numpy", "numba", "pytest", "hypothesis", "test")


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def needs_core_only(path: Path) -> bool:
    import sys

    def allowed(name: str) -> bool:
        top = name.split(".")[0]
        beside = (SOURCE / "test" / f"{top}.py").is_file()
        return name.startswith(ALLOWED) or top in sys.stdlib_module_names or beside or name == "mm_ros"

    text = path.read_text()
    return "mm_ros.core" in text and "data_dir" not in text and all(map(allowed, imports(path)))


if __name__ == "__main__":
    for path in sorted((SOURCE / "test").glob("test_*.py")):
        if needs_core_only(path):
            print(path.relative_to(SOURCE))
