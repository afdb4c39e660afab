"""Open randomly damaged files in forked processes: `python -m fuzz --seconds 60`.

A file reader passes if it opens the file, or refuses it with one sentence. A traceback, a crash, more than 10 s or more
than 1 GB of memory is a finding, whose damaged file is stored in the folder of the option `--keep`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from contextlib import redirect_stdout, suppress
from pathlib import Path

from fuzz.mutations import damaged
from fuzz.seeds import Format, formats, opened
from mm_ros.base.process import settle

TIME_S, MEMORY_BYTES = 10.0, 1 << 30
BATCH = 400  # inputs per process
BUSY = 12  # The time limit of a file is multiplied by this while other processes take the CPU time.


def content(kind: Format, seed: int, number: int) -> bytes:
    return damaged(kind.seeds, kind.text, random.Random(f"{kind.name} {seed} {number}"))


def place() -> str:
    """Return the line of mm_ros that raised the current exception."""
    error, trace = sys.exc_info()[1], traceback.extract_tb(sys.exc_info()[2])
    ours = [f for f in trace if "/mm_ros/" in f.filename]
    last = ours[-1] if ours else trace[-1]
    return f"{type(error).__name__} at {last.filename.split('/mm_ros/')[-1]}:{last.lineno}: {str(error)[:100]}"


def child(kind: Format, seed: int, numbers: range, folder: Path, report: int) -> None:
    """Open the damaged files `numbers` one by one, and write a line with number and outcome of each to `report`."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    os.chdir(folder)  # MuJoCo writes its warnings into the current folder
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY_BYTES, size + MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in numbers:
        path = folder / kind.file
        path.write_bytes(content(kind, seed, number))
        os.write(report, f"{number} begun\n".encode())
        try:
            opened(kind, path)
            outcome = "fine"
        except MemoryError:
            outcome = "memory " + place()
        except BaseException:
            outcome = "traceback " + place()
        os.write(report, (f"{number} {outcome}".replace("\n", " ")[:900] + "\n").encode(errors="replace"))
        path.unlink(missing_ok=True)
    os._exit(0)


def run_batch(
    kind: Format, seed: int, numbers: range, folder: Path, end: float, patience: float
) -> list[tuple[int, str]]:
    """Return number and outcome of each damaged file; if the process crashes or hangs, a new one continues."""
    out: list[tuple[int, str]] = []
    while numbers and time.monotonic() < end:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            try:
                child(kind, seed, numbers, folder, write)
            finally:
                os._exit(99)
        os.close(write)
        done, begun, state = _listen(read, pid, end, patience, out)
        os.close(read)
        if state == "end":
            break
        if state and begun is not None:
            out.append((begun, state))
            done += 1
        numbers = numbers[done:] if state else numbers[:0]
    return out


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _listen(
    read: int, pid: int, end: float, patience: float, out: list[tuple[int, str]]
) -> tuple[int, int | None, str]:
    """Return how many files the process has finished, the number of the unfinished file, and the failure ('': none)."""
    text, done, begun = b"", 0, None
    state = ""
    before_s = cpu_s(pid)
    quiet = 0
    while True:
        ready, _, _ = select.select([read], [], [], patience)
        quiet = 0 if ready else quiet + 1
        if not ready and quiet < BUSY and cpu_s(pid) - before_s < patience:
            continue  # the process did not hang: the machine was busy with other work
        before_s = cpu_s(pid)
        if not ready:
            state = "hang"
        part = os.read(read, 65536) if ready else b""
        if not part:
            break
        text += part
        *lines, text = text.split(b"\n")
        for line in lines:
            number, _, outcome = line.decode(errors="replace").partition(" ")
            if outcome == "begun":
                begun = int(number)
            else:
                out.append((int(number), outcome))
                done, begun = done + 1, None
        if time.monotonic() > end:
            state = "end"
            break
    if state:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if not state and status:
        state = f"crash {signal.Signals(status & 0x7F).name if status & 0x7F else status >> 8}"
    return done, begun, state


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="after the preparation (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--inputs", type=int, default=0, help="inputs per format; 0: as many as the time allows")
    parser.add_argument("--formats", default="", help="comma-separated names (default: all)")
    parser.add_argument("--patience", type=float, default=TIME_S, help="time limit [s] (default: %(default)s)")
    parser.add_argument("--keep", type=Path, help="folder for inputs with a finding")
    parser.add_argument("--json", type=Path, help="file for the results")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(prefix="mm_ros-fuzz-") as temporary:
        folder = Path(temporary)
        os.environ["MM_ROS_CACHE"] = str(folder / "cache")
        kinds = formats(folder)
        wanted = args.formats.split(",") if args.formats else [k.name for k in kinds]
        kinds = [k for k in kinds if k.name in wanted]
        counts = run(kinds, args, folder)
    findings = sum(n for c in counts.values() for k, n in c.items() if k != "fine")
    for name, count in counts.items():
        bad = {k.split(" ")[0]: 0 for k in count if k != "fine"}
        for k, n in count.items():
            if k != "fine":
                bad[k.split(" ")[0]] += n
        print(f"{name:<12} {sum(count.values()):>7} inputs  {bad or 'no finding'}")
        for k, n in count.most_common():
            if k != "fine":
                print(f"    {n:>5} × {k}")
    total = sum(sum(c.values()) for c in counts.values())
    print(f"{total} inputs, {findings} findings")
    if args.json:
        args.json.write_text(json.dumps({k: dict(v) for k, v in counts.items()}, indent=1))
    if not total:
        print("fuzz: no input was opened, so nothing is shown; give it more --seconds", file=sys.stderr)
    return 1 if findings or not total else 0


def run(kinds: list[Format], args: argparse.Namespace, folder: Path) -> dict[str, Counter[str]]:
    """Return the number of each outcome by file format; Ctrl-C ends the run early."""
    counts: dict[str, Counter[str]] = {k.name: Counter() for k in kinds}
    with suppress(KeyboardInterrupt):
        _run(kinds, args, folder, counts)
    return counts


def _run(kinds: list[Format], args: argparse.Namespace, folder: Path, counts: dict[str, Counter[str]]) -> None:
    warm_up(kinds, folder)
    settle()
    end = time.monotonic() + args.seconds
    first = 0
    batch = min(BATCH, args.inputs or BATCH)
    while time.monotonic() < end and not (args.inputs and first >= args.inputs):
        for k, kind in enumerate(kinds):
            place_of = folder / f"in_{kind.name}"
            place_of.mkdir(exist_ok=True)
            share = min(end, time.monotonic() + max((end - time.monotonic()) / (len(kinds) - k), 1.0))
            if kind.name == "metadata":
                (place_of / "mcap_none.mcap").write_bytes(next((folder / "mcap_none").glob("*.mcap")).read_bytes())
            numbers = range(math.ceil(first * kind.share), math.ceil((first + batch) * kind.share))
            for number, outcome in run_batch(kind, args.seed, numbers, place_of, share, args.patience):
                name, _, where = outcome.partition(" ")
                counts[kind.name][outcome if not where else f"{name} {where.rsplit(': ', 1)[0]}"] += 1
                if name != "fine":
                    keep(args, kind, number, outcome)
        first += batch


def warm_up(kinds: list[Format], folder: Path) -> None:
    """Load modules and compiled functions before processes are forked, but no networks, whose threads do not survive a
    fork."""
    import onnxruntime  # noqa: F401

    place_of = folder / "warm"
    place_of.mkdir()
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        for kind in kinds:
            if kind.name in ("bvh", "csv", "features", "options", "calibration", "urdf", "mmdb", "mcap"):
                path = place_of / kind.file
                path.write_bytes(kind.seeds[0])
                opened(kind, path)


def keep(args: argparse.Namespace, kind: Format, number: int, outcome: str) -> None:
    print(f"{kind.name} {number}: {outcome[:300]}", file=sys.stderr)
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
        (args.keep / f"{kind.name}_{args.seed}_{number}_{kind.file}").write_bytes(content(kind, args.seed, number))


if __name__ == "__main__":
    sys.exit(main())
