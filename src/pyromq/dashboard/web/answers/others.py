"""What is no view's and no action's: search, the first page, the API's own, errors, health."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ...views.messages.listed import messages
from ...views.messages.wanted import MessagesQuery
from ...views.rows import group_rows, topic_rows
from ..openapi import document
from ..problems import problem
from ..routes import AREAS
from ..site import Site

MOST_FOUND = 50


@dataclass(slots=True, eq=False, repr=False)
class OtherPages:
    site: Site

    async def check_again(self, request: Request) -> Response:
        await self.site.our_form(request)
        cluster = self.site.cluster(request)
        await cluster.check()
        return RedirectResponse(f"{self.site.base}/c/{quote(cluster.name, safe='')}/doctor", 303)

    async def refused_form(self, request: Request, fault: Exception) -> Response:
        return problem(403, str(fault))

    async def unknown_name(self, request: Request, fault: Exception) -> Response:
        return self.site.error_page(request, 404, str(fault))

    async def search(self, request: Request) -> Response:
        """Go to the one topic, group or message that is meant, or show all that have the words in their names, and the
        messages with this key or id."""
        name, cluster = request.path_params["cluster"], self.site.cluster(request)
        snapshot = cluster.snapshot
        q = request.query_params.get("q", "").strip()
        words = q.lower().split()
        found: dict[str, list[str]] = {}
        for kind, rows in (
            ("topics", topic_rows(snapshot, system=False)),
            ("groups", group_rows(snapshot, system=False)),
        ):
            found[kind] = sorted(row.name for row in rows if words and all(word in row.name.lower() for word in words))
        exact = [(kind, one) for kind, names in found.items() for one in names if one == q]
        every = exact or [(kind, one) for kind, names in found.items() for one in names]
        if len(every) == 1:
            kind, one = every[0]
            return RedirectResponse(f"{self.site.base}/c/{quote(name, safe='')}/{kind}/{quote(one, safe='')}", 303)
        by_word = await messages(cluster, MessagesQuery(key=q), visitor=self.site.visitor(request))
        if len(by_word.rows) == 1 and not every and not by_word.unqueried:
            one = quote(by_word.rows[0].id, safe="")
            where = f"{quote(name, safe='')}/messages/{quote(by_word.rows[0].topic, safe='')}/{one}"
            return RedirectResponse(f"{self.site.base}/c/{where}", 303)
        first = {kind: names[:MOST_FOUND] for kind, names in found.items()}
        return self.site.page(request, "search.html", 200, here="search", q=q, found=by_word, **first)

    async def home(self, request: Request) -> Response:
        return RedirectResponse(f"{self.site.base}/c/{quote(next(iter(self.site.clusters(request))), safe='')}", 303)

    async def api_page(self, request: Request) -> Response:
        return self.site.page(request, "api.html", 200, here="api", areas=AREAS, token="")

    async def openapi(self, request: Request) -> Response:
        return Response(msgspec.json.encode(document(self.site.base)), media_type="application/json")

    async def cluster_names(self, request: Request) -> Response:
        return Response(
            msgspec.json.encode([{"name": name} for name in self.site.clusters(request)]), media_type="application/json"
        )

    async def healthy(self, request: Request) -> Response:
        return Response("ok\n", media_type="text/plain")

    async def ready(self, request: Request) -> Response:
        """Answer 200 once every cluster was looked at."""
        waiting = [name for name, one in self.site.watched.items() if one.snapshot.number == 0]
        return Response("\n".join(["waiting for", *waiting]) if waiting else "ok\n", 503 if waiting else 200)

    async def not_found(self, request: Request, fault: Exception) -> Response:
        status = fault.status_code if isinstance(fault, HTTPException) else 500
        if "/api/" in request.url.path:
            return problem(status, "there is nothing here: /api/v1/openapi.json tells what there is")
        return self.site.error_page(request, status, "there is no such page")
