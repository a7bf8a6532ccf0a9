# nghttp2's memory. Thousands of clients are idle at a time, so a session that nobody uses must be small.
#
# Each has a buffer of 16 KB for the frame that it sends, which is empty between two calls of `pump`, and all sessions
# write in the event loop's thread: they share one. Everything else of a session lies in a place of its own, pages that
# are its alone: `rest` packs what lies there (half of it is zeros, much of the rest pointers into the place itself) and
# gives the pages back, `wake` puts every byte where it was. What finds no room there is malloc's, and stays.

cdef extern from "sys/mman.h" nogil:
    void *mmap(void *, size_t, int, int, int, long)
    int madvise(void *, size_t, int)
    void *MAP_FAILED
    enum:
        PROT_READ, PROT_WRITE, MAP_PRIVATE, MAP_ANONYMOUS, MAP_NORESERVE, MADV_DONTNEED, MADV_NOHUGEPAGE

cdef enum:
    FRAME_BYTES = 16384       # of DATA, at most
    FRAME_BUFFER = 1 << 15    # nghttp2 asks for a frame of 16 KB and some bytes
    WHOLE_PLACE = 1 << 15     # twice what a session with full tables takes
    PLACES_AT_ONCE = 64
    BLOCK_HEAD = 8                  # bytes before each block: its size
    KINDS = 32                # of small blocks: by 16 bytes
    SMALL_BLOCK = 16 * KINDS

cdef uint8_t frame_buffer[FRAME_BUFFER]
cdef bint is_being_made = False   # a session, whose first large piece of memory is that buffer


cdef struct Place:
    uint32_t used             # bytes, these here among them
    uint16_t free[KINDS + 1]  # the first block of each kind that is free, in eights of bytes; larger ones have the first
    uint16_t zero             # keeps blocks at multiples of eight


cdef struct Block:
    uint32_t size             # with this head
    uint32_t next             # of a free one


cdef uint32_t first_block = (sizeof(Place) + 7) & ~7   # where it begins
cdef Place *free_places[PLACES_AT_ONCE]
cdef int free_count = 0
cdef Place *spare_places = NULL   # places that sessions left beyond those, each with the next in its first bytes


cdef Place *take_place() noexcept nogil:
    """NULL: the system gives no more addresses, and malloc serves."""
    global free_count, spare_places
    cdef Place *place
    cdef uint8_t *made
    cdef int i
    if spare_places != NULL:
        place = spare_places
        spare_places = (<Place **>place)[0]
        (<Place **>place)[0] = NULL
    else:
        if free_count == 0:
            made = <uint8_t *>mmap(
                NULL, WHOLE_PLACE * PLACES_AT_ONCE, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0
            )
            if <void *>made == MAP_FAILED:
                return NULL
            madvise(made, WHOLE_PLACE * PLACES_AT_ONCE, MADV_NOHUGEPAGE)
            for i in range(PLACES_AT_ONCE):
                free_places[i] = <Place *>(made + i * WHOLE_PLACE)
            free_count = PLACES_AT_ONCE
        free_count -= 1
        place = free_places[free_count]
    place.used = first_block
    return place


cdef void leave_place(Place *place) noexcept nogil:
    global free_count, spare_places
    madvise(place, WHOLE_PLACE, MADV_DONTNEED)
    if free_count < PLACES_AT_ONCE:
        free_places[free_count] = place
        free_count += 1
    else:
        (<Place **>place)[0] = spare_places
        spare_places = place


cdef inline bint is_inside(Place *place, void *at) noexcept nogil:
    return place != NULL and <size_t>(<uint8_t *>at - <uint8_t *>place) < <size_t>WHOLE_PLACE


cdef inline Block *block_at(Place *place, uint32_t eights) noexcept nogil:
    return <Block *>(<uint8_t *>place + 8 * eights)


cdef Block *free_block(Place *place, uint32_t size) noexcept nogil:
    """Take a block that was given back: of that size, or, of the large ones, of half as much again."""
    cdef uint32_t kind = size >> 4 if size <= SMALL_BLOCK else 0
    cdef uint32_t at = place.free[kind]
    cdef Block *block
    cdef Block *before = NULL
    while at:
        block = block_at(place, at)
        if kind or size <= block.size <= size + (size >> 1):
            if before == NULL:
                place.free[kind] = <uint16_t>block.next
            else:
                before.next = block.next
            return block
        before, at = block, block.next
    return NULL


cdef void *take_memory(size_t n, void *user) noexcept:
    cdef Place *place = <Place *>user
    cdef Block *block
    cdef uint32_t size
    if place == NULL or n > WHOLE_PLACE:
        return malloc(n)
    size = (<uint32_t>n + BLOCK_HEAD + 15) & ~15
    block = free_block(place, size)
    if block == NULL:
        if size > WHOLE_PLACE - place.used:
            return malloc(n)
        block = block_at(place, place.used >> 3)
        block.size = size
        place.used += size
    block.next = 0
    return <uint8_t *>block + BLOCK_HEAD


cdef void *take_zeros(size_t n, size_t size, void *user) noexcept:
    cdef void *made
    if n and size > <size_t>-1 // n:
        return NULL
    made = take_memory(n * size, user)
    if made != NULL:
        memset(made, 0, n * size)
    return made


cdef void *resize_memory(void *at, size_t n, void *user) noexcept:
    global is_being_made
    cdef void *made
    cdef size_t held = FRAME_BUFFER
    if at == NULL and is_being_made and <size_t>FRAME_BYTES <= n <= <size_t>FRAME_BUFFER:
        is_being_made = False
        return frame_buffer
    if at == NULL:
        return take_memory(n, user)
    if at != frame_buffer:
        if not is_inside(<Place *>user, at):
            return realloc(at, n)
        held = (<Block *>(<uint8_t *>at - BLOCK_HEAD)).size - BLOCK_HEAD
        if n <= held:
            return at
    made = take_memory(n, user)
    if made != NULL:
        memcpy(made, at, min(n, held))
        give_back(at, user)
    return made


cdef void give_back(void *at, void *user) noexcept:
    cdef Place *place = <Place *>user
    cdef Block *block
    cdef uint32_t kind
    if at == frame_buffer or at == NULL:
        return
    if not is_inside(place, at):
        free(at)
        return
    block = <Block *>(<uint8_t *>at - BLOCK_HEAD)
    kind = block.size >> 4 if block.size <= SMALL_BLOCK else 0
    block.next = place.free[kind]
    place.free[kind] = <uint16_t>((<uint8_t *>block - <uint8_t *>place) >> 3)


cdef nghttp2_mem memory_in(Place *place) noexcept:
    cdef nghttp2_mem made
    made.mem_user_data = place
    made.malloc, made.free, made.calloc, made.realloc = take_memory, give_back, take_zeros, resize_memory
    return made
