"""How errors of ours are shown by Spark: by their sentence, without the traceback that it writes in front.

Everything that Spark calls of a source, reader or writer goes through here. Errors that are not ours are bugs, and keep
their traceback.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import PyroError


@contextmanager
def shown_in_a_sentence() -> Iterator[None]:
    """Let Spark show an error of ours by its sentence alone.

    Spark ends the Python process that had the error in any case, so that no later error is shown in this way. Whoever
    wants the traceback sets the variable to nothing.
    """
    try:
        yield
    except PyroError:
        os.environ.setdefault("SPARK_HIDE_TRACEBACK", "1")
        raise
