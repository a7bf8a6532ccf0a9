"""How the cluster is: overview, brokers, clients, checks."""

from __future__ import annotations

from ...views import overview, pages, snapshots
from ...views.lists import ListQuery
from ..tables import Area, NavEntry, StreamRoute, ViewRoute

AREA = Area(
    name="cluster",
    views=(
        ViewRoute(
            "overview",
            "",
            overview.overview,
            overview.Overview,
            "How the cluster is",
            page="overview.html",
            of_snapshot=True,
        ),
        ViewRoute(
            "brokers", "/brokers", pages.brokers, pages.BrokersPage, "Brokers", page="brokers.html", of_snapshot=True
        ),
        ViewRoute(
            "clients", "/clients", pages.clients, pages.ClientsPage, "Connected clients", ListQuery, "clients.html"
        ),
        ViewRoute(
            "doctor",
            "/doctor",
            pages.checkup,
            pages.CheckupPage,
            "What the checks found last",
            page="doctor.html",
            of_snapshot=True,
        ),
    ),
    streams=(
        StreamRoute(
            name="snapshots",
            path="/snapshots",
            stream=snapshots.snapshots,
            gives=snapshots.SnapshotEvent,
            summary="Each new snapshot, as an event",
        ),
    ),
    nav=(
        NavEntry(10, "overview", "Overview", "", "o"),
        NavEntry(20, "brokers", "Brokers", "/brokers", "b"),
        NavEntry(90, "clients", "Clients", "/clients", "c"),
        NavEntry(100, "doctor", "Doctor", "/doctor", "h"),
    ),
)
