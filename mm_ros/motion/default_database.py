"""Build the default database of synthetic motion when it is first needed, and keep it in the cache folder."""

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

# A function that reports progress; its arguments are the activity, the number of finished items, and their total number
Progress = Callable[[str, int, int], None]
SEED = 0
# Modules whose code determines the content of the default database, which is built again if one of these modules
# changes. A test checks that only modules for errors, files and settings are missing in the list.
_MADE_OF = ("motion/procedural/*.py", "motion/bands.py", "motion/cleaning/*.py", "body/clip.py", "motion/contacts.py",
            "motion/database.py", "motion/extreme.py", "motion/feature*.py", "maths/jit.py", "motion/kinds.py",
            "motion/metrics_feet.py", "maths/rotations.py",
            "maths/signals.py", "search/*.py", "search/tree/*.py", "body/skeleton.py", "motion/stoop.py",
            "body/types.py", "motion/build.py", "base/checksums.py", "motion/files.py")  # fmt: skip


def default_database_path(progress: Progress | None = None, features: str = VR) -> Path:
    """Return the path of the default database. If the file is missing, build it, which takes about 20 s; other
    processes that need the default database wait for the end of the build. `features` is the name of a built-in feature
    layout, or the path of a YAML file with another layout.
    """
    layout = layout_of(features)
    if any(f.kind == "function" for f in layout.features):
        raise MmRosError(f"{features}: kind 'function' needs a database that `mm_ros import --features` made")
    path = writable_root() / "database" / f"procedural-{_key(layout)}{SUFFIX}"
    if path.exists():
        mark_used(path)
        return path
    with locked(path.stem):
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            _make(path, layout, progress or (lambda what, done, of: None))
            _forget_older(path)
    return path


def _make(path: Path, layout: FeatureLayout, report: Progress) -> None:
    clips = make_clips(SEED, lambda share: report("walking", round(100 * share), 100))
    # Synthetic feet do not slide, and synthetic motion contains bent postures, so no feet are corrected and no bent
    # copies are added.
    options = BuildOptions(
        mirror=True, plant_feet=False, stooped=0.0, licence="procedural, made by mm_ros itself", progress=report
    )
    write_database(build_database(clips, layout, options), path)


def _forget_older(kept: Path) -> None:
    for path in unused(kept.parent, f"procedural-*{SUFFIX}"):
        if path != kept:
            path.unlink(missing_ok=True)


def _key(layout: FeatureLayout) -> str:
    package = Path(mm_ros.base.__file__).parents[1]
    digest = hashlib.sha256(f"{SEED} {layout}".encode())
    for pattern in _MADE_OF:
        for source in sorted(package.glob(pattern)):
            digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
