"""List blocks of six or more equal lines that occur in two files: `python tools/duplicates.py [FOLDER …]`.

Blank lines, comments, docstrings and imports do not count, and the indentation is ignored.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

LINES = 6


def counted(path: Path) -> list[tuple[int, str]]:
    """Return the lines of code in a file with their numbers, without imports, comments and docstrings."""
    text = path.read_text()
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if docstring or isinstance(node, ast.Import | ast.ImportFrom):
            left_out |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = ((i, line.strip()) for i, line in enumerate(text.splitlines(), 1) if i not in left_out)
    return [(i, line) for i, line in lines if len(line) > 1 and not line.startswith("#")]


def blocks(files: list[Path]) -> list[tuple[int, list[tuple[Path, int]]]]:
    """Return number of lines and places of each block that occurs in two or more files, longest block first."""
    code = {f: counted(f) for f in files}
    seen: dict[tuple[str, ...], list[tuple[Path, int]]] = defaultdict(list)
    for f, lines in code.items():
        for k in range(len(lines) - LINES + 1):
            seen[tuple(line for _, line in lines[k : k + LINES])].append((f, k))
    out, covered = [], set[tuple[Path, int]]()
    for places in seen.values():
        if len({f for f, _ in places}) < 2 or any(p in covered for p in places):
            continue
        length = LINES
        while all(k + length < len(code[f]) for f, k in places):
            if len({code[f][k + length][1] for f, k in places}) > 1:
                break
            length += 1
        covered |= {(f, k + i) for f, k in places for i in range(length - LINES + 1)}
        out.append((length, [(f, code[f][k][0]) for f, k in places]))
    return sorted(out, key=lambda b: -b[0])


def main() -> int:
    folders = [Path(p) for p in sys.argv[1:]] or [Path(__file__).resolve().parents[1] / "mm_ros"]
    found = blocks([f for folder in folders for f in sorted(folder.rglob("*.py"))])
    for length, places in found:
        print(f"{length} lines: " + ", ".join(f"{f}:{line}" for f, line in places))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
