"""`mm_ros bench all`: each of the others in turn, one report."""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from mm_ros.cli import available, run_verb
from mm_ros.commands.output import add_json, table, write_json
from mm_ros.core.errors import MmRosError

HELP = "all benches, one after the other, each as it is by default"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "example: mm_ros bench all --json bench.json"
    parser.add_argument("--only", default="", help="comma-separated benches instead of all, e.g. search,graph")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    known = [name for name in available()["bench"] if name != "all"]
    wanted = [name for name in args.only.split(",") if name] or known
    for name in wanted:
        if name not in known:
            raise MmRosError(f"bench '{name}' does not exist. Benches: {', '.join(known)}")
    rows: list[tuple[str, str, float]] = []
    results: dict[str, Any] = {}
    for name in wanted:
        print(f"\n=== bench {name}", flush=True)
        start = time.monotonic()
        verdict, results[name] = _run_one(name)
        rows.append((name, verdict, time.monotonic() - start))
    print("\n" + table(("bench", "result", "seconds"), rows))
    write_json(args.json, results)
    return 0 if all(verdict == "done" for _, verdict, _ in rows) else 1


def _run_one(name: str) -> tuple[str, Any]:
    """One that fails does not keep the others from running."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / f"{name}.json"
        try:
            code = run_verb(("bench", name), ["--json", str(report)])
        except (MmRosError, SystemExit) as error:
            print(f"mm_ros: {error}", flush=True)
            return "failed", None
        result = json.loads(report.read_text()) if report.is_file() else None
        return ("done" if code == 0 else f"exit code {code}"), result
