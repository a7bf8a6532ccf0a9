"""Errors of the API as `application/problem+json`: what happened, to what, and what to do."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from starlette.responses import Response


def problem(status: int, detail: str, **more: object) -> Response:
    body = {"title": HTTPStatus(status).phrase, "status": status, "detail": detail, **more}
    return Response(msgspec.json.encode(body), status, media_type="application/problem+json")
