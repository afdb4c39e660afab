"""Print the test files that need core alone: they run where there are only numpy, numba, pytest and hypothesis."""

import ast
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
ALLOWED = ("mm_ros.core", "mm_ros.cache", "numpy", "numba", "pytest", "hypothesis", "test")


def imports(path: Path, within_functions: bool) -> set[str]:
    found: set[str] = set()
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree) if within_functions else tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def core_imports(path: Path, within_functions: bool = True) -> bool:
    """What lies beside the test is imported with it, and so is what that imports at once."""

    def allowed(name: str) -> bool:
        top = name.split(".")[0]
        beside = SOURCE / "test" / f"{top}.py"
        if beside.is_file():
            return core_imports(beside, within_functions=False)
        return name.startswith(ALLOWED) or top in sys.stdlib_module_names or name == "mm_ros"

    return all(map(allowed, imports(path, within_functions)))


def needs_core_only(path: Path) -> bool:
    text = path.read_text()
    return "mm_ros.core" in text and "data_dir" not in text and core_imports(path)


if __name__ == "__main__":
    for path in sorted((SOURCE / "test").glob("test_*.py")):
        if needs_core_only(path):
            print(path.relative_to(SOURCE))
