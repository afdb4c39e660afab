"""The one error that a user can cause."""


class MmRosError(ValueError):
    """A mistake in what came in. The text is a sentence: what came, what was expected, what exists.

    The command line prints it without a traceback and ends with 2.
    """
