# nghttp2's memory. Each session has a buffer of 16 KB for the frame that it sends, which is empty between two calls of
# `pump`, and all sessions write in the event loop's thread: they share one. Thousands of clients are idle at a time.

cdef enum:
    FRAME_BYTES = 16384       # of DATA, at most
    FRAME_BUFFER = 1 << 15    # nghttp2 asks for a frame of 16 KB and some bytes

cdef uint8_t frame_buffer[FRAME_BUFFER]
cdef bint is_being_made = False   # a session, whose first large piece of memory is that buffer


cdef void *take_memory(size_t n, void *user) noexcept:
    return malloc(n)


cdef void *take_zeros(size_t n, size_t size, void *user) noexcept:
    return calloc(n, size)


cdef void *resize_memory(void *at, size_t n, void *user) noexcept:
    global is_being_made
    cdef void *made
    if at == NULL and is_being_made and <size_t>FRAME_BYTES <= n <= <size_t>FRAME_BUFFER:
        is_being_made = False
        return frame_buffer
    if at != frame_buffer:
        return realloc(at, n)
    made = malloc(n)
    if made != NULL:
        memcpy(made, at, min(n, <size_t>FRAME_BUFFER))
    return made


cdef void give_back(void *at, void *user) noexcept:
    if at != frame_buffer:
        free(at)


cdef nghttp2_mem memory
memory.malloc, memory.free, memory.calloc, memory.realloc = take_memory, give_back, take_zeros, resize_memory
