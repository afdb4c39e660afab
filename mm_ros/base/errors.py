"""The one error that a user can cause."""


class MmRosError(ValueError):
    """An error in the input. The text is a sentence: what came, what was expected, what exists.

    The command line prints the text without a traceback and exits with code 2.
    """
