"""Python runs this first in the processes of a session that `session.py` made: pyspark comes from its installation.

Spark puts a zip of the same files in front of it, and what comes from a zip is compiled anew in each process: a second
of CPU for every one, and a stream starts one of its own. Imports nothing of ours, and makes way for a `sitecustomize`
of the user's.
"""

import contextlib
import os.path
import sys


def is_copy(entry: str, path: list[str]) -> bool:
    """Return whether a path entry is a zip of the installed pyspark (python/lib), whose content is installed anyway."""
    folder, name = os.path.split(entry)
    site, tail = folder[: -len(_LIB)], folder[-len(_LIB) :]
    if tail != _LIB or site not in path or not name.endswith(".zip"):
        return False
    return os.path.isdir(os.path.join(site, name.removesuffix(".zip").partition("-")[0]))


_LIB = os.path.join(os.sep, "pyspark", "python", "lib")

sys.path[:] = [
    entry
    for entry in sys.path
    if not is_copy(entry, sys.path) and os.path.abspath(entry) != os.path.dirname(os.path.abspath(__file__))
]
_this = sys.modules.pop(__name__)
try:
    with contextlib.suppress(ImportError):
        __import__(__name__)
finally:
    sys.modules.setdefault(__name__, _this)
