"""The database that is there when nobody brings motion capture: procedural walking, made once, kept in the cache."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import mm_ros.base
from mm_ros.base.cache import locked, mark_used, unused, writable_root
from mm_ros.motion.build import BuildOptions, build_database
from mm_ros.motion.files import SUFFIX, write_database
from mm_ros.motion.procedural import make_clips

Progress = Callable[[str, int, int], None]  # what, done, of
SEED = 0
# All that these import, in turn (a test looks), but for what only says how: errors, files, settings.
_MADE_OF = ("motion/procedural/*.py", "motion/bands.py", "motion/cleaning.py", "body/clip.py", "motion/contacts.py",
            "motion/database.py", "motion/feature*.py", "maths/jit.py", "motion/kinds.py", "motion/mending.py",
            "motion/retarget_legs.py", "maths/rotations.py", "search/*.py", "search/tree/*.py", "body/skeleton.py",
            "motion/stoop.py", "body/types.py", "motion/build.py", "base/checksums.py",
            "motion/files.py")  # fmt: skip


def default_database_path(progress: Progress | None = None) -> Path:
    """The file; made first where it is missing, which takes about 20 s. Processes that ask at once wait for one."""
    path = writable_root() / "database" / f"procedural-{_key()}{SUFFIX}"
    if path.exists():
        mark_used(path)
        return path
    with locked("default-database"):
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            _make(path, progress or (lambda what, done, of: None))
            _forget_older(path)
    return path


def _make(path: Path, tell: Progress) -> None:
    clips = make_clips(SEED, lambda share: tell("walking", round(100 * share), 100))
    # Planned feet do not slide: planting them again could only bend the legs.
    # And bent postures are planned, so that none need be made of upright ones.
    options = BuildOptions(
        mirror=True, plant_feet=False, stooped=0.0, licence="procedural, made by mm_ros itself", progress=tell
    )
    write_database(build_database(clips, options=options), path)


def _forget_older(kept: Path) -> None:
    """Who has an older one mapped keeps it: removing a name takes nothing from them."""
    for path in unused(kept.parent, f"procedural-*{SUFFIX}"):
        if path != kept:
            path.unlink(missing_ok=True)


def _key() -> str:
    """Changes with the code that makes the database, so that an update is not answered with yesterday's motion."""
    package = Path(mm_ros.base.__file__).parents[1]
    digest = hashlib.sha256(str(SEED).encode())
    for pattern in _MADE_OF:
        for source in sorted(package.glob(pattern)):
            digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
