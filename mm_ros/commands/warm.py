"""`mm_ros warm`: whatever takes long the first time, done now and once."""

import argparse
import time

from mm_ros.cache import locked

HELP = "compile the kernels, so that no frame waits for it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "example: mm_ros warm"
    parser.add_argument("--quiet", action="store_true", help="say nothing when all goes well")


def run(args: argparse.Namespace) -> int:
    start = time.monotonic()
    # Five nodes that start at once wait here for the first one instead of compiling five times.
    with locked("warm"):
        steps = _compile_kernels()
    if not args.quiet:
        print(f"{steps} module(s) ready after {time.monotonic() - start:.1f} s")
    return 0


def _compile_kernels() -> int:
    """Call `warm_up()` of every core module that has one."""
    import importlib
    import pkgutil

    import mm_ros.core

    count = 0
    for info in pkgutil.iter_modules(mm_ros.core.__path__):
        module = importlib.import_module(f"mm_ros.core.{info.name}")
        warm_up = getattr(module, "warm_up", None)
        if callable(warm_up):
            warm_up()
            count += 1
    return count
