"""The composition root of `pyromq cdc run`: state, source, target, capture. Nothing else."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .. import logs
from ..ambient import Clock, Random, RunBlocking
from ..client.client import Client
from ..client.config import ClientConfig, credentials, name_servers
from ..client.connect.tls_choice import from_environment
from ..config import Loaded
from ..errors import ConfigError
from ..files import make_folder
from ..metrics.exporting import Exporting, MetricsSource
from ..metrics.families import LabelSets
from ..metrics.limiting import Limiting
from .beginning import begin_behind
from .capture import Capture, RowsRead, log_rows
from .config import CdcConfig
from .databases import open_snapshot, open_source
from .metrics import CdcMetrics
from .outgoing.target import Target
from .rounds import Rounds
from .rules import DEAD, Rules, topic_name
from .schema.history import SchemaHistory
from .schema.seen_tables import SeenTables
from .state import CaptureState, StateFile
from .status import phase_of

log = logs.get("pyromq.cdc")


async def run(
    loaded: Loaded[CdcConfig],
    *,
    clock: Clock,
    rng: Random,
    ready: Callable[[str], None],
    stop_wanted: asyncio.Event,
    rows_read: RowsRead = log_rows,
    run_blocking: RunBlocking = asyncio.to_thread,  # type: ignore[assignment]
) -> None:
    """Run the capture until it is to stop. `ready` is told once it follows, `rows_read` how far a snapshot is."""
    config = loaded.config
    config.database  # noqa: B018 - refused before anything is opened
    for notice in loaded.notices:
        log.warning(notice)
    with only_one(config.state_dir):
        file = StateFile(config.state_dir, config.name)
        state = file.load()
        history = SchemaHistory(config.state_dir).load(state.lines_noted)
        listening = await Exporting.bind(config.metrics, allows_strangers=False)
        async with Client(client_config(config), clock=clock, rng=rng) as client:
            target = Target(client, f"cdc.{config.name}")
            rounds = Rounds(state, file, history, config.rules, target, clock, run_blocking)
            capture = Capture(
                rounds=rounds,
                tables=SeenTables(config.rules, history),
                open_source=lambda start, until: open_source(config, start, until),
                open_snapshot=lambda: open_snapshot(config, is_first=state.position is None),
                stop_wanted=stop_wanted,
                chunk_rows=config.chunk_rows,
                reads_tables=config.snapshot,
                heartbeat_s=config.heartbeat_s,
                rows_read=rows_read,
            )
            exporting = Exporting(config.metrics, listening, metrics_of(config, rounds), clock=clock, rng=rng)
            exporting.begin()
            try:
                await say_promise(target, config.rules)
                await begin_behind(target, state, config.rules)
                ready(config.name)
                await capture.run()
            finally:
                await exporting.stop()


def metrics_of(config: CdcConfig, rounds: Rounds) -> MetricsSource:
    """Return what the metrics of a capture are made of."""
    labels = LabelSets({**config.metrics.extra_labels, "source": config.name, "node_type": "cdc"})
    limiting = Limiting(config.metrics.metrics_otel_cardinality_limit)
    return MetricsSource(CdcMetrics(labels, rounds).collect, limiting, lambda: troubles_of(rounds.state))


def troubles_of(state: CaptureState) -> list[str]:
    """Return why a capture does not follow its source, for whoever asks whether it is ready."""
    phase = phase_of(state)
    return [] if phase == "stream" else [f"the capture does not only follow the log yet: {phase}"]


def client_config(config: CdcConfig) -> ClientConfig:
    found: dict[str, Any] = credentials()
    return ClientConfig(name_servers=name_servers(config.namesrv or None), tls=from_environment().settings(), **found)


async def say_promise(target: Target, rules: Rules) -> None:
    """Say at start whether the brokers store each change once or at least once."""
    lacking = [
        name for name, has_window in (await target.windows(topic_name(rules.prefix, DEAD))).items() if not has_window
    ]
    if lacking:
        log.warning(
            "each change is stored at least once: these brokers do not recognise repeats. Ours do with "
            "duplicateWindowEnable=true",
            brokers=", ".join(lacking),
        )
    else:
        log.info("each change is stored once")


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Hold the folder. ConfigError if another process captures with it."""
    make_folder(folder)
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(f"{folder} is in use: another pyromq cdc runs with this stateDir") from None
        yield
    finally:
        os.close(descriptor)
