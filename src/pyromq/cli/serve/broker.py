"""`pyromq broker`: run a broker in the foreground until SIGTERM, SIGINT or SIGHUP. The rest is in broker_admin.py."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from ...ambient import SystemClock, system_random
from ...broker.config import BrokerConfig
from ...broker.daemon import run
from ...broker.java_keys import BROKER_KEYS
from ...config import Loaded
from ...kernel.choice import kernel_name
from ...transport import loop
from ..cluster.broker_admin import COMMANDS
from ..terminal.printing import print_lines
from ..terminal.tree import Tree, examples, refuse_given
from .setting_options import config_options, listen_options, load_daemon
from .stopping import stop_on_signals


@click.group(
    cls=Tree,
    invoke_without_command=True,
    epilog=examples(
        "pyromq broker -n 127.0.0.1:9876 -c broker.conf",
        "pyromq broker --listen 127.0.0.1:0",
        "pyromq broker config get fileReservedTime",
    ),
)
@click.option("-n", "--namesrv", metavar="HOST:PORT", help="Name servers, separated by ;  [namesrvAddr]")
@listen_options("127.0.0.1:10911")
@config_options(BrokerConfig)
def broker(namesrv: str | None, config_file: Path | None, **flags: object) -> None:
    """Run a broker; with a command, look after running ones."""
    ctx = click.get_current_context()
    if ctx.invoked_subcommand is not None:
        return
    refuse_given(ctx)
    spelled = {}
    if namesrv is not None:
        flags["namesrv_addr"], spelled["namesrv_addr"] = namesrv, "-n"
    java_variables = {"NAMESRV_ADDR": "namesrv_addr"}
    sources = {"file": config_file, "spelled": spelled, "java_variables": java_variables}
    loop.run(serve(load_daemon(BrokerConfig, BROKER_KEYS, "broker", flags, **sources)))


for _each in COMMANDS.values():
    broker.add_command(_each)


async def serve(loaded: Loaded[BrokerConfig]) -> None:
    grpc: list[str] = []
    await run(
        loaded,
        clock=SystemClock(),
        rng=system_random(),
        ready=partial(say_ready, grpc=grpc),
        grpc_ready=grpc.append,
        stop_wanted=stop_on_signals(),
    )


def say_ready(address: str, grpc: Sequence[str] = ()) -> None:
    # echo flushes: who started us waits for this line
    print_lines(
        f"pyromq broker ready on {address} ({kernel_name()} kernel)", *(f"gRPC clients on {each}" for each in grpc)
    )
