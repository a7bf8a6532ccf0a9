# Users as both modules know them: what their signatures are made with, and what the broker has said that they may. What is
# kept of a user is void once something about him changes.

cdef extern from "sha1.h" nogil:
    enum: SHA1_BYTES
    ctypedef struct hmac_key:
        pass
    void sha1_prepare()
    void hmac_prepare(hmac_key *key, const uint8_t *secret, size_t length)
    void hmac_of(const hmac_key *key, const uint8_t *first, size_t n, const uint8_t *second, size_t m, uint8_t *digest)
    bint is_same_in_constant_time(const uint8_t *a, const uint8_t *b)   # two digests

cdef enum:
    MOST_SECRETS = 2          # of a user: the new one, and the one before while he changes it
    MOST_IDENTITIES = 20000   # that are known at a time
    MOST_VERDICTS = 4096      # on one of them
    MOST_KINDS = 12           # of verdicts: each kind's last one is found quickly

sha1_prepare()


@cython.auto_pickle(False)
cdef class KnownUser:
    """A user at one address: what his signatures are made with, and what he may. Void once something about him changes."""

    cdef bytes name
    cdef bint is_void
    cdef int secrets          # 0: his certificate says who he is
    cdef hmac_key keys[MOST_SECRETS]
    cdef set allowed          # the verdicts: code and names of requests that he may send
    cdef list latest          # of each kind of verdicts, the one that was asked for last

    def __init__(self, bytes name, secrets):
        self.name, self.allowed, self.latest = name, set(), [None] * MOST_KINDS
        for secret in secrets[:MOST_SECRETS]:
            hmac_prepare(&self.keys[self.secrets], <const uint8_t *>PyBytes_AS_STRING(secret), <size_t>PyBytes_GET_SIZE(secret))
            self.secrets += 1

    cdef bint may(self, int kind, const uint8_t *key, Py_ssize_t n) except -1:
        """Whether this verdict was given."""
        cdef bytes latest = <bytes>self.latest[kind]
        if latest is not None and PyBytes_GET_SIZE(latest) == n and memcmp(PyBytes_AS_STRING(latest), key, <size_t>n) == 0:
            return True
        latest = PyBytes_FromStringAndSize(<const char *>key, n)
        if latest not in self.allowed:
            return False
        self.latest[kind] = latest
        return True

    cdef int allow(self, bytes key) except -1:
        """Keep a verdict."""
        if len(self.allowed) >= MOST_VERDICTS:
            self.allowed.clear()
        self.allowed.add(key)
        return 0

    cdef bint has_signed(self, Text first, Text second, const uint8_t *given) noexcept:
        """Whether one of his secrets makes this digest of two pieces, one behind the other."""
        cdef uint8_t digest[SHA1_BYTES]
        cdef bint found = False
        cdef int k
        for k in range(self.secrets):   # all of them: how long it takes says nothing about which one fits
            hmac_of(&self.keys[k], first.at, <size_t>first.n, second.at, <size_t>second.n, digest)
            found |= is_same_in_constant_time(digest, given)
        return found


cdef class KnownUsers:
    """Those that the broker was asked about, by name, and then by where they are."""

    cdef dict by_name
    cdef Py_ssize_t known     # in all

    def __cinit__(self):
        self.by_name = {}

    cdef KnownUser find(self, bytes name, place):
        cdef dict found = self.by_name.get(name)
        return None if found is None else found.get(place)

    cdef KnownUser add(self, bytes name, place, secrets):
        cdef KnownUser user = KnownUser(name, secrets)
        if self.known >= MOST_IDENTITIES:
            self.revoke_all()
        self.by_name.setdefault(name, {})[place] = user
        self.known += 1
        return user

    cdef int revoke(self, bytes name) except -1:
        cdef KnownUser user
        cdef dict found = self.by_name.pop(name, None)
        if found is not None:
            for user in found.values():
                user.is_void = True
            self.known -= len(found)
        return 0

    cdef int revoke_all(self) except -1:
        for name in list(self.by_name):
            self.revoke(name)
        return 0
