"""List names below mm_ros/ to which only tests refer: `python tools/unused.py`.

A name counts as used if it occurs below mm_ros/ outside its own definition, as a word of the code or in a string.
Occurrences of a name in docs do not count. ALLOWED lists names that other software calls: numba, rclpy, viser, torch
and the programs of users. An unused method is missed if another class has a used method of the same name.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "mm_ros"
# maps a name that nothing in mm_ros uses to the software that uses it
ALLOWED = {
    "example_yaml": "tools/describe.py",
    "parameters_yaml": "tools/describe.py",
    "can_execute": "rclpy",
    "beginning_execution": "rclpy",
    "ending_execution": "rclpy",
    "as_serializable_dict": "viser",
    "avatar_actions": "launch files",
    "on_trial_result": "ray",
    "_make_handler": "rclpy",
    "from_function": "numba",
    "get_suitable_cache_subpath": "numba",
    "get_source_stamp": "numba",
    "from_store": "docs/search.md",
    "error_rad": "the tests, which measure the solver by it",
}
FOREIGN_BASES = ("Settings", "RootControlSettings", "AvatarNode")  # Subclasses of these count as used.


def words(text: str) -> Counter[str]:
    """Count the names and the words in strings of a module, without comments, docstrings and `__all__`."""
    out: Counter[str] = Counter()
    before = tokenize.NEWLINE
    text = re.sub(r"^__all__ = \[[^]]*]", "", text, flags=re.MULTILINE)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            out[token.string] += 1
        elif token.type == tokenize.STRING and before not in (tokenize.NEWLINE, tokenize.INDENT):
            out.update(w for w in "".join(c if c.isidentifier() or c.isdigit() else " " for c in token.string).split())
        before = before if token.type in (tokenize.COMMENT, tokenize.NL, tokenize.DEDENT) else token.type
    return out


def definitions(tree: ast.Module) -> list[tuple[str, ast.stmt]]:
    """Return functions, classes, methods and constants of a module, except fields of settings and `__names__`."""
    out: list[tuple[str, ast.stmt]] = []
    for parent in ast.walk(tree):
        if not isinstance(parent, ast.Module | ast.ClassDef):
            continue
        bases = {b.id for b in getattr(parent, "bases", ()) if isinstance(b, ast.Name)}
        for node in parent.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                own = {getattr(b, "id", "") for b in getattr(node, "bases", ())}
                if not own & {*FOREIGN_BASES}:
                    out.append((node.name, node))
            elif isinstance(node, ast.Assign) and isinstance(parent, ast.Module):
                out += [(t.id, node) for t in node.targets if isinstance(t, ast.Name)]
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and not bases & {*FOREIGN_BASES}:
                out.append((node.target.id, node))
    return [(name, node) for name, node in out if not name.startswith("__")]


def unused() -> list[tuple[str, int, str, int]]:
    """Return file, line, name and number of lines of each definition to which nothing below mm_ros/ refers."""
    texts = {p: p.read_text() for p in sorted(PACKAGE.rglob("*.py"))}
    counts = {p: words(t) for p, t in texts.items()}
    total = sum(counts.values(), Counter[str]())
    out = []
    for path, text in texts.items():
        lines = text.splitlines()
        for name, node in definitions(ast.parse(text)):
            end = node.end_lineno or node.lineno
            own = 1  # number of times that the name occurs in its own definition
            if total[name] > 1:
                own = words("\n".join(line.strip() for line in lines[node.lineno - 1 : end]) + "\n")[name]
            if total[name] <= own and name not in ALLOWED:
                out.append((str(path.relative_to(PACKAGE)), node.lineno, name, end - node.lineno + 1))
    return out


def main() -> int:
    found = unused()
    for file, line, name, count in found:
        print(f"mm_ros/{file}:{line}: {name} ({count} lines)")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
