"""`python -m pyromq.cli.serve.child PARENT COMMAND ...`: the `pyromq` command as a child that ends with its parent.

`brokers.py` starts its brokers by this. Should the parent be killed, the system sends the child a SIGTERM (Linux).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from ..main import main

_PR_SET_PDEATHSIG = 1


def follow(parent: int) -> None:
    """Stop when the parent is gone; at once, if it is gone already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the process that started this one is gone")


if __name__ == "__main__":
    follow(int(sys.argv.pop(1)))
    main()
