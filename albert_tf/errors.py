"""The exception for mistakes that a user can correct."""


class UserError(ValueError):
    """A mistake in data, paths or options whose message needs no traceback.

    The command line prints it on one line and ends with exit status 2.
    """
