# A call's headers as they came: decoded to text only where somebody asks. Most callers ask for three of twelve.

cdef class Headers:
    """A read-only mapping of names to texts. Repeated names are joined by `,`."""

    cdef bytes raw                    # length of name and value in two bytes each, then both, repeated
    cdef Py_ssize_t path_at, path_n   # of `:path` within `raw`
    cdef dict decoded

    cdef dict texts(self):
        cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(self.raw)
        cdef Py_ssize_t n = PyBytes_GET_SIZE(self.raw), at = 0, name, value
        cdef dict found = {}
        cdef str key, text
        if self.decoded is not None:
            return self.decoded
        while at + 4 <= n:
            name, value = get16(p + at), get16(p + at + 2)
            at += 4
            if at + name + value > n:
                break
            key = PyUnicode_DecodeLatin1(<const char *>p + at, name, NULL)
            text = PyUnicode_DecodeLatin1(<const char *>p + at + name, value, NULL)
            at += name + value
            found[key] = f"{found[key]},{text}" if key in found else text
        self.decoded = found
        return found

    cdef bint find(self, bytes name, Text *value) noexcept:
        """Find a header without decoding the others: the first of that name."""
        cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(self.raw)
        cdef Py_ssize_t n = PyBytes_GET_SIZE(self.raw), at = 0
        cdef Text wanted, found
        wanted.at, wanted.n = <const uint8_t *>PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)
        while at + 4 <= n:
            found.at, found.n, value.n = p + at + 4, get16(p + at), get16(p + at + 2)
            at += 4 + found.n + value.n
            if at > n:
                return False
            if found.n == wanted.n and memcmp(found.at, wanted.at, <size_t>wanted.n) == 0:
                value.at = found.at + found.n
                return True
        return False

    def __getitem__(self, str name):
        return self.texts()[name]

    def get(self, str name, default=None):
        return self.texts().get(name, default)

    def __contains__(self, name):
        return name in self.texts()

    def __iter__(self):
        return iter(self.texts())

    def __len__(self):
        return len(self.texts())

    def keys(self):
        return self.texts().keys()

    def values(self):
        return self.texts().values()

    def items(self):
        return self.texts().items()

    def __eq__(self, other):
        return isinstance(other, Mapping) and self.texts() == dict(other)

    def __repr__(self):
        return repr(self.texts())


Mapping.register(Headers)
