"""How much the figures of `mm_ros evaluate` change when a constant of a module is halved and doubled.

    python tools/sensitivity.py mm_ros/trajectory/lean.py walk.bvh user.csv --only HALFLIFE_S

Each variant is a copy of the package with one number changed, run with a cache of its own, because compiled kernels
contain the constants: one to three minutes for each variant. A constant whose row says "no difference" serves nothing
on these recordings; run it on other kinds of motion before it is deleted together with its rule.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from mm_ros.base.own_python import module_command

ROOT = Path(__file__).resolve().parents[1]
FIGURES = (
    "ankle_error_cm", "facing_error_deg", "hips_error_cm", "hand_error_all_m", "footfall_f1", "contact_agreement",
    "skate_ratio", "jitter", "pops_per_min", "jumps_per_s",
)  # fmt: skip
NO_DIFFERENCE = 0.005  # relative change of a figure
ROUNDING = 1e-6


def constants(text: str) -> dict[str, ast.Constant]:
    """Number of each module-level `NAME = number`, by name."""
    found = {}
    for line in ast.parse(text).body:
        if isinstance(line, ast.Assign):
            targets, value = line.targets, line.value
        elif isinstance(line, ast.AnnAssign):
            targets, value = [line.target], line.value
        else:
            continue
        name = targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""
        if name.isupper() and isinstance(value, ast.Constant) and type(value.value) is float:
            found[name] = value
    return found


def changed(text: str, number: ast.Constant, factor: float) -> str:
    """The text with this number multiplied by `factor`."""
    lines = text.splitlines(keepends=True)
    line = lines[number.lineno - 1].encode()
    value = repr(factor * number.value).encode()
    lines[number.lineno - 1] = (line[: number.col_offset] + value + line[number.end_col_offset :]).decode()
    return "".join(lines)


def figures(folder: Path, words: list[str]) -> dict[str, float]:
    """Medians, or values, of the figures that `mm_ros evaluate` of the package in `folder` writes."""
    out = folder / "out.json"
    environment = {**os.environ, "PYTHONPATH": str(folder), "MM_ROS_CACHE": str(folder / "cache")}
    command = module_command("mm_ros", "evaluate", *words, "--rows", "ours", "--json", str(out))
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"sensitivity: evaluate failed: {done.stderr.strip()}")
    ours = json.loads(out.read_text())["summary"]["ours"]
    values = {name: ours.get(name) for name in FIGURES}
    values = {name: v["median"] if isinstance(v, dict) else v for name, v in values.items()}
    return {name: v for name, v in values.items() if v is not None}


def measured(module: Path, text: str, words: list[str]) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="mm_ros-sensitivity-") as name:
        folder = Path(name)
        shutil.copytree(ROOT / "mm_ros", folder / "mm_ros", ignore=shutil.ignore_patterns("__pycache__"))
        (folder / module).write_text(text)
        return figures(folder, words)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module", type=Path, help="file of the package whose constants are changed")
    parser.add_argument("recordings", type=Path, nargs="+", help="files for `mm_ros evaluate`")
    parser.add_argument("--only", default="", help="comma-separated names (default: all floats of the module)")
    args = parser.parse_args()
    if not (args.module.is_file() and args.module.resolve().is_relative_to(ROOT / "mm_ros")):
        parser.error(f"{args.module} is no file of {ROOT / 'mm_ros'}")
    module = args.module.resolve().relative_to(ROOT)
    words = [str(path.resolve()) for path in args.recordings]
    text = (ROOT / module).read_text()
    found = constants(text)
    wanted = args.only.split(",") if args.only else list(found)
    if unknown := [name for name in wanted if name not in found]:
        parser.error(f"{module} has no float {', '.join(unknown)}; it has {', '.join(found) or 'none'}")
    base = measured(module, text, words)
    print("as it is: " + ", ".join(f"{name} {value:.4g}" for name, value in base.items()), flush=True)
    for name in wanted:
        for factor in (0.5, 2.0):
            now = measured(module, changed(text, found[name], factor), words)
            moved = [
                f"{figure} {base[figure]:.4g} → {value:.4g}"
                for figure, value in now.items()
                if figure in base and abs(value - base[figure]) > max(NO_DIFFERENCE * abs(base[figure]), ROUNDING)
            ]
            number = factor * found[name].value
            print(f"{name} = {number:g}: {', '.join(moved) or 'no difference'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
