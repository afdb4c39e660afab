"""Measure how much the figures of `mm_ros evaluate` change when a constant of a module is halved and doubled.

    python tools/sensitivity.py mm_ros/trajectory/fitted.py walk.bvh user.csv --only HALFLIFE_S

Each variant runs a copy of the package in which one number is changed. Compiled functions are kept between the
variants, except those of modules that import the changed one. The unchanged package runs once without and twice with
noise on the tracker positions. A change of a figure counts only if it is larger than the spread of these three runs; if
no change counts, the row of the constant says "no difference". Before you delete such a constant and its rule, run the
tool on other kinds of motion, and consider the faults that the rule prevents.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shlex
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
NO_DIFFERENCE = 0.005  # relative changes of a figure below this do not count
ROUNDING = 1e-6
NOISE = ("--noise", "0.0003")  # of a tracked headset [m]


def constants(text: str) -> dict[str, ast.Constant]:
    """Return, by name, the float constants of a module (`NAME = 1.0` and `FIRST, SECOND = 1.0, 2.0`)."""
    found: dict[str, ast.Constant] = {}
    for line in ast.parse(text).body:
        if isinstance(line, ast.Assign) and len(line.targets) == 1:
            target, value = line.targets[0], line.value
        elif isinstance(line, ast.AnnAssign) and line.value is not None:
            target, value = line.target, line.value
        else:
            continue
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=True))
        else:
            pairs = [(target, value)]
        for name, number in pairs:
            is_float = isinstance(number, ast.Constant) and type(number.value) is float
            if isinstance(name, ast.Name) and name.id.isupper() and is_float:
                found[name.id] = number
    return found


def changed(text: str, number: ast.Constant, factor: float) -> str:
    """Return the source text `text` with the constant `number` multiplied by `factor`."""
    lines = text.splitlines(keepends=True)
    line = lines[number.lineno - 1].encode()
    value = repr(factor * number.value).encode()
    lines[number.lineno - 1] = (line[: number.col_offset] + value + line[number.end_col_offset :]).decode()
    return "".join(lines)


def users(package: Path, module: Path, constant: str) -> set[str]:
    """Return the dotted names of all modules that use a constant of `module`, or that import such modules."""
    text = {".".join(p.relative_to(package.parent).with_suffix("").parts): p.read_text() for p in package.rglob("*.py")}
    home = ".".join(module.with_suffix("").parts)
    found, size = {name for name, source in text.items() if source.count(constant) > (name == home)}, 0
    imports = {}
    for name, source in text.items():
        nodes = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.ImportFrom) and n.module]
        imports[name] = {n.module for n in nodes} | {f"{n.module}.{a.name}" for n in nodes for a in n.names}
    while size < len(found):
        size = len(found)
        found |= {name for name, of in imports.items() if of & found}
    return found


class Variants:
    """A copy of the package in `folder`, in which one module is replaced at a time."""

    def __init__(self, folder: Path, module: Path, words: list[str], row: str = "ours"):
        self.folder, self.module, self.words, self.row = folder, module, words, row
        shutil.copytree(ROOT / "mm_ros", folder / "mm_ros", ignore=shutil.ignore_patterns("__pycache__"))
        # The appended function replaces the hash of the sources, so that a change does not compile everything again.
        with (folder / "mm_ros" / "base" / "cache.py").open("a") as file:
            file.write('\n\ndef kernels_key() -> str:\n    return "sensitivity"\n')

    def change(self, constant: str, text: str) -> None:
        """Replace the text of the module, and delete the compiled functions that contain the constant."""
        (self.folder / self.module).write_text(text)
        stems = {name.rsplit(".", 1)[-1] for name in users(self.folder / "mm_ros", self.module, constant)}
        for kernel in (self.folder / "kernels").rglob("*.nb?"):
            if kernel.name.split(".")[0].split("-")[0] in stems:
                kernel.unlink()

    def figures(self, *options: str) -> dict[str, float]:
        """Return the figures that `mm_ros evaluate` writes, and the median of each figure with several values."""
        out = self.folder / "out.json"
        environment = {
            **os.environ, "PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1",
            "MM_ROS_CACHE": str(self.folder / "cache"), "NUMBA_CACHE_DIR": str(self.folder / "kernels"),
        }  # fmt: skip
        command = module_command("mm_ros", "evaluate", *self.words, *options, "--rows", self.row, "--json", str(out))
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        row = json.loads(out.read_text())["summary"][self.row]
        values = {name: row.get(name) for name in FIGURES}
        values = {name: v["median"] if isinstance(v, dict) else v for name, v in values.items()}
        return {name: v for name, v in values.items() if v is not None}


def spread(runs: list[dict[str, float]]) -> dict[str, float]:
    """Return maximum minus minimum of each figure, but at least NO_DIFFERENCE times its value in `runs[0]`."""
    least = {name: max(NO_DIFFERENCE * abs(value), ROUNDING) for name, value in runs[0].items()}
    values = {name: [run[name] for run in runs if name in run] for name in runs[0]}
    return {name: max(least[name], max(of) - min(of)) for name, of in values.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module", type=Path, help="file of the package whose constants are changed")
    parser.add_argument("recordings", type=Path, nargs="+", help="files for `mm_ros evaluate`")
    parser.add_argument("--only", default="", help="comma-separated names (default: all floats of the module)")
    parser.add_argument("--row", default="ours", help="row of `mm_ros evaluate` (default: %(default)s)")
    parser.add_argument("--options", default="", help="further options of `mm_ros evaluate`, in one string")
    args = parser.parse_args()
    if not (args.module.is_file() and args.module.resolve().is_relative_to(ROOT / "mm_ros")):
        parser.error(f"{args.module} is no file of {ROOT / 'mm_ros'}")
    module = args.module.resolve().relative_to(ROOT)
    text = (ROOT / module).read_text()
    found = constants(text)
    wanted = args.only.split(",") if args.only else list(found)
    if unknown := [name for name in wanted if name not in found]:
        parser.error(f"{module} has no float {', '.join(unknown)}; it has {', '.join(found) or 'none'}")
    with tempfile.TemporaryDirectory(prefix="mm_ros-sensitivity-") as folder:
        words = [*(str(path.resolve()) for path in args.recordings), *shlex.split(args.options)]
        variants = Variants(Path(folder), module, words, args.row)
        try:
            base = variants.figures()
        except RuntimeError as error:
            sys.exit(f"sensitivity: evaluate failed: {error}")
        noise = spread([base, *(variants.figures(*NOISE, "--seed", seed) for seed in ("1", "2"))])
        rows = [f"{name} {value:.4g} ± {noise[name]:.2g}" for name, value in base.items()]
        print("as it is: " + ", ".join(rows), flush=True)
        for name in wanted:
            for factor in (0.5, 2.0):
                variants.change(name, changed(text, found[name], factor))
                try:
                    now = variants.figures()
                except RuntimeError as error:  # for example twice a share of 0.8
                    print(f"{name} = {factor * found[name].value:g}: fails, {str(error).splitlines()[-1]}", flush=True)
                    continue
                moved = [
                    f"{figure} {base[figure]:.4g} → {value:.4g}"
                    for figure, value in now.items()
                    if figure in base and abs(value - base[figure]) > noise[figure]
                ]
                number = factor * found[name].value
                print(f"{name} = {number:g}: {', '.join(moved) or 'no difference'}", flush=True)
            variants.change(name, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
