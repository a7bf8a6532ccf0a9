"""What the client of etcd's gateway does with peers that are slow, broken, old or something else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.ambient import SystemClock
from pyromq.coordination.etcd import EtcdCoordination
from pyromq.coordination.etcd_settings import EtcdSettings
from pyromq.coordination.gateway_messages import end_of_prefix
from pyromq.coordination.store import ABSENT, CoordinationRefused, CoordinationUnreachable, Put, Verdict
from pyromq.errors import ConfigError
from pyromq.transport.tls import ClientTls

EMPTY = b'{"header":{"revision":"7"}}'
DONE = b'{"header":{"revision":"8"},"succeeded":true}'


def whole(body: bytes, status: int = 200) -> bytes:
    return b"HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


def chunked(*pieces: bytes) -> bytes:
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"0\r\nGrpc-Trailer: x\r\n\r\n"


class Scripted:
    """A server that answers by path, and counts what it was asked. None: never answers. b"": closes."""

    def __init__(self, answer: Callable[[str], bytes | None]) -> None:
        self.answer = answer
        self.asked: list[str] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split(b" ")[1].decode()
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                self.asked.append(path)
                answer = self.answer(path)
                if answer is not None:
                    writer.write(answer)
                if answer == b"":
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def served(*peers: Scripted, attempt_s: float = 5) -> AsyncIterator[EtcdCoordination]:
    servers = [await asyncio.start_server(peer.serve, "127.0.0.1", 0) for peer in peers]
    ends = tuple(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}" for server in servers)
    async with EtcdCoordination(EtcdSettings(endpoints=ends, attempt_s=attempt_s), SystemClock()) as store:
        try:
            yield store
        finally:
            for server in servers:
                server.close()


async def test_connections_are_used_again() -> None:
    peer = Scripted(lambda _: whole(EMPTY))
    async with served(peer) as store:
        for _ in range(5):
            assert (await store.read("/a/")).revision == 7
    assert peer.connections == 1


async def test_a_change_is_never_sent_to_a_second_member() -> None:
    """The first closed without an answer: it may have been carried out."""
    first, second = Scripted(lambda _: b""), Scripted(lambda _: whole(DONE))
    async with served(first, second) as store:
        assert (await store.change({"a": ABSENT}, [Put("a", b"1")])).verdict is Verdict.UNKNOWN
        assert second.asked == []
        assert await store.change({"a": ABSENT}, [Put("a", b"1")]) == (Verdict.DONE, 8)  # the next one goes elsewhere
    assert first.asked == ["/v3/kv/txn"]


async def test_a_read_goes_on_at_the_next_member() -> None:
    first, second = Scripted(lambda _: None), Scripted(lambda _: whole(EMPTY))
    async with served(first, second, attempt_s=0.05) as store:
        assert (await store.read("/a/")).revision == 7
    assert first.asked == second.asked == ["/v3/kv/range"]


async def test_no_answer_in_time_is_unknown() -> None:
    async with served(Scripted(lambda _: None), attempt_s=0.05) as store:
        assert (await store.change({}, [Put("a", b"1")])).verdict is Verdict.UNKNOWN
        with pytest.raises(CoordinationUnreachable, match=r"did not answer within 0\.05 s"):
            await store.read("/a/")


@pytest.mark.parametrize("code", [14, 4, 8, 2])
async def test_an_error_that_may_come_after_the_fact_is_unknown(code: int) -> None:
    fault = whole(b'{"error":"x","message":"etcdserver: request timed out","code":%d}' % code, 503)
    async with served(Scripted(lambda _: fault)) as store:
        assert (await store.change({}, [Put("a", b"1")])).verdict is Verdict.UNKNOWN


BROKEN = {
    "another protocol": b"SSH-2.0-OpenSSH_9\r\n",
    "no number": b"HTTP/1.1 abc\r\n\r\n",
    "cut": b"HTTP/1.1 200 OK\r\nContent-Len",
    "cut body": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}",
    "a length below 0": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "a length without end": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
    "a bad chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "a chunk below 0": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n",
    "a large chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",
    "many headers": b"HTTP/1.1 200 OK\r\n" + b"".join(b"x%d: y\r\n" % n for n in range(200)),
    "another page": whole(b"<html>welcome</html>"),
    "an error page": whole(b"<html>bad gateway</html>", 502),
    "other JSON": whole(b"[1, 2]"),
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN.keys())
async def test_what_is_not_etcd_is_named(answer: bytes) -> None:
    class Once(Scripted):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            writer.close()

    async with served(Once(lambda _: b"")) as store:
        with pytest.raises(CoordinationUnreachable, match=r"127\.0\.0\.1"):
            await store.read("/a/")
    async with served(Once(lambda _: b"")) as store:
        assert (await store.change({}, [Put("a", b"1")])).verdict is Verdict.UNKNOWN


@given(st.binary(max_size=200))
def test_any_bytes_are_survived(answer: bytes) -> None:
    async def run() -> None:
        class Once(Scripted):
            async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + answer)
                writer.close()

        async with served(Once(lambda _: b"")) as store:
            with pytest.raises(CoordinationUnreachable):
                await store.read("/a/")

    asyncio.run(run())


async def test_a_chunked_answer_is_put_together() -> None:
    peer = Scripted(lambda _: chunked(EMPTY[:5], EMPTY[5:]))
    async with served(peer) as store:
        assert (await store.read("/a/")).revision == 7
        assert (await store.read("/a/")).revision == 7
    assert peer.connections == 1


async def test_a_watch_goes_on_elsewhere_once_its_member_does_not_answer_calls() -> None:
    """A member that is cut off says nothing on a watch, which is what a quiet set looks like, too."""

    def watched(revision: int) -> bytes:
        line = b'{"result":{"header":{"revision":"%d"},"events":[{}]}}\n' % revision
        return chunked(line).removesuffix(b"0\r\nGrpc-Trailer: x\r\n\r\n")

    silent = Scripted(lambda path: watched(7) if path == "/v3/watch" else None)
    well = Scripted(lambda path: watched(9) if path == "/v3/watch" else whole(EMPTY))
    async with served(silent, well, attempt_s=0.2) as store, asyncio.timeout(10):
        watch = store.watch("/set/", 1)
        assert await anext(watch) == 7
        following = asyncio.ensure_future(anext(watch))
        await store.read("/set/")
        assert await following == 9
        await watch.aclose()


async def test_lines_of_a_watch_may_be_cut_anywhere() -> None:
    line = b'{"result":{"header":{"revision":"%d"},"events":[{}]}}\n'
    text = b'{"result":{"header":{"revision":"7"},"created":true}}\n' + line % 9 + line % 12
    for size in (1, 7, 50, 500):
        pieces = [text[place : place + size] for place in range(0, len(text), size)]
        async with served(Scripted(lambda _, pieces=pieces: chunked(*pieces))) as store:  # type: ignore[misc]
            watch = store.watch("/a/", 7)
            assert [await anext(watch), await anext(watch)] == [9, 12]
            await watch.aclose()


@pytest.mark.parametrize("version", ["3.3.27", "3.4.21", "3.5.5", "2.3.8", "3.5.0"])
async def test_a_version_that_may_lose_writes_is_refused(version: str) -> None:
    peer = Scripted(lambda path: whole(b'{"etcdserver":"%s"}' % version.encode() if path == "/version" else EMPTY))
    async with served(peer) as store:
        with pytest.raises(CoordinationRefused, match=r"use 3\.4\.22, 3\.5\.6 or newer"):
            await store.check()


@pytest.mark.parametrize("version", ["3.4.22", "3.5.6", "3.6.0", "4.0.1"])
async def test_later_versions_are_taken(version: str) -> None:
    peer = Scripted(lambda path: whole(b'{"etcdserver":"%s"}' % version.encode() if path == "/version" else EMPTY))
    async with served(peer) as store:
        assert await store.check() == version


async def test_something_else_that_has_a_version_is_refused() -> None:
    async with served(Scripted(lambda _: whole(b'{"etcdserver":"new"}'))) as store:
        with pytest.raises(CoordinationRefused, match="that is no etcd known here"):
            await store.check()


async def test_nobody_there() -> None:
    async with EtcdCoordination(EtcdSettings(endpoints=("http://127.0.0.1:1",)), SystemClock()) as store:
        with pytest.raises(CoordinationUnreachable, match=r"cannot connect to etcd at 127\.0\.0\.1:1"):
            await store.check()
        assert (await store.change({}, [Put("a", b"1")])).verdict is Verdict.UNKNOWN


WRONG = {
    "no address": ({"endpoints": ()}, "no address of etcd is named"),
    "no scheme": ({"endpoints": ("127.0.0.1:2379",)}, "write each address of etcd as"),
    "no port": ({"endpoints": ("http://127.0.0.1",)}, "write host:port"),
    "mixed": ({"endpoints": ("http://a:1", "https://b:1")}, "all https"),
    "tls for plain": ({"endpoints": ("http://a:1",), "tls": ClientTls(ca=Path("x"))}, "write https"),
    "no password": ({"endpoints": ("http://a:1",), "user": "u"}, "set both or none"),
    "no time": ({"endpoints": ("http://a:1",), "attempt_s": 0.0}, "both have to be > 0"),
}


@pytest.mark.parametrize(("wrong", "text"), WRONG.values(), ids=WRONG.keys())
def test_settings_that_cannot_be_used(wrong: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        EtcdSettings(**wrong)  # type: ignore[arg-type]


def test_passwords_are_not_shown() -> None:
    assert "secret" not in repr(EtcdSettings(endpoints=("http://a:1",), user="u", password="secret"))


@given(st.text(min_size=1, max_size=5), st.text(max_size=5))
def test_a_prefix_ends_behind_all_its_keys(prefix: str, rest: str) -> None:
    assert prefix.encode() <= (prefix + rest).encode() < end_of_prefix(prefix)
