"""Files: always an attachment of bytes, which no browser shows or runs."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ...views.served import DownloadFile
from ..problems import fault_problem
from ..site import EXPECTED, Site
from ..tables import DownloadRoute
from .bound import bound

Answer = Callable[[Request], Awaitable[Response]]
_PLAIN = re.compile(r"[^A-Za-z0-9._-]")


def download(site: Site, route: DownloadRoute, *, is_page: bool) -> Answer:
    """Return what answers the path of a file. A fault before its first byte is a page, or a problem of the API."""

    async def answer(request: Request) -> Response:
        try:
            call, _ = bound(site, route, request, route.content)
            file: DownloadFile = await call()
        except EXPECTED as fault:
            return site.fault_page(request, fault) if is_page else fault_problem(fault)
        name = _PLAIN.sub("_", file.name)
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return StreamingResponse(file.parts, headers=headers, media_type="application/octet-stream")

    return answer
