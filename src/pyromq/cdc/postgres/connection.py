"""A connection to PostgreSQL: statements with their rows as text, and the stream of a replication slot.

Our own, and not psycopg2's: that one tells the server by itself, inside of a read, that everything up to a heartbeat
is safe, while transactions before it may be on their way to brokers. After a kill they would be lost. It also makes
Python's values of what it reads; we want the text, which a snapshot and the log have alike. Blocks.
"""

from __future__ import annotations

import socket
import ssl
import struct
from typing import NoReturn

from ... import __version__
from ...ambient import secret_word
from ..address import ServerAddress
from ..changes import CaptureError, DatabaseAway
from .passwords import MECHANISM, Scram, md5_answer

Row = tuple[str | None, ...]

_HEAD = struct.Struct("!cI")
_VERSION, _WANT_TLS = 196608, 80877103
_RECEIVE = 1 << 18
_NULL = 0xFFFFFFFF
_TRUSTED, _PLAIN, _MD5, _SASL, _SASL_GOES_ON, _SASL_ENDS = 0, 3, 5, 10, 11, 12
# Values are written alike in every session, so that a snapshot and the log say the same.
_SETTINGS = {
    "client_encoding": "UTF8", "DateStyle": "ISO, YMD", "IntervalStyle": "iso_8601", "TimeZone": "UTC",
    "extra_float_digits": "3", "bytea_output": "hex", "search_path": "pg_catalog", "statement_timeout": "0",
    "lock_timeout": "0", "idle_in_transaction_session_timeout": "0",
}  # fmt: skip
# SQLSTATE: the server is about to end or not yet there, has no place for us, or our slot is still held by a connection
# that has just broken.
_AWAY = ("08", "57P0", "53300", "55006")
SLOT_IN_USE = "55006"


class ServerError(CaptureError):
    """What the server answered to a statement. `code` is its SQLSTATE."""

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code


class ServerAway(DatabaseAway):
    """The same of a server that may take the statement later."""

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code


class PostgresConnection:
    """One session. With `is_replication` it takes the commands of replication, too."""

    def __init__(self, address: ServerAddress, *, is_replication: bool = False) -> None:
        self._address = address
        self._data, self._at = b"", 0
        self._pieces: list[bytes] = []  # of a message that is longer than what comes at once
        try:
            self._socket = socket.create_connection((address.host, address.port), address.connect_s)
        except OSError as fault:
            raise DatabaseAway(f"{self.where} cannot be reached: {fault}") from fault
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if address.tls_ca:
                self._begin_tls(address)
            self._begin(is_replication)
        except BaseException:
            self._socket.close()
            raise

    @property
    def where(self) -> str:
        return f"PostgreSQL at {self._address.host}:{self._address.port}"

    # --- beginning ------------------------------------------------------------------------------------------------

    def _begin_tls(self, address: ServerAddress) -> None:
        try:
            context = ssl.create_default_context(cafile=address.tls_ca)
        except OSError as fault:
            raise CaptureError(f"databaseTlsCa = {address.tls_ca}: {fault}") from fault
        self._write(struct.pack("!II", 8, _WANT_TLS))
        try:
            if self._socket.recv(1) != b"S":
                raise CaptureError(f"{self.where} has no TLS: set ssl = on there, or leave databaseTlsCa empty")
            self._socket = context.wrap_socket(self._socket, server_hostname=address.host)
        except ssl.SSLCertVerificationError as fault:
            raise CaptureError(f"the certificate of {self.where} is not one of databaseTlsCa: {fault}") from fault
        except OSError as fault:
            raise DatabaseAway(f"{self.where} cannot be reached by TLS: {fault}") from fault

    def _begin(self, is_replication: bool) -> None:
        words = {"user": self._address.user, "database": self._address.database}
        words |= {"application_name": f"pyromq cdc {__version__}", **_SETTINGS}
        if is_replication:
            words["replication"] = "database"
        text = b"".join(f"{name}\0{value}\0".encode() for name, value in words.items()) + b"\0"
        self._write(struct.pack("!II", 8 + len(text), _VERSION) + text)
        scram = Scram(self._address.password, secret_word())
        while True:
            kind, body = self._message(self._address.connect_s)
            if kind == b"R":
                self._authenticate(struct.unpack_from("!I", body)[0], body[4:], scram)
            elif kind == b"E":
                self._refuse(_fault(body))
            elif kind == b"Z":
                return

    def _authenticate(self, what: int, content: bytes, scram: Scram) -> None:
        address = self._address
        if what == _PLAIN:
            self._send(b"p", address.password.encode() + b"\0")
        elif what == _MD5:
            self._send(b"p", md5_answer(address.user, address.password, content).encode() + b"\0")
        elif what == _SASL:
            if MECHANISM.encode() not in content.split(b"\0"):
                raise CaptureError(f"{self.where} knows no {MECHANISM}: set password_encryption there")
            first = scram.first.encode()
            self._send(b"p", MECHANISM.encode() + b"\0" + struct.pack("!I", len(first)) + first)
        elif what == _SASL_GOES_ON:
            self._send(b"p", scram.answer(content.decode()).encode())
        elif what == _SASL_ENDS:
            scram.check(content.decode())
        elif what != _TRUSTED:
            raise CaptureError(f"{self.where} asks for a way to sign in that is not known ({what}): use a password")

    def _refuse(self, fault: dict[str, str]) -> NoReturn:
        code, said = fault.get("C", ""), fault.get("M", "")
        if code.startswith(_AWAY):
            raise ServerAway(f"{self.where} takes no connection now: {said}", code)
        raise CaptureError(
            f"{self.where} refused user {self._address.user!r} in database {self._address.database!r}: {said}. Type "
            "pyromq cdc check to see which rights are needed"
        )

    # --- statements -----------------------------------------------------------------------------------------------

    def ask(self, statement: str) -> list[Row]:
        """Return the rows of a statement, or of the last one of several. ServerError says what was wrong with it."""
        self._socket.settimeout(None)  # a snapshot may wait for hours until the last writer has ended
        self._send(b"Q", statement.encode() + b"\0")
        rows: list[Row] = []
        fault: dict[str, str] | None = None
        while True:
            kind, body = self._message()
            if kind == b"D":
                rows.append(_values(body))
            elif kind == b"T":
                rows = []
            elif kind == b"E":
                fault = _fault(body)
            elif kind == b"Z":
                break
        if fault is not None:
            raise _error(fault)
        return rows

    def one(self, statement: str) -> str:
        """Return the only value of a statement; NULL is an empty text."""
        ((value,),) = self.ask(statement)
        return value or ""

    # --- a stream -------------------------------------------------------------------------------------------------

    def stream(self, statement: str) -> None:
        """Begin a stream, which `next` reads, and in which `reply` answers."""
        self._send(b"Q", statement.encode() + b"\0")
        fault: dict[str, str] = {}
        while True:
            kind, body = self._message()
            if kind == b"W":
                return
            if kind == b"E":
                fault = _fault(body)
            elif kind == b"Z":
                raise _error(fault)

    def next(self, wait_s: float) -> bytes | None:
        """Return the next piece of the stream; None if none comes in time."""
        while True:
            data, at = self._data, self._at
            if len(data) - at >= 5:
                end = at + 1 + int.from_bytes(data[at + 1 : at + 5], "big")
                if len(data) >= end:
                    self._at = end
                    if data[at] == 0x64:  # "d"
                        return data[at + 5 : end]
                    self._check_end(data[at : at + 1], data[at + 5 : end])
                    continue
            if not self._receive(wait_s):
                return None

    def _check_end(self, kind: bytes, body: bytes) -> None:
        if kind == b"E":
            raise _error(_fault(body))
        if kind in (b"c", b"Z"):
            raise DatabaseAway(f"{self.where} ended the stream of its log")

    def reply(self, content: bytes) -> None:
        self._send(b"d", content)

    # --- bytes ----------------------------------------------------------------------------------------------------

    def _send(self, kind: bytes, content: bytes) -> None:
        self._write(_HEAD.pack(kind, 4 + len(content)) + content)

    def _write(self, data: bytes) -> None:
        try:
            self._socket.settimeout(self._address.connect_s)
            self._socket.sendall(data)
            self._socket.settimeout(None)
        except OSError as fault:
            raise DatabaseAway(f"the connection to {self.where} broke: {fault}") from fault

    def _message(self, wait_s: float | None = None) -> tuple[bytes, bytes]:
        while len(self._data) - self._at < 5 or len(self._data) < self._end:
            if not self._receive(wait_s):
                raise DatabaseAway(f"{self.where} does not answer")
        at, end = self._at, self._end
        self._at = end
        return self._data[at : at + 1], self._data[at + 5 : end]

    @property
    def _end(self) -> int:
        """Return where the message ends whose head has come."""
        return self._at + 1 + int.from_bytes(self._data[self._at + 1 : self._at + 5], "big")

    def _receive(self, wait_s: float | None) -> bool:
        """Add what comes to the data. Return whether it came in time."""
        try:
            self._socket.settimeout(wait_s)
            received = self._socket.recv(_RECEIVE)
        except TimeoutError:
            return False
        except (OSError, ValueError) as fault:
            raise DatabaseAway(f"the connection to {self.where} broke: {fault}") from fault
        if not received:
            raise DatabaseAway(f"{self.where} closed the connection")
        self._pieces.append(received)
        held = len(self._data) - self._at
        if held < 5 or held + sum(map(len, self._pieces)) >= self._end - self._at:
            self._data, self._at = b"".join((self._data[self._at :], *self._pieces)), 0
            self._pieces.clear()
        return True

    def close(self) -> None:
        try:
            self._send(b"X", b"")
        except DatabaseAway:
            pass
        finally:
            self._socket.close()


def _values(body: bytes) -> Row:
    at = 2
    found: list[str | None] = []
    try:
        for _ in range(int.from_bytes(body[:2], "big")):
            length = int.from_bytes(body[at : at + 4], "big")
            at += 4
            if length == _NULL:
                found.append(None)
            else:
                found.append(body[at : at + length].decode("utf-8"))
                at += length
    except UnicodeDecodeError as fault:
        raise CaptureError(f"the database has text that is no UTF-8 ({fault}): its encoding is SQL_ASCII") from None
    return tuple(found)


def _fault(body: bytes) -> dict[str, str]:
    return {part[:1].decode(): part[1:].decode("utf-8", "replace") for part in body.split(b"\0") if part}


def _error(fault: dict[str, str]) -> ServerError | ServerAway:
    said = "; ".join(fault[part] for part in "MDH" if fault.get(part))
    code = fault.get("C", "")
    return (ServerAway if code.startswith(_AWAY) else ServerError)(f"PostgreSQL: {said} ({code})", code)


def quoted(name: str) -> str:
    """Return a name as PostgreSQL quotes it."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as PostgreSQL quotes it."""
    marked = "E" if "\\" in text else ""
    return marked + "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
