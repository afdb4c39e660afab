"""Compare the BVH reader of mm_ros with bvhio and upc-pymotion in speed and in the computed joint positions.

Run `python -m mm_ros.evaluation.benchmarks.bvh FILE_OR_FOLDER… [--limit 12] [--json FILE]`.

Two durations are measured: `read` is the time to parse a file, and `whole` is the time until the global joint positions
of all frames are computed. The joint positions of bvhio are compared in a few frames only, because bvhio is slow.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.base.extras import setup_command
from mm_ros.base.files import write_whole
from mm_ros.motion.bvh.reader import read_bvh
from mm_ros.motion.importing import find_files

_COMPARED_FRAMES = 4


def best_of(times: int, work: Callable[[], Any]) -> tuple[float, Any]:
    best, value = float("inf"), None
    for _ in range(times):
        start = time.perf_counter()
        value = work()
        best = min(best, time.perf_counter() - start)
    return best, value


def ours_whole(path: str) -> Any:
    return read_bvh(path).globals()[0]


def pymotion_read(path: str) -> Any:
    from pymotion.io.bvh import BVH

    bvh = BVH()
    bvh.load(path)
    return bvh


def pymotion_whole(path: str) -> tuple[Any, list[str]]:
    from pymotion.ops.skeleton import fk

    bvh = pymotion_read(path)
    rotations, _, parents, offsets, _, _ = bvh.get_data()
    positions, _ = fk(rotations, bvh.data["positions"][:, 0], offsets, parents)
    return positions, list(bvh.data["names"])


def bvhio_read(path: str) -> Any:
    import bvhio

    return bvhio.readAsHierarchy(path)


def compare(path: str, slow: bool) -> dict[str, Any]:
    bvh = read_bvh(path)
    ours, positions = best_of(3, lambda: ours_whole(path))
    ours_read, _ = best_of(3, lambda: read_bvh(path))
    their_read, _ = best_of(3, lambda: pymotion_read(path))
    theirs, (their_positions, names) = best_of(3, lambda: pymotion_whole(path))
    order = [names.index(n) for n in bvh.names]
    row = {
        "file": Path(path).name,
        "frames": len(bvh),
        "ours_read_s": ours_read,
        "ours_whole_s": ours,
        "pymotion_read_s": their_read,
        "pymotion_whole_s": theirs,
        "pymotion_apart": float(np.abs(their_positions[:, order] - positions[:, : len(bvh.names)]).max()),
    }
    if slow:
        row["bvhio_read_s"], root = best_of(1, lambda: bvhio_read(path))
        row["bvhio_apart"] = _bvhio_apart(root, bvh.names, positions)
    return row


def _bvhio_apart(root: Any, names: tuple[str, ...], positions: Any) -> float:
    worst = 0.0
    for frame in np.linspace(0, len(positions) - 1, _COMPARED_FRAMES).astype(int):
        root.loadPose(int(frame))
        at = {joint.Name: np.array(joint.PositionWorld) for joint, _, _ in root.layout()}
        worst = max(worst, *(float(np.abs(at[n] - positions[frame, j]).max()) for j, n in enumerate(names)))
    return worst


def run(paths: list[Path], limit: int, json_file: Path | None = None) -> dict[str, Any]:
    try:
        import bvhio  # noqa: F401
        import pymotion  # noqa: F401
    except ImportError as error:
        raise MmRosError(f"{error.name} is not installed: {setup_command('bench')}") from error
    files = find_files(paths)[:limit]
    ours_whole(files[0])  # The first call of the BVH reader compiles all functions, and is not measured.
    rows = [compare(f, slow=True) for f in files]
    total = {k: sum(r[k] for r in rows) for k in rows[0] if k.endswith("_s")}
    out = {
        "files": rows,
        "seconds": total,
        "faster_than_bvhio": total["bvhio_read_s"] / total["ours_whole_s"],
        "faster_than_pymotion_read": total["pymotion_read_s"] / total["ours_read_s"],
        "faster_than_pymotion_whole": total["pymotion_whole_s"] / total["ours_whole_s"],
        "apart": {k: max(r[f"{k}_apart"] for r in rows) for k in ("pymotion", "bvhio")},
    }
    print("seconds: mm_ros, pymotion, bvhio (parsing only); largest difference to pymotion and to bvhio, in file units")
    for r in rows:
        seconds = "  ".join(f"{r[k]:8.4f}" for k in ("ours_whole_s", "pymotion_whole_s", "bvhio_read_s"))
        apart = "  ".join(f"{r[k]:.1e}" for k in ("pymotion_apart", "bvhio_apart"))
        print(f"{r['file']:<24} {r['frames']:6d} frames  {seconds}  {apart}")
    print(
        f"mm_ros parses {out['faster_than_pymotion_read']:.1f}× as fast as pymotion; with global positions it is "
        f"{out['faster_than_pymotion_whole']:.1f}× as fast as pymotion and {out['faster_than_bvhio']:.0f}× as fast as "
        "bvhio, which only parses in that time"
    )
    if json_file is not None:
        write_whole(json_file, (json.dumps(out, indent=2) + "\n").encode())
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--limit", type=int, default=12, help="maximum number of files (default: %(default)s)")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    run(args.paths, args.limit, args.json)


if __name__ == "__main__":
    main()
