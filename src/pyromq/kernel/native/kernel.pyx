# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The native kernel: plain sends from received bytes to records, queue entries, keys and answers; loops of a pull.

Built in place by `make native`; `kernel/choice.py` finds it. No policy: what is plain, to where, and whether at all is
said by the broker (`kernel/sends.py`). Every pointer comes with its length, checked before each read and write.
"""

cimport cython
from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stddef cimport size_t
from libc.stdint cimport INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memchr, memcmp, memcpy, memmove, memset

from array import array

from pyromq.kernel.pops import Ack, CheckPoint, CopiedDue, DamagedJournal, LaneFigures, PopQuery
from pyromq.kernel.pulls import PullCount, PullQuery
from pyromq.kernel.python.placed import Placed
from pyromq.kernel.python.pull import Picked, Range
from pyromq.kernel.seam import DRAIN, NOTHING, Fed, PendingReply, as_fed

cdef extern from *:
    """
    #ifndef KERNEL_SOURCES
    #define KERNEL_SOURCES ""
    #endif
    """
    const char *KERNEL_SOURCES

cdef extern from "crc32.h" nogil:
    void crc32_prepare()
    uint32_t crc32_bytes(uint32_t crc, const uint8_t *data, size_t length)

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    void *memmem(const void *haystack, size_t n, const void *needle, size_t length);
    #endif
    """
    void *memmem(const void *haystack, size_t n, const void *needle, size_t length) nogil

cdef enum:
    MOST_NAMES = 32           # of properties that make a message more than plain
    KEY_BYTES = 12            # hash 4, position 8
    CRC_BYTES = 20            # the whole-record CRC property
    PAGE_SLOTS = 1024
    FIXED_BYTES = 91          # the shortest record
    NOT_PLAIN = 0x0C | 0xC0   # sysFlag: transaction bits, inner batch marks
    REQUIRED = 0xFF           # fields that a send must have: all up to FLAG

cdef uint32_t MAGIC_V1 = 0xDAA320A7
cdef uint32_t MAGIC_V2 = 0xDAA320AB

cdef object make_tuple = tuple.__new__

SOURCES = KERNEL_SOURCES.decode()   # what it was built from, see kernel/choice.py
crc32_prepare()

include "bytes.pxi"
include "signed_fields.pxi"
include "header.pxi"
include "properties.pxi"
include "record.pxi"
include "reply.pxi"
include "keys.pxi"
include "state.pxi"
include "index_state.pxi"
include "appender.pxi"
include "quota.pxi"
include "lanes.pxi"
include "detours.pxi"
include "feed.pxi"
include "batches.pxi"
include "pull.pxi"
include "pull_state.pxi"
include "pull_grant.pxi"
include "pull_feed.pxi"
include "pop_entries.pxi"
include "pop_points.pxi"
include "pop_table.pxi"
include "pop_grant.pxi"
include "pop_acks.pxi"
include "pop_feed.pxi"
include "flusher.pxi"
include "arrow.pxi"
include "places.pxi"
include "pop_retry.pxi"
include "follow_feed.pxi"
include "pop_copies.pxi"
include "half_ends.pxi"
include "known_user.pxi"
include "guard.pxi"
