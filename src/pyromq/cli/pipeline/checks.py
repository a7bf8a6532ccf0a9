"""What a pipeline is refused for before Spark is started, which takes seconds: sources, targets, folders, files.

`job.py` asks for all of it. What only Spark can judge (expressions, other file systems) it still refuses itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ...errors import ConfigError
from ...model.names import topic_fault
from ...spark.options import Use, read_options
from .options import reach_of

_SCHEME = re.compile(r"[A-Za-z][\w+.-]*:")


def check_source(source: Mapping[str, str], use: Use = Use.BATCH) -> None:
    """Raise for wrong options, and for topics and stores that do not exist. Which topics a pattern fits may change."""
    from ...spark.connect.cluster import Cluster
    from ...spark.read.starting import find_queues
    from ...spark.store.store_scan import plan

    if "archive" in source:
        _check_archive(source)
        return
    options = read_options(source, use)
    for store in options.store:
        plan(store, 1)
    if not options.store:
        with Cluster(options) as cluster:
            find_queues(cluster, options)


def _check_archive(source: Mapping[str, str]) -> None:
    from ...pipelines.archive import no_archive
    from ...pipelines.run.messages import check_archive_options

    check_archive_options(source)
    path = local_path(source["archive"])
    if path is not None and not any((path / "manifest").glob("*.json")):
        raise no_archive(source["archive"])


def check_target(goal: Mapping[str, str], *, is_made: bool = False) -> None:
    """Raise for a topic that cannot be sent to. `is_made`: it need not be there yet."""
    from ...client.errors import TopicNotFound
    from ...spark.connect.cluster import Cluster

    if (fault := topic_fault(goal["topic"])) is not None:
        raise ConfigError(fault)
    with Cluster(reach_of(goal)) as cluster, suppress(*[TopicNotFound] * is_made):
        cluster.route_to_write(goal["topic"], make=False)


def check_folder(folder: str) -> None:
    """Raise ConfigError for a folder of this machine that cannot be made or written."""
    from ...pipelines.lake.files import check_local

    if (path := local_path(folder)) is not None:
        check_local(folder, path.absolute())


def local_path(folder: str) -> Path | None:
    """Return where a folder is on this machine's disks; None where only Spark knows whether it is."""
    if folder.startswith("file:"):
        return Path("/" + folder.removeprefix("file:").lstrip("/"))
    is_elsewhere = _SCHEME.match(folder) or "HADOOP_CONF_DIR" in os.environ
    return None if is_elsewhere else Path(folder)


def check_file(path: Path) -> None:
    """Raise ConfigError for a file that cannot be written, before hours of work are."""
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; name a file")
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise ConfigError(f"{path}: {path.parent} may not be written")
