"""Errors of the API as `application/problem+json`: what happened, to what, and what to do."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from starlette.responses import Response

from .site import judged


def problem(status: int, detail: str, **more: object) -> Response:
    body = {"title": HTTPStatus(status).phrase, "status": status, "detail": detail, **more}
    return Response(msgspec.json.encode(body), status, media_type="application/problem+json")


def fault_problem(fault: Exception, right: str = "") -> Response:
    """Return what a fault says, with RocketMQ's code, the broker, what would help, and who lacks which right."""
    status, refusal = judged(fault, right)
    more = msgspec.to_builtins(refusal)
    return problem(status, more.pop("text"), **more)
