"""Records to the buffers of columns, natively; None where the native kernel does not serve.

Without it, and for what is odd, the callers (spark/) make their columns with numpy, which the core does not need.
"""

from __future__ import annotations

from .choice import native

_native = native()
walk_records = None if _native is None else _native.walk_records
walk_log = None if _native is None else _native.walk_log
cut_columns = None if _native is None else _native.cut_columns
