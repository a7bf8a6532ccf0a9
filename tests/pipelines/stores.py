"""Redis and PostgreSQL as processes of their own, on sockets in a folder. Each can be stopped and started again."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg2
import pymongo
import redis
from pymongo.errors import PyMongoError

from pyromq.ambient import pause
from tests.interop.peers import cache
from tests.support import require

FERRETDB = "github.com/FerretDB/FerretDB@v1.24.0"  # the last one that keeps documents in SQLite


class Process:
    def __init__(self, words: list[str], is_ready: Callable[[], object], user: str | None = None) -> None:
        self._words, self._is_ready, self._user = words, is_ready, user
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            self._words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=self._user, cwd="/"
        )
        for _ in range(1200):
            with suppress(redis.RedisError, psycopg2.Error, PyMongoError):
                self._is_ready()
                return
            assert self.process.poll() is None, f"{self._words[0]} ended"
            pause(0.05)
        raise AssertionError(f"{self._words[0]} did not come up")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(60)


@contextmanager
def redis_server(folder: Path) -> Iterator[tuple[str, Process]]:
    """Yield its URL. What it has is kept over a stop."""
    binary = shutil.which("redis-server")
    require(binary is not None, "Redis is not installed: apt-get install redis-server")
    where = folder / "redis.sock"
    words = [str(binary), "--port", "0", "--unixsocket", str(where), "--dir", str(folder), "--appendonly", "yes"]

    def ping() -> None:
        with redis.Redis(unix_socket_path=str(where)) as client:
            client.ping()

    running = Process([*words, "--save", ""], ping)
    try:
        yield f"unix://{where}", running
    finally:
        running.stop()


def ferretdb() -> Path:
    """Return the program, built from the Go module at the first call on a machine: 70 s of CPU, then it is kept."""

    def build(folder: Path) -> None:
        go = cache.tool("go", "golang-go")
        found = subprocess.run([go, "mod", "download", "-json", FERRETDB], check=True, capture_output=True, text=True)
        sources = folder / "sources"
        shutil.copytree(json.loads(found.stdout)["Dir"], sources, copy_function=shutil.copyfile)
        for each in (sources, *sources.rglob("*")):
            each.chmod(0o755 if each.is_dir() else 0o644)  # modules are kept read-only
        (sources / "build" / "version" / "version.txt").write_text(FERRETDB.partition("@")[2])
        words = [go, "build", "-mod=mod", "-o", str(folder / "ferretdb"), "./cmd/ferretdb"]
        subprocess.run(words, check=True, cwd=sources, capture_output=True)

    try:
        return cache.once(FERRETDB.rpartition("/")[2], build) / "ferretdb"
    except cache.PeerMissing as reason:
        require(False, str(reason))
        raise


@contextmanager
def mongo_server(folder: Path) -> Iterator[tuple[str, Process]]:
    """Yield the URL of FerretDB over SQLite."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    words = [str(ferretdb()), "--handler=sqlite", f"--sqlite-url=file:{folder}/", f"--state-dir={folder}"]

    def ping() -> None:
        client: pymongo.MongoClient[Any]
        with pymongo.MongoClient(f"mongodb://{address}", serverSelectionTimeoutMS=500) as client:
            client.admin.command("ping")

    running = Process([*words, f"--listen-addr={address}", "--telemetry=disable", "--debug-addr=-"], ping)
    try:
        yield f"mongodb://{address}", running
    finally:
        running.stop()


@contextmanager
def postgres_server(folder: Path) -> Iterator[tuple[str, Process]]:
    """Yield its URL. It does not run as root, and its socket has a short path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))  # Debian has it on no path
    require(bool(found), "PostgreSQL is not installed: apt-get install postgresql")
    place = found[-1].parent
    user = "postgres" if os.getuid() == 0 else None
    folder = Path(f"/tmp/pyromq-pg-{os.getpid()}-{abs(hash(folder)) % 10**6}")
    folder.mkdir(mode=0o700)
    if user is not None:
        os.chown(folder, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
    try:
        data = folder / "data"
        made = [str(place / "initdb"), "-D", str(data), "-U", "pyromq", "-A", "trust", "-E", "UTF8", "--no-sync"]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL, user=user, cwd="/")
        words = [str(place / "postgres"), "-D", str(data), "-k", str(folder), "-c", "listen_addresses="]
        url = f"postgresql:///postgres?host={folder}&user=pyromq"
        running = Process([*words, "-c", "fsync=off"], lambda: psycopg2.connect(url).close(), user)
        try:
            yield url, running
        finally:
            running.stop()
    finally:
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)
