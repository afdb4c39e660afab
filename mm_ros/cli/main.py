"""The command `mm_ros`, whose first argument is a verb.

Each verb is a module in mm_ros/cli with `HELP`, `add_arguments(parser)` and `run(args) -> int`. Only the module of the
given verb is imported, so `mm_ros --help` needs neither ROS nor numba.
"""

import argparse
import ast
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from mm_ros import __version__
from mm_ros.base import ending
from mm_ros.base.errors import MmRosError
from mm_ros.base.text import printable
from mm_ros.cli.output import stdout_kept_for

_COMMANDS = Path(__file__).parent

# The table VERBS lists each verb with its sub-verbs, in the order of the help text. Each sub-verb has its own file, for
# example cli/bench_search.py for `mm_ros bench search`.
VERBS: dict[str, tuple[str, ...]] = {
    "demo": (),
    "headset": (),
    "doctor": (),
    "setup": (),
    "import": (),
    "info": (),
    "synth": ("motion", "session"),
    "session": ("from-bvh", "from-csv"),
    "record": (),
    "replay": (),
    "up": (),
    "view": (),
    "calibrate": (),
    "pose-setup": (),
    "evaluate": (),
    "explain": (),
    "warm": (),
    "clean": (),
    "train": ("orientation", "steps", "learned"),
    "robot": ("info", "show"),
    "bench": (
        "search", "graph", "viewer", "webxr", "trackers", "engines", "steering", "robot", "paper", "thesis", "all",
    ),
}  # fmt: skip

GROUP_HELP = {
    "synth": "generate procedural motion capture or a session of a synthetic user",
    "session": "convert motion capture or a table of poses into a session (rosbag2)",
    "robot": "inspect robots that follow the avatar, and film them",
    "train": "train a network and write it as an ONNX file",
    "bench": "run benchmarks",
}


RENAMED = {
    ("replay", "--rate"): "--speed",
    ("evaluate", "--camera"): "--simulated-camera",
    ("synth session", "--camera"): "--simulated-camera",
    ("session from-bvh", "--camera"): "--simulated-camera",
    ("view", "--avatars"): "--show",
    ("bench all", "--only"): "--benches",
}


def module_name(*words: str) -> str:
    """Return the name of a verb's module: `bench_search` for `mm_ros bench search`, `import_` for `mm_ros import`."""
    name = "_".join(words).replace("-", "_")
    return f"{name}_" if name == "import" else name


def exists(*words: str) -> bool:
    return (_COMMANDS / f"{module_name(*words)}.py").is_file()


def one_line_help(*words: str) -> str:
    """Return the first line of a verb's HELP text. The help text is parsed from the source file of the verb, because an
    import of the module may take a second."""
    tree = ast.parse((_COMMANDS / f"{module_name(*words)}.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "HELP" for t in node.targets
        ):
            return str(ast.literal_eval(node.value)).splitlines()[0]
    return ""


def available() -> dict[str, tuple[str, ...]]:
    """Return the verbs and sub-verbs in the table VERBS for which a module exists."""
    rows = {}
    for verb, subs in VERBS.items():
        here = tuple(sub for sub in subs if exists(verb, sub))
        if here or (not subs and exists(verb)):
            rows[verb] = here
    return rows


def _overview(title: str, rows: dict[str, str]) -> str:
    width = max((len(name) for name in rows), default=0)
    return "\n".join([title, *(f"  {name:<{width}}  {text}" for name, text in rows.items())])


def _top_parser() -> argparse.ArgumentParser:
    verbs = available()
    rows = {
        v: one_line_help(v) if not subs else f"{GROUP_HELP[v]} ({', '.join(subs)})"
        for v, subs in verbs.items()
    }
    parser = argparse.ArgumentParser(
        prog="mm_ros",
        usage="mm_ros <verb> [options]",
        description="A full-body avatar from a headset and two controllers, by motion matching, on ROS 2.",
        epilog=_overview("verbs:", rows) + "\n\nRun `mm_ros <verb> --help` for the options of a verb and an example.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mm_ros {__version__}")
    parser.add_argument("verb", choices=list(verbs), metavar="verb", help="command to run; see the list below")
    return parser


def _group_parser(verb: str, subs: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"mm_ros {verb}",
        usage=f"mm_ros {verb} <what> [options]",
        description=f"{GROUP_HELP[verb]}.",
        epilog=_overview("what:", {sub: one_line_help(verb, sub) for sub in subs}),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=list(subs), metavar="what", help="command to run; see the list below")
    return parser


def verb_parser(*words: str) -> tuple[argparse.ArgumentParser, ModuleType]:
    module = importlib.import_module(f"mm_ros.cli.{module_name(*words)}")
    parser = argparse.ArgumentParser(
        prog=" ".join(["mm_ros", *words]),
        description=module.HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        # Abbreviated options are refused, because a former name such as `--only` could mean another option.
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    return parser, module


def run_verb(words: Sequence[str], argv: Sequence[str]) -> int:
    for word in argv:
        name = word.partition("=")[0]
        if (" ".join(words), name) in RENAMED:
            raise MmRosError(f"{name} is now called {RENAMED[' '.join(words), name]}")
    parser, module = verb_parser(*words)
    args = parser.parse_args(argv)
    with stdout_kept_for(getattr(args, "json", None)):
        return int(module.run(args) or 0)


def _dispatch(argv: Sequence[str]) -> int:
    verbs = available()
    # The top-level parser is made only for help texts and errors: it reads the files of all verbs, which takes 20 ms.
    verb = argv[0] if argv and argv[0] in verbs else _top_parser().parse_args(argv[:1]).verb
    subs = verbs[verb]
    if not subs:
        return run_verb((verb,), argv[1:])
    what = _group_parser(verb, subs).parse_args(argv[1:2]).what
    return run_verb((verb, what), argv[2:])


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        _prepare_end()
        return _flushed(arguments)
    except KeyboardInterrupt:
        ending.say_line()
        return 130
    except Exception as error:
        if ending.asked():  # A library may have replaced the KeyboardInterrupt of a Ctrl-C by another exception.
            ending.say_line()
            return 130
        code = _failed(error)
        if code is None:
            raise
        return code


def _prepare_end() -> None:
    """Make the process end on Ctrl-C and, if the parent process has set MM_ROS_PARENT, when the parent process ends."""
    ending.forget()
    if ending.PARENT in os.environ:
        from mm_ros.base.process import end_with_parent

        end_with_parent()
    if ending.is_unhandled():
        ending.remember(signal.SIGINT)


def _failed(error: Exception) -> int | None:
    """Print the text of an expected error and return the exit code. If the error is unexpected, print nothing and
    return None, so that the caller raises the error again."""
    if isinstance(error, MmRosError):
        print(f"mm_ros: {printable(str(error))}", file=sys.stderr)
        return 2
    if isinstance(error, BrokenPipeError):
        # In `mm_ros info … | head`, the program `head` closes the pipe early; /dev/null then replaces stdout, because
        # Python would otherwise print a second error at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    if isinstance(error, OSError) and error.filename is not None:
        print(f"mm_ros: {printable(str(error.filename))}: {error.strerror}", file=sys.stderr)
        return 2
    return None


def _flushed(arguments: Sequence[str]) -> int:
    """Run the command and flush stdout, so that a closed pipe raises its error before Python exits."""
    try:
        return _dispatch(arguments)
    finally:
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
