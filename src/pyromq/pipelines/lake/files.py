"""Small texts on whatever file system Spark uses: a manifest may lie in HDFS or an object store as well as here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from ...errors import ConfigError


def _place(spark: SparkSession, path: str) -> tuple[Any, Any]:
    jvm: Any = spark.sparkContext._jvm
    place = jvm.org.apache.hadoop.fs.Path(path)
    return place.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()), place


def check_writable(spark: SparkSession, folder: str) -> None:
    """Raise ConfigError if nothing can be made in a folder of this machine. What others allow shows when it is done."""
    system, place = _place(spark, folder)
    if system.getUri().getScheme() != "file":
        return
    check_local(folder, Path(str(system.makeQualified(place).toUri().getPath())))


def check_local(folder: str, path: Path) -> None:
    """Raise ConfigError if nothing can be made at the path, which the user calls `folder`."""
    there = next(each for each in (path, *path.parents) if os.path.lexists(each))
    if not os.path.isdir(there):
        raise ConfigError(f"{folder}: {there} is no folder; name another one")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ConfigError(f"{folder}: {there} may not be written; name another folder")


def write_text(spark: SparkSession, path: str, text: str) -> None:
    """Write a text whole or not at all: aside, then renamed over what was there."""
    system, place = _place(spark, path)
    _, aside = _place(spark, f"{path}.new")
    out = system.create(aside, True)
    try:
        out.write(bytearray(text.encode()))
        out.hsync()
    finally:
        out.close()
    system.delete(place, False)
    if not system.rename(aside, place):
        raise OSError(f"{path}.new could not be renamed to {path}")


def remove(spark: SparkSession, path: str) -> None:
    system, place = _place(spark, path)
    system.delete(place, False)


def read_text(spark: SparkSession, path: str) -> str | None:
    """Return the text; None if there is no such file."""
    system, place = _place(spark, path)
    return _read(system, place) if system.exists(place) else None


def read_texts(spark: SparkSession, folder: str, ending: str = "") -> list[tuple[str, str]]:
    """Return the names and texts of a folder's files; none if there is no such folder."""
    system, place = _place(spark, folder)
    if not system.exists(place):
        return []
    found = []
    for status in system.listStatus(place):
        name = status.getPath().getName()
        if status.isFile() and name.endswith(ending) and not name.startswith("."):
            found.append((name, _read(system, status.getPath())))
    return found


def _read(system: Any, place: Any) -> str:
    source = system.open(place)
    try:
        return bytes(source.readAllBytes()).decode()
    finally:
        source.close()
