# What we use of nghttp2 (Debian's libnghttp2-dev): its own header has the contract of each.

cdef extern from "nghttp2/nghttp2.h":
    ctypedef struct nghttp2_session:
        pass
    ctypedef struct nghttp2_session_callbacks:
        pass
    ctypedef struct nghttp2_option:
        pass
    ctypedef struct nghttp2_mem:
        void *mem_user_data
        void *(*malloc)(size_t, void *) noexcept
        void (*free)(void *, void *) noexcept
        void *(*calloc)(size_t, size_t, void *) noexcept
        void *(*realloc)(void *, size_t, void *) noexcept
    ctypedef struct nghttp2_settings_entry:
        int32_t settings_id
        uint32_t value
    ctypedef struct nghttp2_nv:
        uint8_t *name
        uint8_t *value
        size_t namelen
        size_t valuelen
        uint8_t flags
    ctypedef struct nghttp2_frame_hd:
        size_t length
        int32_t stream_id
        uint8_t type
        uint8_t flags
    ctypedef struct nghttp2_headers:
        int cat
    ctypedef struct nghttp2_rst_stream:
        uint32_t error_code
    ctypedef struct nghttp2_goaway:
        uint32_t error_code
        uint8_t *opaque_data
        size_t opaque_data_len
    ctypedef union nghttp2_frame:
        nghttp2_frame_hd hd
        nghttp2_headers headers
        nghttp2_rst_stream rst_stream
        nghttp2_goaway goaway
    ctypedef union nghttp2_data_source:
        int fd
        void *ptr
    ctypedef ssize_t (*nghttp2_data_source_read_callback)(
        nghttp2_session *, int32_t, uint8_t *, size_t, uint32_t *, nghttp2_data_source *, void *
    ) noexcept
    ctypedef struct nghttp2_data_provider:
        nghttp2_data_source source
        nghttp2_data_source_read_callback read_callback
    ctypedef int (*on_frame_call)(nghttp2_session *, const nghttp2_frame *, void *) noexcept
    ctypedef int (*on_frame_begun)(nghttp2_session *, const nghttp2_frame_hd *, void *) noexcept
    ctypedef int (*on_chunk_call)(nghttp2_session *, uint8_t, int32_t, const uint8_t *, size_t, void *) noexcept
    ctypedef int (*on_close_call)(nghttp2_session *, int32_t, uint32_t, void *) noexcept
    ctypedef int (*on_header_call)(
        nghttp2_session *, const nghttp2_frame *, const uint8_t *, size_t, const uint8_t *, size_t, uint8_t, void *
    ) noexcept
    ctypedef int (*on_error_call)(nghttp2_session *, int, const char *, size_t, void *) noexcept

    enum:
        NGHTTP2_ERR_DEFERRED, NGHTTP2_ERR_CALLBACK_FAILURE, NGHTTP2_ERR_BAD_CLIENT_MAGIC, NGHTTP2_ERR_FLOODED
        NGHTTP2_ERR_NOMEM
        NGHTTP2_NV_FLAG_NONE, NGHTTP2_NV_FLAG_NO_COPY_NAME, NGHTTP2_NV_FLAG_NO_COPY_VALUE
        NGHTTP2_DATA, NGHTTP2_HEADERS, NGHTTP2_RST_STREAM, NGHTTP2_GOAWAY
        NGHTTP2_FLAG_NONE, NGHTTP2_FLAG_END_STREAM
        NGHTTP2_HCAT_REQUEST
        NGHTTP2_DATA_FLAG_EOF, NGHTTP2_DATA_FLAG_NO_END_STREAM
        NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE
        NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE

    int nghttp2_session_callbacks_new(nghttp2_session_callbacks **)
    void nghttp2_session_callbacks_set_on_begin_frame_callback(nghttp2_session_callbacks *, on_frame_begun)
    void nghttp2_session_callbacks_set_on_begin_headers_callback(nghttp2_session_callbacks *, on_frame_call)
    void nghttp2_session_callbacks_set_on_header_callback(nghttp2_session_callbacks *, on_header_call)
    void nghttp2_session_callbacks_set_on_frame_recv_callback(nghttp2_session_callbacks *, on_frame_call)
    void nghttp2_session_callbacks_set_on_frame_send_callback(nghttp2_session_callbacks *, on_frame_call)
    void nghttp2_session_callbacks_set_on_data_chunk_recv_callback(nghttp2_session_callbacks *, on_chunk_call)
    void nghttp2_session_callbacks_set_on_stream_close_callback(nghttp2_session_callbacks *, on_close_call)
    void nghttp2_session_callbacks_set_error_callback2(nghttp2_session_callbacks *, on_error_call)

    int nghttp2_option_new(nghttp2_option **)
    void nghttp2_option_set_no_closed_streams(nghttp2_option *, int)
    void nghttp2_option_set_max_outbound_ack(nghttp2_option *, size_t)
    void nghttp2_option_set_stream_reset_rate_limit(nghttp2_option *, uint64_t, uint64_t)

    int nghttp2_session_server_new3(
        nghttp2_session **, const nghttp2_session_callbacks *, void *, const nghttp2_option *, nghttp2_mem *
    )
    void nghttp2_session_del(nghttp2_session *)
    ssize_t nghttp2_session_mem_recv(nghttp2_session *, const uint8_t *, size_t)
    ssize_t nghttp2_session_mem_send(nghttp2_session *, const uint8_t **)
    int nghttp2_session_want_read(nghttp2_session *)
    int nghttp2_session_want_write(nghttp2_session *)
    int nghttp2_session_resume_data(nghttp2_session *, int32_t)
    int nghttp2_session_set_local_window_size(nghttp2_session *, uint8_t, int32_t, int32_t)
    int32_t nghttp2_session_get_last_proc_stream_id(nghttp2_session *)
    int nghttp2_session_terminate_session(nghttp2_session *, uint32_t)
    int nghttp2_submit_settings(nghttp2_session *, uint8_t, const nghttp2_settings_entry *, size_t)
    int nghttp2_submit_response(nghttp2_session *, int32_t, const nghttp2_nv *, size_t, const nghttp2_data_provider *)
    int nghttp2_submit_trailer(nghttp2_session *, int32_t, const nghttp2_nv *, size_t)
    int nghttp2_submit_rst_stream(nghttp2_session *, uint8_t, int32_t, uint32_t)
    int nghttp2_submit_goaway(nghttp2_session *, uint8_t, int32_t, uint32_t, const uint8_t *, size_t)
    const char *nghttp2_strerror(int)
