"""Measure memory and computing time of the class Avatar over an hour of motion, computed as fast as possible.

`python tools/hour.py [--hours 1.0] [--database my.mmdb] [--traced]` takes three minutes. One minute of a synthetic
user's motion is played forward and backward again and again.
"""

import argparse
import gc
import tracemalloc
from pathlib import Path
from time import perf_counter

import numpy as np

from mm_ros.avatar import Avatar
from mm_ros.motion.default_database import default_database_path
from mm_ros.motion.files import read_database
from mm_ros.tracking.calibration import from_skeleton
from mm_ros.tracking.simulation import simulate_clip
from mm_ros.tracking.sources.synthetic import user_clip

RATE = 90
TOLD_EACH_S = 360


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--database", type=Path, help="default: the procedural one")
    parser.add_argument("--traced", action="store_true", help="count Python's allocations too (four times slower)")
    args = parser.parse_args()
    clip = user_clip(60.0)
    database = read_database(args.database or default_database_path())
    avatar = Avatar.load(database, from_skeleton(clip.skeleton))
    avatar.warm_up()
    track = simulate_clip(clip)
    frames = [track.frame(i) for i in range(len(track))]
    frames += frames[-2:0:-1]  # played backward, too, so that the user's position does not jump
    steps = round(args.hours * 3600 * RATE)
    took = np.zeros(steps, np.float32)
    for k in range(steps):
        frame = frames[k % len(frames)]
        frame.stamp_ns = round(k * 1e9 / RATE)
        began = perf_counter()
        avatar.step(frame)
        took[k] = perf_counter() - began
        if k % (TOLD_EACH_S * RATE) == 0 or k == steps - 1:
            gc.collect()
            traced = f", {tracemalloc.get_traced_memory()[0] / 1e3:.1f} kB of Python's" if args.traced else ""
            print(f"{k:7d} steps: {resident_mb():.1f} MB{traced}", flush=True)
            if args.traced and not tracemalloc.is_tracing():
                tracemalloc.start()
    ms = took * 1e3
    p50, p90, p99 = np.percentile(ms, (50, 90, 99))
    print(f"a step: median {p50:.3f} ms, p90 {p90:.3f}, p99 {p99:.3f}, longest {ms.max():.1f}")


if __name__ == "__main__":
    main()
