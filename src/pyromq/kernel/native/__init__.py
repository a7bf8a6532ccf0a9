"""The native kernel: one extension module, `kernel`, made from the Cython files beside this one by `make native`.

It may be missing: `kernel/choice.py` says what serves then. docs/kernel.md tells how it is built and checked. A folder
in PYROMQ_KERNEL_PATH is looked into first, if `choice.other_build` lets it: `make sanitize` has its own build there.
"""

from ..choice import other_build

if (_first := other_build()) is not None:
    __path__.insert(0, str(_first))
