"""`pyromq namesrv`: run a name server in the foreground until SIGTERM or SIGINT."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ...ambient import SystemClock, system_random
from ...config import Loaded, load
from ...namesrv.config import NAMESRV_KEYS, NamesrvConfig
from ...namesrv.server import run
from ...transport import loop
from ...transport.address import parse_address
from ..terminal.printing import print_lines
from ..terminal.tree import command
from .setting_options import config_options
from .stopping import stop_on_signals


@command("pyromq namesrv --listen 127.0.0.1:9876", "pyromq namesrv -c namesrv.conf")
@click.option("--listen", metavar="HOST:PORT", help="Address to listen on; port 0 takes a free one.  [127.0.0.1:9876]")
@click.option(
    "--insecure", is_flag=True, default=None, help="Allow an address other than loopback although there are no users."
)
@config_options(NamesrvConfig)
def namesrv(listen: str | None, insecure: bool | None, config_file: Path | None, **flags: object) -> None:
    """Run a name server."""
    if listen is not None:
        flags["bind_address"], flags["listen_port"] = parse_address(listen)
    flags["allow_unauthenticated"] = insecure or None
    loaded = load(
        NamesrvConfig,
        NAMESRV_KEYS,
        daemon="namesrv",
        file=config_file,
        environment=os.environ,
        flags=flags,
        overlay=lambda config: config.overlay_path,
    )
    loop.run(serve(loaded))


async def serve(loaded: Loaded[NamesrvConfig]) -> None:
    await run(loaded, clock=SystemClock(), rng=system_random(), ready=say_ready, stop_wanted=stop_on_signals())


def say_ready(address: str) -> None:
    print_lines(f"pyromq namesrv ready on {address}")  # echo flushes: who started us waits for this line
