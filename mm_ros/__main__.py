"""`python -m mm_ros` is the command `mm_ros`."""

import signal
import sys

from mm_ros.base.cache import configure_bytecode

configure_bytecode()

from mm_ros.cli.main import main  # noqa: E402


def command() -> int:
    code = main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not interrupt Python's shutdown
    return code


if __name__ == "__main__":
    sys.exit(command())
