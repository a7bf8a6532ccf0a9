"""What a route's function is called with: the cluster, the path's parameters, the query, and who asks if it wants to
know."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import msgspec
from starlette.requests import Request

from ..site import Site


class ReadingRoute(Protocol):
    """A row of a table that only reads."""

    @property
    def role(self) -> str: ...

    @property
    def parameters(self) -> list[str]: ...

    @property
    def query(self) -> type[msgspec.Struct] | None: ...

    @property
    def for_visitor(self) -> bool: ...


def bound(site: Site, route: ReadingRoute, request: Request, function: Callable[..., Any]) -> tuple[Any, Any]:
    """Return the function with its arguments, and the query. RoleMissing, NotThere, msgspec.ValidationError."""
    visitor = site.visitor(request)
    visitor.check(route.role)
    call = partial(function, site.cluster(request), *(request.path_params[name] for name in route.parameters))
    if route.for_visitor:
        call = partial(call, visitor=visitor)
    if route.query is None:
        return call, None
    given = {key: value for key, value in request.query_params.items() if value != ""}
    wanted = msgspec.convert(given, route.query, strict=False)
    return partial(call, wanted), wanted
