"""`mm_ros bench all`: run all benchmarks and write one report."""

import argparse
import importlib.metadata
import json
import math
import os
import platform
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from mm_ros import __version__
from mm_ros.base.errors import MmRosError
from mm_ros.base.share import share_folder
from mm_ros.cli.main import available, run_verb
from mm_ros.cli.output import STDOUT, add_json, table, write_json

# Maps each benchmark to its command-line arguments for `mm_ros bench all --quick`.
QUICK = {
    "search": ["--sizes", "small", "--rounds", "1", "--no-growth"],
    "graph": ["--seconds", "3", "--rounds", "1", "--avatars", "2"],
    "trackers": ["--seconds", "3"],
    "paper": ["--test", "{cmu}/16_31.bvh"],
    "thesis": ["--data", "{cmu}/16_31.bvh", "{cmu}/16_32.bvh", "--test", "{cmu}/35_01.bvh"],
    "engines": ["{cmu}/16_31.bvh"],
    "steering": ["--engines", "state_machine", "--rounds", "1"],
    "robot": ["{robot}", "{session}", "--seconds", "3"],
}
NEEDS = {
    "engines": ["{cmu}/16_31.bvh", "{cmu}/69_01.bvh", "{cmu}/136_01.bvh"],
    "robot": ["{robot}", "{session}"],
}
NEED_CMU = ("paper",)  # benchmarks that use the CMU files by default, and no procedural motion if they are missing
SESSION_S = 20  # length of the procedural session that the shipped robot follows in `bench robot`
SKIPPED = "skipped: no CMU data"

HELP = "run all benches one after the other with their default options"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "example: mm_ros bench all --json bench.json"
    parser.add_argument(
        "--benches", default="", metavar="NAMES", help="only these benches, separated by commas: search,graph"
    )
    parser.add_argument(
        "--quick", action="store_true", help="short runs that only show that each bench works (some minutes)"
    )
    parser.add_argument(
        "--compare", type=Path, metavar="OLD", help="JSON file of an earlier run; prints the ratio of each figure"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    known = [name for name in available()["bench"] if name != "all"]
    wanted = [name for name in args.benches.split(",") if name] or known
    for name in wanted:
        if name not in known:
            raise MmRosError(f"bench '{name}' does not exist. Benches: {', '.join(known)}")
    earlier = _read(args.compare) if args.compare else {}
    rows: list[tuple[str, str, float]] = []
    results: dict[str, Any] = {"machine": machine()}
    for name in wanted:
        print(f"\n=== bench {name}", flush=True)
        start = time.monotonic()
        verdict, results[name] = _run_one(name, args.quick)
        rows.append((name, verdict, time.monotonic() - start))
        if args.json != STDOUT:
            write_json(args.json, results)  # A later Ctrl-C must not lose the results of completed benchmarks.
    print("\n" + table(("bench", "result", "seconds"), rows))
    if earlier:
        changed = ratios(earlier, results)
        print(f"\ncompared with {args.compare} (new / old, largest changes first)")
        print(
            table(("figure", "old", "new", "ratio"), changed[:40])
            if changed
            else "the two files have no figure in common"
        )
    write_json(args.json, results)
    return 0 if all(verdict in ("done", SKIPPED) for _, verdict, _ in rows) else 1


def machine() -> dict[str, Any]:
    """Return the processor, the load and the versions of the libraries of this machine."""
    names = ("numpy", "numba", "onnxruntime", "ros-jazzy-rclpy")
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "cpu": next((x.split(":")[1].strip() for x in _lines("/proc/cpuinfo") if x.startswith("model name")), ""),
        "load": os.getloadavg()[0],
        "mm_ros": __version__,
        "versions": {n: importlib.metadata.version(n) for n in names if _installed(n)},
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).is_file() else []


def _installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise MmRosError(f"{path} is not the JSON of an earlier `mm_ros bench all`: {error}") from None
    if not isinstance(value, dict):
        raise MmRosError(f"{path} is not the JSON of an earlier `mm_ros bench all`: expected an object")
    return value


def figures(value: Any, name: str = "") -> dict[str, float]:
    """Return all numbers of a report as a dict, whose keys are paths such as `search.medium.ours.median_us`."""
    if isinstance(value, bool) or value is None:
        return {}
    if isinstance(value, int | float):
        return {name: float(value)}
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {k: v for key, inner in items for k, v in figures(inner, f"{name}.{key}".lstrip(".")).items()}


def ratios(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Return a row (name, old value, new value, new / old) for each positive number that both reports contain. The rows
    are sorted by their ratio; the ratio that is farthest from 1 comes first."""
    before, after = ({k: v for k, v in figures(r).items() if not k.startswith("machine")} for r in (old, new))
    both = [(k, before[k], after[k]) for k in before if k in after and before[k] > 0 and after[k] > 0]
    both.sort(key=lambda row: -abs(math.log(row[2] / row[1])))
    return [(k, f"{a:.4g}", f"{b:.4g}", f"{b / a:.2f}") for k, a, b in both]


def _run_one(name: str, quick: bool) -> tuple[str, Any]:
    """Run one benchmark, catch its errors, and restore the process's CPU cores and environment for the next one."""
    cores, environment = os.sched_getaffinity(0), dict(os.environ)
    if _lacks_data(name, quick):
        from mm_ros.motion.shared_data import WHAT_IT_IS

        print(f"skipped: the shared motion data is missing. {WHAT_IT_IS}.", flush=True)
        return SKIPPED, None
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / f"{name}.json"
        try:
            words = [_filled(word, Path(folder)) for word in given(name, quick)]
            code = run_verb(("bench", name), ["--json", str(report), *words])
        except MmRosError as error:
            print(f"mm_ros: {error}", flush=True)
            return "failed", None
        except SystemExit:
            return "failed", None
        except Exception:
            traceback.print_exc()
            return "failed", None
        finally:
            os.sched_setaffinity(0, cores)
            os.environ.clear()
            os.environ.update(environment)
        result = json.loads(report.read_text()) if report.is_file() else None
        return ("done" if code == 0 else f"exit code {code}"), result


def given(name: str, quick: bool) -> list[str]:
    """Return a benchmark's command-line arguments, in which words in braces stand for files."""
    return (QUICK if quick else NEEDS).get(name, [])


def _lacks_data(name: str, quick: bool) -> bool:
    from mm_ros.motion.shared_data import has_data

    return not has_data() and (name in NEED_CMU or any("{cmu}" in word for word in given(name, quick)))


def _filled(word: str, folder: Path) -> str:
    """Return an argument with the path of its file; a procedural session is written into `folder`."""
    if word == "{robot}":
        return str(share_folder() / "config" / "robots" / "mm_humanoid.urdf")
    if word == "{session}":
        run_verb(("synth", "session"), ["-o", str(folder / "user"), "--seconds", str(SESSION_S)])
        return str(folder / "user")
    if word.startswith("{cmu}/"):
        from mm_ros.motion.shared_data import dataset

        found = sorted(dataset("cmu_locomotion").rglob(word.removeprefix("{cmu}/")))
        return str(found[0]) if found else word
    return word
