"""The dashboard's composition root: clusters with their watchers, the site, and the server that runs until it is told
to stop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import uvicorn

from .. import logs
from ..admin.calls import Calls
from ..admin.replicas import ReadElectedState
from ..ambient import Clock
from ..audit.opening import audit_log
from ..audit.settings import AuditSettings
from ..client.config import ClientConfig
from ..client.connect.session import Session
from ..errors import ConfigError
from ..machine.helper_threads import helper_threads
from ..supervision import Loops
from ..transport.address import format_address, warn_of_strangers
from .acting.kept_plans import KeptPlans
from .acting.works import NoTrail, Trail, Works
from .watch.history import History
from .watch.user_views import UserViews
from .watch.watched import ClusterWatch
from .watch.watcher import LEAST_S, Watcher, empty_snapshot
from .web.answers.fragments import Fragments
from .web.app import application
from .web.sessions import Sessions
from .web.site import Site, SiteLimits

log = logs.get("pyromq.dashboard")

ASK_S = 3.0  # that a broker may take to answer
RECHECK_S = 30.0  # between two looks at whether users may still log in
_BEHIND_TLS = "Let it listen on loopback behind a proxy that speaks TLS"
_READABLE = "it speaks HTTP: who reads the network has secrets and sessions, and then may do what these users may"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardConfig:
    """`clusters`: by a name of the user's, how to reach its name servers. `hosts`: further names under which the
    dashboard is asked. `base`: the path before all others, without a slash at its end. `every_s`: between two looks,
    at least. `state_dir`: folder of the audit log, without which nothing can be changed."""

    clusters: Mapping[str, ClientConfig]
    host: str = "127.0.0.1"
    port: int = 8082
    hosts: Sequence[str] = ()
    base: str = ""
    api_token_file: Path | None = None
    insecure: bool = False
    every_s: float = LEAST_S
    state_dir: Path | None = None
    limits: SiteLimits = field(default_factory=SiteLimits)

    def __post_init__(self) -> None:
        if not self.clusters:
            raise ConfigError("no cluster is named: give a name server, as in -n 127.0.0.1:9876")
        if self.state_dir is None and not self.limits.read_only:
            raise ConfigError("there is no folder for the audit log: give --state-dir FOLDER, or --read-only")
        if self.base and (not self.base.startswith("/") or self.base.endswith("/") or "//" in self.base):
            raise ConfigError(f"base path {self.base!r}: it begins with a slash and ends without one, as in /mq")
        if not self.insecure and f"{self.host}" not in ("127.0.0.1", "::1", "localhost"):
            raise ConfigError(
                f"dashboard on {self.host}: it speaks HTTP, so that secrets and sessions could be read on the network. "
                f"{_BEHIND_TLS}, or give --insecure if that is meant"
            )


class _Server(uvicorn.Server):
    """A server that leaves signals to whoever runs it."""

    @contextmanager
    def capture_signals(self) -> Any:
        yield


async def run(
    config: DashboardConfig,
    *,
    clock: Clock,
    rng: Random,
    word: Callable[[], str],
    ready: Callable[[str], None],
    announce: Callable[[str], None],
    stop_wanted: asyncio.Event,
    read_elected: ReadElectedState | None = None,
) -> None:
    """Serve until `stop_wanted`. `ready` gets the address; `announce` each link that logs in once."""
    with _listening(config) as listener:
        warn_of_strangers(log, config.host, listener.getsockname()[1], _READABLE, f"{_BEHIND_TLS} (docs/dashboard.md)")
        address = f"http://{format_address(_shown_host(config.host), listener.getsockname()[1])}{config.base}"
        async with AsyncExitStack() as stack:
            loops = Loops(clock, log)

            def watching(name: str, reach: ClientConfig) -> AbstractAsyncContextManager[ClusterWatch]:
                """Watch as a user, who gets nothing from etcd: the dashboard reads that by rights of its own."""
                return _watching(name, reach, config.every_s, clock, rng, loops, None)

            watched = {
                name: await stack.enter_async_context(
                    _watching(name, reach, config.every_s, clock, rng, loops, read_elected)
                )
                for name, reach in config.clusters.items()
            }
            views = UserViews(config.clusters, watching, word, clock, rng)
            stack.push_async_callback(views.close)
            sessions = Sessions(
                word,
                clock.monotonic,
                lambda token: announce(f"{address}/login#token={token}"),
                _tokens(config),
                views.release,
            )
            await stack.enter_async_context(_ending(sessions, views, clock, loops))
            hosts = LOOPBACK | {config.host.lower()} | {name.lower() for name in config.hosts}
            trail = await stack.enter_async_context(_trail(config, clock))
            works = Works(word, clock.now_ms, trail)
            stack.push_async_callback(works.close)
            site = Site(
                watched=watched,
                sessions=sessions,
                views=views,
                plans=KeptPlans(word, clock.monotonic),
                works=works,
                limits=config.limits,
                fragments=Fragments(clock.monotonic),
                life=word(),
                base=config.base,
            )
            app = application(site, hosts)
            server = _Server(
                uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", server_header=False, ws="none")
            )
            serving = asyncio.create_task(server.serve([listener]))
            ready(address)
            sessions.offer()
            await asyncio.wait(
                (serving, stopping := asyncio.create_task(stop_wanted.wait())), return_when="FIRST_COMPLETED"
            )
            stopping.cancel()
            server.should_exit = server.force_exit = True
            await serving


@contextmanager
def _listening(config: DashboardConfig) -> Any:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        listener = socket.create_server((config.host, config.port), family=family, backlog=128)
    except OSError as fault:
        where = format_address(config.host, config.port)
        raise ConfigError(
            f"dashboard cannot listen on {where}: {fault.strerror}. Choose another with --listen"
        ) from None
    with listener:
        yield listener


@asynccontextmanager
async def _trail(config: DashboardConfig, clock: Clock) -> AsyncIterator[Trail]:
    """Keep the audit log open in a file of its own; a dashboard that only shows writes none."""
    if config.state_dir is None:
        yield NoTrail()
        return
    settings = AuditSettings(audit_folder=config.state_dir / "audit")
    with helper_threads(1) as run_blocking:
        async with audit_log("dashboard", settings, config.state_dir, clock, run_blocking) as trail:
            assert trail is not None  # it is switched on
            yield trail


@asynccontextmanager
async def _ending(sessions: Sessions, views: UserViews, clock: Clock, loops: Loops) -> AsyncIterator[None]:
    """End sessions whose time is over, and those of users whom their cluster refuses, as long as this is open."""

    async def end() -> None:
        while True:
            await clock.sleep(RECHECK_S)
            sessions.forget_old()
            for view in await views.refused_by_now():
                log.warning("a user is logged out: the cluster refuses him", user=view.name)
                sessions.end_all_of(view)

    task = asyncio.create_task(loops.keep("ends of sessions", end))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _shown_host(host: str) -> str:
    return "127.0.0.1" if host in ("0.0.0.0", "::") else host


def _tokens(config: DashboardConfig) -> list[str]:
    if config.api_token_file is None:
        return []
    try:
        lines = config.api_token_file.read_text("utf-8").split()
    except OSError as fault:
        raise ConfigError(f"tokens cannot be read from {config.api_token_file}: {fault.strerror}") from None
    if short := [line for line in lines if len(line) < 24]:
        raise ConfigError(
            f"{config.api_token_file}: {len(short)} tokens are shorter than 24 characters, and can be guessed"
        )
    return lines


@asynccontextmanager
async def _watching(
    name: str,
    reach: ClientConfig,
    every_s: float,
    clock: Clock,
    rng: Random,
    loops: Loops,
    read_elected: ReadElectedState | None,
) -> AsyncIterator[ClusterWatch]:
    """Look at a cluster as long as this is open."""
    session = Session(reach, clock=clock, rng=rng)
    calls = Calls(session, timeout_s=ASK_S)
    watcher = Watcher(calls, clock, History(), empty_snapshot(clock.now_ms), every_s)
    watched = ClusterWatch(name, calls, watcher, clock.now_ms, read_elected)
    running = [
        asyncio.create_task(loops.keep(f"watcher of {name}", watcher.run)),
        asyncio.create_task(loops.keep(f"checks of {name}", watched.keep_checking)),
    ]
    try:
        yield watched
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await session.stop()
