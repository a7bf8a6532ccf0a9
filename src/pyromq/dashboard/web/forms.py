"""Fields of a form, as browsers send them by POST. Files are not taken."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.requests import Request

MOST_BYTES = 1 << 16
MOST_FIELDS = 200


class BadForm(ValueError):
    """It is too large, or no form."""


async def fields(request: Request) -> dict[str, str]:
    """Return the fields by name; of several of one name the last. BadForm."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise BadForm("it is no form: its type is application/x-www-form-urlencoded")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise BadForm(f"the form is larger than {MOST_BYTES} bytes")
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict"))
    except ValueError as fault:
        raise BadForm(f"the form cannot be read: {fault}") from None
