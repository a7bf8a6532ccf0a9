"""Spark sessions that find their own Python and source: what pipelines, tests and `pyromq spark shell` start.

Spark runs the `python3` of the PATH in its workers unless told otherwise, whatever Python the driver runs in; here that
is told. Options of the user win over these.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import PyroError
from ..text.extras import install_command

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",  # 200 tasks for a handful of rows otherwise, and a checkpoint keeps the number
    "spark.python.unix.domain.socket.enabled": "true",  # a quarter less per small task
    "spark.python.authenticate.socketTimeout": "120s",  # a busy machine takes long to start Python
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.python.filterPushdown.enabled": "true",
}


def check_machine() -> None:
    """Raise PyroError, which says what to install, if something is missing."""
    try:
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as missing:
        raise PyroError(f"Spark is not installed ({missing.name}): {install_command('spark')}") from None
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        raise PyroError("Spark needs Java 17 or later: apt-get install openjdk-17-jre-headless, or set JAVA_HOME")


def new_session(
    name: str, *, master: str = "", memory: str = "2g", settings: Mapping[str, str] | None = None, apart: bool = False
) -> SparkSession:
    """Start a session on this machine (`local[*]`), unless a master is given. `apart`: see _start_apart."""
    check_machine()
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    conf = SparkConf().setAppName(f"pyromq {name}").setMaster(master or "local[*]")
    conf.setAll(list({**settings_for(master), "spark.driver.memory": memory, **(settings or {})}.items()))
    with _started_lightly():
        if apart:
            _start_apart(conf)
        session = SparkSession.builder.config(conf=conf).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def settings_for(master: str) -> dict[str, str]:
    """Return the settings that hold for this master, where users give no others."""
    if not master or master.startswith("local"):
        return SETTINGS
    left_out: tuple[str, ...] = ("spark.driver.",)  # executors elsewhere must reach the driver
    if master.startswith("yarn"):
        left_out += ("spark.python.unix.",)  # a container's folder has too long a path for a socket
    return {key: value for key, value in SETTINGS.items() if not key.startswith(left_out)}


def _start_apart(conf: SparkConf) -> None:
    """Start the JVM in a session of its own, so that Spark can be ended in order.

    A signal to the process group (a terminal's Ctrl-C, `timeout`) reaches this process alone. The JVM ends with it in
    any case: its stdin is our pipe.
    """
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is None:
        gateway = launch_gateway(conf, {"start_new_session": True})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)


@contextmanager
def _started_lightly() -> Iterator[None]:
    """Set the environment of the JVM and its Python processes alone: see startup/sitecustomize.py."""
    before = os.environ.get("PYTHONPATH")
    startup = str(Path(__file__).with_name("startup"))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (before, startup)))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
