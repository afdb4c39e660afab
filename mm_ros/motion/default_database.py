"""The default database: procedural motion, built once and kept in the cache."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import mm_ros.base
from mm_ros.base.cache import locked, mark_used, unused, writable_root
from mm_ros.base.errors import MmRosError
from mm_ros.motion.build import BuildOptions, build_database
from mm_ros.motion.feature_files import VR, layout_of
from mm_ros.motion.features import FeatureLayout
from mm_ros.motion.files import SUFFIX, write_database
from mm_ros.motion.procedural import make_clips

# callback with the activity, the number of items done, and the total number of items
Progress = Callable[[str, int, int], None]
SEED = 0
# All modules that determine the content of the database, directly or by import, except errors, files and settings (a
# test checks this list).
_MADE_OF = ("motion/procedural/*.py", "motion/bands.py", "motion/cleaning/*.py", "body/clip.py", "motion/contacts.py",
            "motion/database.py", "motion/extreme.py", "motion/feature*.py", "maths/jit.py", "motion/kinds.py",
            "motion/metrics_feet.py", "maths/rotations.py",
            "maths/signals.py", "search/*.py", "search/tree/*.py", "body/skeleton.py", "motion/stoop.py",
            "body/types.py", "motion/build.py", "base/checksums.py", "motion/files.py")  # fmt: skip


def default_database_path(progress: Progress | None = None, features: str = VR) -> Path:
    """Return the database's path. Build the file if it is missing (about 20 s); concurrent callers wait for it.

    `features`: name of a built-in layout, or the YAML file of another one.
    """
    layout = layout_of(features)
    if any(f.kind == "function" for f in layout.features):
        raise MmRosError(f"{features}: kind 'function' needs a database that `mm_ros import --features` made")
    path = writable_root() / "database" / f"procedural-{_key(layout)}{SUFFIX}"
    if path.exists():
        mark_used(path)
        return path
    with locked("default-database"):
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            _make(path, layout, progress or (lambda what, done, of: None))
            _forget_older(path)
    return path


def _make(path: Path, layout: FeatureLayout, report: Progress) -> None:
    clips = make_clips(SEED, lambda share: report("walking", round(100 * share), 100))
    # Procedural feet do not slide and bent postures are included, so neither planting nor bent copies are needed.
    options = BuildOptions(
        mirror=True, plant_feet=False, stooped=0.0, licence="procedural, made by mm_ros itself", progress=report
    )
    write_database(build_database(clips, layout, options), path)


def _forget_older(kept: Path) -> None:
    """Delete unused older files. Processes that have mapped such a file can still read it."""
    for path in unused(kept.parent, f"procedural-*{SUFFIX}"):
        if path != kept:
            path.unlink(missing_ok=True)


def _key(layout: FeatureLayout) -> str:
    """Return a hash of the layout and of the code that makes the database, so that an update rebuilds it."""
    package = Path(mm_ros.base.__file__).parents[1]
    digest = hashlib.sha256(f"{SEED} {layout}".encode())
    for pattern in _MADE_OF:
        for source in sorted(package.glob(pattern)):
            digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
