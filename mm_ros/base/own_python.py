"""The command that runs one of our modules in a process of its own, in this Python."""

import sys

# Not `-m`: it searches the current folder first, before any code of ours runs, so that a numpy.py in a downloaded
# folder would be run. `-P` turns this off from Python 3.11 on; this does the same in 3.10 too. `sys` is built in.
RUN_MODULE = (
    "import sys; sys.path[:] = filter(None, sys.path); del sys.argv[0]; "
    "import runpy; runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


def module_command(module: str, *words: str) -> list[str]:
    """As `python -m MODULE WORDS…`, but nothing is imported from the current folder."""
    return [sys.executable, "-c", RUN_MODULE, module, *words]
