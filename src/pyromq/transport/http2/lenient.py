"""h2's connection, with two of its habits changed.

h2 regards a connection as closed when GOAWAY was said by either side. gRPC says GOAWAY to go on with the calls that are
open and take no new ones, so here it changes no state. And where the peer broke the protocol h2 says GOAWAY by itself,
without a reason; here the session says it.
"""

from __future__ import annotations

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated, Event
from h2.settings import SettingCodes, Settings
from hyperframe.frame import Frame, GoAwayFrame, SettingsFrame

from ...kernel.http2 import Http2Limits
from .header_codec import HeaderDecoder, HeaderEncoder

_MOST_STREAMS = (1 << 31) - 1
_INITIAL_WINDOW = 65_535  # of a connection, by the RFC


class LenientConnection(H2Connection):
    """One side of a connection. Field values are checked by us (`header_fields.py`), faster than h2 does."""

    def __init__(self, limits: Http2Limits, is_client: bool) -> None:
        super().__init__(
            H2Configuration(
                client_side=is_client,
                header_encoding=False,
                validate_inbound_headers=False,
                normalize_inbound_headers=False,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        values = {
            SettingCodes.MAX_CONCURRENT_STREAMS: limits.streams,
            SettingCodes.INITIAL_WINDOW_SIZE: limits.window,
            SettingCodes.MAX_HEADER_LIST_SIZE: limits.header_bytes,
        }
        if is_client:
            values[SettingCodes.ENABLE_PUSH] = 0
        self.decoder = HeaderDecoder(limits.header_bytes)
        if not is_client:
            self.encoder = HeaderEncoder()
        self.local_settings = Settings(client=is_client, initial_values=values)
        self.initiate_connection()
        preface = self.data_to_send() if is_client else b""
        self.preface = preface[:24] + _settings_frame(values)  # h2's own names its defaults too
        self.local_settings[SettingCodes.MAX_CONCURRENT_STREAMS] = _MOST_STREAMS  # we refuse calls, not connections
        self.local_settings.acknowledge()
        self.clear_outbound_data_buffer()
        self.increment_flow_control_window(limits.window - _INITIAL_WINDOW)

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[Event]]:
        told = ConnectionTerminated()
        told.error_code = frame.error_code
        told.last_stream_id = frame.last_stream_id
        told.additional_data = frame.additional_data or None
        return [], [told]

    def _terminate_connection(self, error_code: ErrorCodes) -> None:
        """Leave the last words to the session."""


def _settings_frame(values: dict[SettingCodes, int]) -> bytes:
    frame = SettingsFrame(0)
    frame.settings = {code.value: value for code, value in values.items()}
    return frame.serialize()


def goaway_frame(last_stream: int, code: int, reason: str) -> bytes:
    """Return a GOAWAY with its reason, for who reads the peer's log."""
    frame = GoAwayFrame(0, last_stream, code, reason.encode()[:256])
    return frame.serialize()
