# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""HTTP/2 for gRPC on nghttp2: sessions that turn received bytes into whole messages, and answers into bytes.

An extension module of its own, since libnghttp2 may be missing where the kernel is built: then the twin on `h2`
(`transport/http2/session.py`) serves. `kernel/http2.py` has events and limits, `kernel/choice.py` finds this module.
Every length is the peer's: it is checked before each read and write. Event loop only.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeLatin1
from libc.stddef cimport size_t
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memchr, memcmp, memcpy, memmove, memset

import zlib
from collections.abc import Mapping
from json import dumps, loads

from pyromq.kernel.grpc_pops import HandedMessages, Share
from pyromq.kernel.http2 import CallBegun, CallReset, ErrorCode, HalfClosed, Http2Limits, MessageArrived, Rest, SessionClosed

cdef extern from *:
    """
    #ifndef KERNEL_SOURCES
    #define KERNEL_SOURCES ""
    #endif
    """
    const char *KERNEL_SOURCES

cdef object make_tuple = tuple.__new__

SOURCES = KERNEL_SOURCES.decode()   # what it was built from, see kernel/choice.py

include "bytes.pxi"
include "nghttp2.pxi"
include "http2_memory.pxi"
include "http2_headers.pxi"
include "http2_call.pxi"
include "http2_protobuf.pxi"
include "known_user.pxi"
include "http2_guard.pxi"
include "http2_sends.pxi"
include "http2_pop_requests.pxi"
include "http2_pops.pxi"
include "http2_beats.pxi"
include "http2_session.pxi"
include "http2_rest.pxi"
include "http2_callbacks.pxi"
include "http2_answers.pxi"
include "http2_popped.pxi"
