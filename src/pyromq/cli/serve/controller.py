"""`pyromq controller`: run a controller in the foreground until SIGTERM, SIGINT or SIGHUP."""

from __future__ import annotations

from pathlib import Path

from ...ambient import SystemClock, system_random
from ...config import Loaded
from ...controller.config import CONTROLLER_KEYS, ControllerConfig
from ...controller.server import run
from ...transport import loop
from ..cluster.elected_sets import SetsInEtcd
from ..terminal.printing import print_lines
from ..terminal.tree import command
from .setting_options import config_options, listen_options, load_daemon
from .stopping import stop_on_signals


@command(
    "pyromq controller --etcd-endpoints http://127.0.0.1:2379",
    "pyromq controller -c controller.conf --listen 127.0.0.1:9877",
)
@listen_options("127.0.0.1:19876")
@config_options(ControllerConfig)
def controller(config_file: Path | None, **flags: object) -> None:
    """Run a controller, which elects masters of brokers in controller mode; etcd remembers."""
    loop.run(serve(load_daemon(ControllerConfig, CONTROLLER_KEYS, "controller", flags, file=config_file)))


async def serve(loaded: Loaded[ControllerConfig]) -> None:
    clock, prefix = SystemClock(), loaded.config.coordination.etcd_prefix
    await run(
        loaded,
        clock=clock,
        rng=system_random(),
        ready=say_ready,
        stop_wanted=stop_on_signals(),
        elected=lambda etcd: SetsInEtcd(etcd, prefix, clock),
    )


def say_ready(address: str) -> None:
    print_lines(f"pyromq controller ready on {address}")  # echo flushes: who started us waits for this line
