"""Many values out of one buffer at once: numbers at byte positions, and spans as Arrow arrays. Knows no layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Positions = npt.NDArray[np.int64]
MOST_SPAN = 1 << 30  # bytes between the first and the last span: Arrow's offsets have 31 bits
_HEX = np.frombuffer(b"".join(b"%02X" % value for value in range(256)), np.uint8).reshape(256, 2)


def gather(buffer: Any, at: Positions, kind: str) -> npt.NDArray[Any]:
    """Return the numbers (`>i4`, `>i8`, ...) at these positions, in the machine's own byte order."""
    dtype = np.dtype(kind)
    if not len(at):
        return np.empty(0, dtype.newbyteorder("="))
    # Windows that begin at every byte: picking some of them copies each as a whole, without an index per byte.
    windows = np.ndarray((len(buffer) - dtype.itemsize + 1,), dtype, buffer, strides=(1,))
    return windows[at].astype(dtype.newbyteorder("="))


def gather_bytes(buffer: Any, at: Positions, width: int) -> npt.NDArray[np.uint8]:
    if not len(at):
        return np.empty((0, width), np.uint8)
    windows = np.ndarray((len(buffer) - width + 1,), np.dtype(f"V{width}"), buffer, strides=(1,))
    return np.ascontiguousarray(windows[at]).view(np.uint8).reshape(len(at), width)


def spans(buffer: Any, begins: Positions, ends: Positions, kind: pa.DataType) -> pa.Array:
    """Return the bytes from each begin to its end. Spans follow each other in the buffer, with anything in between."""
    count = len(begins)
    if not count:
        return pa.array([], kind)
    base = int(begins[0])
    if int(ends[-1]) - base > MOST_SPAN:
        raise ValueError(
            f"{count} spans reach over {int(ends[-1]) - base} bytes, the limit is {MOST_SPAN}: ask for fewer"
        )
    # Every span and every gap between two is an element; the copy of the even ones is one pass in C++.
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = begins - base
    offsets[1::2] = ends - base
    whole = pa.Array.from_buffers(kind, 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(buffer).slice(base)])
    return whole.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))


def fixed_text(rows: npt.NDArray[np.uint8]) -> pa.Array:
    """Return rows of ASCII bytes as strings, all of one length."""
    count, width = rows.shape
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32) if width else np.zeros(count + 1, np.int32)
    return pa.Array.from_buffers(
        pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(rows).reshape(-1))]
    )


def hex_digits(rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return rows of bytes as upper-case hex, in ASCII."""
    count, width = rows.shape
    return _HEX[rows].reshape(count, 2 * width)


def replaced(values: pa.Array, rows: Positions, others: pa.Array) -> pa.Array:
    index = np.arange(len(values), dtype=np.int64)
    index[rows] = len(values) + np.arange(len(rows))
    return pa.concat_arrays([values, others]).take(pa.array(index))
