"""Apache's gRPC clients in five languages, from their registries. Over each a small application of ours with the same
commands (grpc_java/Walk.java lists them): it sends or consumes, says so in one line and ends."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from . import cache, java, node
from .process import Program, answer_of

HERE = Path(__file__).resolve().parent.parent
JAVA = ("5.0.0", "5.0.7", "5.2.0")
PYTHON = "5.1.2"
NODE = "1.0.8"
GO = "5.1.3"
RUST = "5.0.0"


class GrpcClient:
    """Sends and consumes through an endpoint by the client library of another language."""

    def __init__(
        self,
        name: str,
        start: Callable[[], tuple[Sequence[str], Mapping[str, str]]],
        *,
        can_push: bool = True,
        limit_s: float = 120,
    ) -> None:
        """`limit_s`: how long a command may take."""
        self.name = name
        self.start = start
        self.can_push = can_push
        self.limit_s = limit_s

    def told(self, **variables: str) -> GrpcClient:
        """Return the same client with these in its environment."""

        def start() -> tuple[Sequence[str], Mapping[str, str]]:
            command, env = self.start()
            return command, {**env, **variables}

        return GrpcClient(self.name, start, can_push=self.can_push, limit_s=self.limit_s)

    def within(self, limit_s: float) -> GrpcClient:
        """Return the same client with another limit."""
        return GrpcClient(self.name, self.start, can_push=self.can_push, limit_s=limit_s)

    def send(self, endpoint: str, topic: str, tag: str, bodies: Sequence[str], *, home: Path) -> list[str]:
        """Return the ids of what was sent."""
        return self._run(["send", endpoint, topic, tag, *bodies], home)

    def fifo(self, endpoint: str, topic: str, group: str, bodies: Sequence[str], *, home: Path) -> list[str]:
        """Send with a message group."""
        return self._run(["fifo", endpoint, topic, group, *bodies], home)

    def delay(self, endpoint: str, topic: str, later_ms: int, bodies: Sequence[str], *, home: Path) -> list[str]:
        return self._run(["delay", endpoint, topic, str(later_ms), *bodies], home)

    def transact(self, endpoint: str, topic: str, checks: int, bodies: Sequence[str], *, home: Path) -> list[str]:
        """Send transactional messages, each body its own fate; return what was asked about until so many checks."""
        return self._run(["transact", endpoint, topic, str(checks), *bodies], home)

    def simple(
        self, endpoint: str, topic: str, group: str, tags: str, count: int, *, home: Path
    ) -> list[dict[str, Any]]:
        """Receive and ack by a simple consumer until `count` have come; fewer after a minute."""
        return self._run(["simple", endpoint, topic, group, tags, str(count)], home)

    def push(self, endpoint: str, topic: str, group: str, tags: str, count: int, *, home: Path) -> list[dict[str, Any]]:
        """Receive by a push consumer."""
        return self._run(["push", endpoint, topic, group, tags, str(count)], home)

    def fail(self, endpoint: str, topic: str, group: str, tags: str, count: int, *, home: Path) -> list[dict[str, Any]]:
        """Receive by a push consumer that fails each delivery."""
        return self._run(["fail", endpoint, topic, group, tags, str(count)], home)

    def walk(self, *words: str, home: Path) -> list[Any]:
        """Run a command that not every library has."""
        return self._run(words, home)

    def starting(self, words: Sequence[str], home: Path) -> Program:
        """Start the application; `process.answer_of` has what it says at its end."""
        home.mkdir(parents=True, exist_ok=True)
        command, env = self.start()
        return Program([*command, *words], name=self.name, env={"HOME": str(home), **env}, cwd=home)

    def _run(self, words: Sequence[str], home: Path) -> list[Any]:
        with self.starting(words, home) as program:
            done: list[Any] = answer_of(program, timeout_s=self.limit_s)
            return done


def _java(version: str) -> tuple[Sequence[str], Mapping[str, str]]:
    library = java.fetched(f"grpc-java-{version}", version, ("client-java",))
    source = HERE / "grpc_java" / "Walk.java"
    content = hashlib.sha256(source.read_bytes()).hexdigest()[:12]

    def build(folder: Path) -> None:
        command = [cache.tool("javac", "openjdk-17-jdk-headless"), "-nowarn", "-cp", f"{library}/*", "-d", str(folder)]
        _done([*command, str(source)], folder, f"javac failed against the gRPC client {version}")

    programs = cache.once(f"grpc-java-{version}-programs-{content}", build)
    return [java.runtime(), *java.QUICK, "-cp", f"{library}/*:{programs}", "Walk"], {}


def _go() -> tuple[Sequence[str], Mapping[str, str]]:
    folder_of_sources = HERE / "grpc_go"
    names = ("go.mod", "go.sum", "main.go")
    content = hashlib.sha256(b"".join((folder_of_sources / name).read_bytes() for name in names)).hexdigest()[:12]

    def build(folder: Path) -> None:
        for name in names:
            shutil.copy(folder_of_sources / name, folder)
        command = [cache.tool("go", "golang-go"), "build", "-mod=readonly", "-buildvcs=false", "-o", "client", "."]
        _done(command, folder, "go could not build the gRPC client", {"CGO_ENABLED": "0"})

    return [str(cache.once(f"grpc-go-{GO}-{content}", build) / "client")], {}


def _rust() -> tuple[Sequence[str], Mapping[str, str]]:
    source = HERE / "grpc_rust"
    names = ("Cargo.toml", "Cargo.lock", "src/main.rs")
    content = hashlib.sha256(b"".join((source / name).read_bytes() for name in names)).hexdigest()[:12]

    def build(folder: Path) -> None:
        cargo = cache.tool("cargo", "cargo")
        shutil.copytree(source, folder, dirs_exist_ok=True)
        _done([cargo, "build", "--locked", "--quiet"], folder, "cargo could not build the gRPC client")

    return [str(cache.once(f"grpc-rust-{RUST}-{content}", build) / "target" / "debug" / "client")], {}


def _node() -> tuple[Sequence[str], Mapping[str, str]]:
    def build(folder: Path) -> None:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / "grpc_node" / name, folder)
        _done(
            [cache.tool("npm", "npm"), "ci", "--no-audit", "--no-fund"], folder, "npm could not fetch the gRPC client"
        )

    modules = cache.once(f"grpc-node-{NODE}", build) / "node_modules"
    return [node.runtime(), str(HERE / "grpc_node" / "client.js")], {"NODE_PATH": str(modules)}


def _python() -> tuple[Sequence[str], Mapping[str, str]]:
    def build(folder: Path) -> None:
        venv.create(folder / "venv", with_pip=True)
        install = [str(folder / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        _done([*install, f"rocketmq-python-client=={PYTHON}"], folder, "pip could not fetch the gRPC client")

    found = sorted((cache.once(f"grpc-python-{PYTHON}", build) / "venv" / "lib").glob("python*/site-packages"))
    # Not by its own interpreter: the folder was renamed when it was whole, and a virtual environment knows its place.
    return [sys.executable, "-P", str(HERE / "grpc_python" / "client.py")], {"PYTHONPATH": str(found[0])}


def _done(command: Sequence[str], folder: Path, what: str, env: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, **(env or {})})
    if done.returncode != 0:
        raise cache.PeerMissing(f"{what}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


CLIENTS = {
    **{f"java-{version}": GrpcClient(f"gRPC Java {version}", partial(_java, version)) for version in JAVA},
    "go": GrpcClient(f"gRPC Go {GO}", _go),
    "node": GrpcClient(f"gRPC Node {NODE}", _node),
    "python": GrpcClient(f"gRPC Python {PYTHON}", _python),
    "rust": GrpcClient(f"gRPC Rust {RUST}", _rust, can_push=False),
}
