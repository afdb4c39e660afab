"""Run the command `mm_ros` as `python -m mm_ros`."""

import signal
import sys

from mm_ros.base.cache import configure_bytecode

configure_bytecode()

from mm_ros.base.ending import exit_by_code  # noqa: E402
from mm_ros.cli.main import main  # noqa: E402


def command() -> int:
    code = main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # A second Ctrl-C is ignored during the shutdown of Python.
    exit_by_code()
    return code


if __name__ == "__main__":
    sys.exit(command())
