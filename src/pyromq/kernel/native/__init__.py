"""The native kernel: one extension module, `kernel`, made from the Cython files beside this one by `make native`.

It may be missing: `kernel/choice.py` says what serves then. docs/kernel.md tells how it is built and checked.
"""
