"""The native kernel: one extension module, `kernel`, made from the Cython files beside this one by `make native`.

It may be missing: `kernel/choice.py` says what serves then. docs/kernel.md tells how it is built and checked. A folder
in PYROMQ_KERNEL_PATH is looked into first: `make sanitize` has its own build there.
"""

import os

if os.environ.get("PYROMQ_KERNEL_PATH"):
    __path__.insert(0, os.environ["PYROMQ_KERNEL_PATH"])
