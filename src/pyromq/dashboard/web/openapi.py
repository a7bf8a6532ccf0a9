"""The OpenAPI 3.1 document, made from the table of routes and the structs that views return."""

from __future__ import annotations

from typing import Any

import msgspec

from .routes import ROUTES
from .tables import ViewRoute

PROBLEM = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "status": {"type": "integer"}, "detail": {"type": "string"}},
    "required": ["title", "status", "detail"],
}


def document(base: str) -> dict[str, Any]:
    """Return the document of the API below this path."""
    types = [route.gives for route in ROUTES]
    schemas, parts = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    paths: dict[str, Any] = {f"{base}/api/v1/clusters": {"get": _clusters()}}
    for route, schema in zip(ROUTES, schemas, strict=True):
        paths[f"{base}/api/v1/{{cluster}}{route.path}"] = {"get": _operation(route, schema)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "PyroMQ dashboard", "version": "1", "description": DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": parts | {"Problem": PROBLEM},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


DESCRIPTION = (
    'What the pages show, as JSON. A figure that nobody could tell is {"unknown": "why"}, never 0 or -1. Sums have '
    "`value` and `missing`, the parts that are not in it. Times are milliseconds since 1970."
)


def _clusters() -> dict[str, Any]:
    listed = {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}}
    return {
        "operationId": "clusters",
        "summary": "The clusters that this dashboard watches",
        "responses": _responses(listed),
    }


def _operation(route: ViewRoute, schema: dict[str, Any]) -> dict[str, Any]:
    names = ["cluster", *route.parameters]
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
    ]
    if route.query is not None:
        described = msgspec.json.schema(route.query)["$defs"][route.query.__name__]["properties"]
        parameters += [{"name": name, "in": "query", "schema": one} for name, one in described.items()]
    return {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": parameters,
        "responses": _responses(schema),
    }


def _responses(schema: dict[str, Any]) -> dict[str, Any]:
    refused = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        "200": {"description": "Found", "content": {"application/json": {"schema": schema}}},
        "default": {"description": "Refused, with the reason", "content": refused},
    }
