"""`pyromq namesrv`: run a name server in the foreground until SIGTERM, SIGINT or SIGHUP."""

from __future__ import annotations

from pathlib import Path

from ...ambient import SystemClock, system_random
from ...config import Loaded
from ...namesrv.config import NAMESRV_KEYS, NamesrvConfig
from ...namesrv.server import run
from ...transport import loop
from ..terminal.printing import print_lines
from ..terminal.tree import command
from .setting_options import config_options, listen_options, load_daemon
from .stopping import stop_on_signals


@command("pyromq namesrv --listen 127.0.0.1:9876", "pyromq namesrv -c namesrv.conf")
@listen_options("127.0.0.1:9876")
@config_options(NamesrvConfig)
def namesrv(config_file: Path | None, **flags: object) -> None:
    """Run a name server."""
    loop.run(serve(load_daemon(NamesrvConfig, NAMESRV_KEYS, "namesrv", flags, file=config_file)))


async def serve(loaded: Loaded[NamesrvConfig]) -> None:
    await run(loaded, clock=SystemClock(), rng=system_random(), ready=say_ready, stop_wanted=stop_on_signals())


def say_ready(address: str) -> None:
    print_lines(f"pyromq namesrv ready on {address}")  # echo flushes: who started us waits for this line
