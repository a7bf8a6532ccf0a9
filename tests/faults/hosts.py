"""Hosts that are network namespaces of this machine, joined by a bridge, whose links can be cut or lose packets.

Each host has one address, 10.77.0.N. The bridge has a namespace of its own, so nothing of this is seen outside, and
rooms may exist side by side. A cut is a rule of nftables at the receiver, so it can be one-way. Needs root.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tests.support import require

T = TypeVar("T")

NAMESPACES = Path("/run/netns")
_CLONE_NEWNET = 0x40000000
_RULES = "add table inet faults; add chain inet faults input { type filter hook input priority 0; }"
_TOOLS = {"ip": "iproute2", "nft": "nftables", "nsenter": "util-linux", "etcd": "etcd-server", "mkfs.ext4": "e2fsprogs"}


def what_is_missing() -> str | None:
    """Return what this machine lacks to have such hosts, or None."""
    if os.geteuid() != 0:
        return "network namespaces and mounts need root"
    missing = [package for tool, package in _TOOLS.items() if shutil.which(tool) is None]
    if missing:
        return f"not installed: apt-get install {' '.join(missing)}"
    name = f"pq{os.getpid()}try"
    try:
        run("ip", "netns", "add", name)
        run("ip", "netns", "exec", name, "nft", _RULES)
    except RuntimeError as fault:
        return f"this kernel does not give namespaces, or no packet filter in them: {fault}"
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return None


def require_hosts() -> None:
    """Skip, or fail in CI, where this machine cannot have hosts."""
    missing = what_is_missing()
    require(missing is None, str(missing))


def run(*command: str) -> None:
    """Run a command of the system. Raises RuntimeError with what it said."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


@dataclass(frozen=True)
class Host:
    """A namespace with one address."""

    name: str
    address: str

    def within(self, command: Sequence[str | Path]) -> list[str | Path]:
        """Return the command as one that runs in this host."""
        return ["nsenter", f"--net={NAMESPACES / self.name}", *command]

    def call(self, ask: Callable[[], T]) -> T:
        """Return what a call gives whose sockets are made in this host: a thread of its own enters it."""
        with ThreadPoolExecutor(1, initializer=self._enter) as thread:
            return thread.submit(ask).result()

    def _enter(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        descriptor = os.open(NAMESPACES / self.name, os.O_RDONLY)
        try:
            if libc.setns(descriptor, _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"cannot enter {self.name}")
        finally:
            os.close(descriptor)

    def filter(self, rules: str) -> None:
        """Give rules to this host's packet filter."""
        run(*map(str, self.within(["nft", rules])))


@dataclass
class Network:
    """Hosts and their links. A context manager: they are there within it."""

    names: Sequence[str]
    hosts: dict[str, Host] = field(default_factory=dict)
    _rules: list[tuple[str, str]] = field(default_factory=list)  # by host, in the order in which they were given

    def __post_init__(self) -> None:
        self._own = f"pq{os.getpid()}"
        self._hub = f"{self._own}hub"

    def __enter__(self) -> Network:
        run("ip", "netns", "add", self._hub)
        run("ip", "-n", self._hub, "link", "add", "hub", "type", "bridge")
        run("ip", "-n", self._hub, "link", "set", "hub", "up")
        for number, name in enumerate(self.names, 1):
            self._add(Host(f"{self._own}{name}", f"10.77.0.{number}"), name, f"port{number}")
        return self

    def _add(self, host: Host, name: str, port: str) -> None:
        run("ip", "netns", "add", host.name)
        self.hosts[name] = host
        run("ip", "-n", self._hub, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", host.name)
        run("ip", "-n", self._hub, "link", "set", port, "master", "hub", "up")
        for device in ("lo", "eth0"):
            run("ip", "-n", host.name, "link", "set", device, "up")
        run("ip", "-n", host.name, "address", "add", f"{host.address}/24", "dev", "eth0")
        host.filter(_RULES)

    def __exit__(self, *_: object) -> None:
        for name in (*(host.name for host in self.hosts.values()), self._hub):
            with suppress(RuntimeError):
                run("ip", "netns", "del", name)

    # --- links -------------------------------------------------------------------------------------------------------

    def cut_one_way(self, sender: str, receiver: str) -> None:
        """Let nothing that one host sends arrive at the other; the other way stays open."""
        self._rule(receiver, f"ip saddr {self.hosts[sender].address} drop")

    def cut(self, one: str, other: str) -> None:
        """Let nothing pass between two hosts."""
        self.cut_one_way(one, other)
        self.cut_one_way(other, one)

    def lose(self, name: str, percent: int) -> None:
        """Drop so many of a hundred packets that come to a host, by chance; its own to itself pass."""
        self._rule(name, f'iifname "eth0" numgen random mod 100 < {percent} drop')

    def _rule(self, name: str, rule: str) -> None:
        self._rules.append((name, rule))
        self.hosts[name].filter(f"add rule inet faults input {rule}")

    @contextmanager
    def mended_after(self) -> Iterator[None]:
        """Take back at the end of the block what was cut in it; what was cut before it stays."""
        before = len(self._rules)
        yield
        concerned = {name for name, _ in self._rules[before:]}
        del self._rules[before:]
        for name in concerned:
            left = [f"add rule inet faults input {rule}" for host, rule in self._rules if host == name]
            self.hosts[name].filter("\n".join(["flush chain inet faults input", *left]))
