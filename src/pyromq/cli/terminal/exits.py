"""Exit codes, so that a script can tell answers (0, 1, 2) from errors. docs/cli.md lists them for users."""

from __future__ import annotations

from ...errors import CallFailed

DONE = 0  # also where the reader of a pipe closed it (`| head`)
NO = 1  # the answer is no: not found, not ready, not done
NO_ANSWER = 2  # nobody answered, or nobody could be reached: trying again later may help
NO_REPLY = 3  # `req`: no consumer replied in time; the request may have been handled all the same
USAGE = 64  # a wrong option or argument
REFUSED = 78  # a wrong setting, a store that cannot be opened, a request refused ...: trying again does not help


def exit_code(error: Exception) -> int:
    """Return the exit code of an error that ends a command."""
    if (own := getattr(error, "exit_code", None)) is not None:  # of a job that ran elsewhere
        return int(own)
    if isinstance(error, CallFailed):
        return NO_ANSWER
    from ...client.errors import TopicNotFound  # not at the top: --version and --help need no SDK

    return NO if isinstance(error, TopicNotFound) else REFUSED
