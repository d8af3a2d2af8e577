"""The one exception for mistakes that a user can mend."""


class UserError(ValueError):
    """A mistake in data, paths or options whose message is enough without a traceback.

    The command line prints it on one line and ends with exit status 2.
    """
