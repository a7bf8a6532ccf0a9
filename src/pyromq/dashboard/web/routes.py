"""The whole surface: the tables of all areas (`pages/`), one behind the other.

A path of the API is the page's below `/api/v1`. An area has its own module, catalogue (`locale/zh/`) and tests
(`tests/dashboard/areas/`), so that areas grow without touching each other.
"""

from __future__ import annotations

from .pages import access, alerting, care, cluster, data, messages
from .tables import ActionRoute, DownloadRoute, NavEntry, StreamRoute, ViewRoute

AREAS = (cluster.AREA, data.AREA, messages.AREA, care.AREA, alerting.AREA, access.AREA)
VIEWS: tuple[ViewRoute, ...] = tuple(route for area in AREAS for route in area.views)
ACTIONS: tuple[ActionRoute, ...] = tuple(route for area in AREAS for route in area.actions)
STREAMS: tuple[StreamRoute, ...] = tuple(route for area in AREAS for route in area.streams)
DOWNLOADS: tuple[DownloadRoute, ...] = tuple(route for area in AREAS for route in area.downloads)
NAV: tuple[NavEntry, ...] = tuple(sorted((entry for area in AREAS for entry in area.nav), key=lambda entry: entry.rank))
