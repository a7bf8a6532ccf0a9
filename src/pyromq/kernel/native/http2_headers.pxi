# A call's headers as they came: decoded to text only where somebody asks. Most callers ask for three of twelve.

cdef class Headers:
    """A read-only mapping of names to texts. Repeated names are joined by `,`."""

    cdef bytes raw                    # length of name and value in two bytes each, then both, repeated
    cdef Py_ssize_t path_at, path_n   # of `:path` within `raw`

    cdef dict texts(self):
        cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(self.raw)
        cdef Py_ssize_t n = PyBytes_GET_SIZE(self.raw), at = 0, name, value
        cdef dict found = {}
        cdef str key, text
        while at + 4 <= n:
            name, value = get16(p + at), get16(p + at + 2)
            at += 4
            if at + name + value > n:
                break
            key = PyUnicode_DecodeLatin1(<const char *>p + at, name, NULL)
            text = PyUnicode_DecodeLatin1(<const char *>p + at + name, value, NULL)
            at += name + value
            found[key] = f"{found[key]},{text}" if key in found else text
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

    cdef str text_of(self, str name):
        cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(self.raw)
        cdef Py_ssize_t n = PyBytes_GET_SIZE(self.raw), at = 0, name_n, value_n, wanted_n
        cdef const char *wanted = PyUnicode_AsUTF8AndSize(name, &wanted_n)
        cdef str found = None, text
        while at + 4 <= n:
            name_n, value_n = get16(p + at), get16(p + at + 2)
            at += 4 + name_n + value_n
            if at > n:
                break
            if name_n == wanted_n and memcmp(p + at - value_n - name_n, wanted, <size_t>wanted_n) == 0:
                text = PyUnicode_DecodeLatin1(<const char *>p + at - value_n, value_n, NULL)
                found = text if found is None else f"{found},{text}"
        return found

    cdef bint find_only(self, bytes name, Text *value) noexcept:
        """Find a header that comes once: several of one name are one text for Python."""
        cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(self.raw)
        cdef Py_ssize_t n = PyBytes_GET_SIZE(self.raw), at = 0, name_n, value_n
        cdef int count = 0
        while at + 4 <= n:
            name_n, value_n = get16(p + at), get16(p + at + 2)
            if at + 4 + name_n + value_n > n:
                return False
            if name_n == PyBytes_GET_SIZE(name) and memcmp(p + at + 4, PyBytes_AS_STRING(name), <size_t>name_n) == 0:
                value.at, value.n = p + at + 4 + name_n, value_n
                count += 1
            at += 4 + name_n + value_n
        return count == 1

    def __getitem__(self, str name):
        found = self.text_of(name)
        if found is None:
            raise KeyError(name)
        return found

    def get(self, str name, default=None):
        found = self.text_of(name)
        return default if found is None else found

    def __contains__(self, str name):
        return self.text_of(name) is not None

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
