"""The catalog of Iceberg tables: one that `pyiceberg` is configured for, or a SQLite file beside them on a disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import PyroError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


def open_catalog(folder: str, name: str = "") -> Catalog:
    """Return the catalog of this name, or, without one, that of the folder, which is made where it is missing."""
    from pyiceberg.catalog import load_catalog

    if name:
        return load_catalog(name)
    path = folder.removeprefix("file://").removeprefix("file:")
    if "://" in path:
        raise PyroError(
            f"{folder}: an Iceberg table there needs a catalog: name one that pyiceberg is configured for "
            "(--catalog). Without it the catalog is a file in the folder, which must be on a disk"
        )
    place = Path(path).absolute()
    place.mkdir(parents=True, exist_ok=True)
    return load_catalog("pyromq", type="sql", uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}")
