"""What verbs share: the table for people and `--json FILE` for programs."""

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mm_ros.core.errors import MmRosError


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the result as JSON to FILE")


def write_json(path: Path | None, value: Any) -> None:
    """Nothing when `path` is None. A reader never sees half a file: written aside, then renamed."""
    if path is None:
        return
    text = json.dumps(value, indent=2, default=_plain, allow_nan=False) + "\n"
    try:
        descriptor, aside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise MmRosError(f"cannot write {path}: {error.strerror}. Does its folder exist?") from error
    with os.fdopen(descriptor, "w") as handle:
        handle.write(text)
    os.chmod(aside, 0o644)
    os.replace(aside, path)


def _plain(value: Any) -> Any:
    """numpy's numbers and arrays, and paths, as JSON knows them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form: {value!r}")


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as their widest cell; columns of numbers to the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(header), *cells]) for i in range(len(header))]
    right = [bool(rows) and all(isinstance(row[i], int | float) for row in rows) for i in range(len(header))]
    lines = [list(header), ["-" * width for width in widths], *cells]
    return "\n".join(
        "  ".join(
            c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
