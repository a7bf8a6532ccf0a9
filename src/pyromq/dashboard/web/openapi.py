"""The OpenAPI 3.1 document, made from the table of routes and the structs that views return."""

from __future__ import annotations

from typing import Any

import msgspec

from .answers.action_api import ApplyWanted, PlanShown, WorkShown
from .routes import ACTIONS, DOWNLOADS, STREAMS, VIEWS
from .tables import ActionRoute, DownloadRoute, StreamRoute, ViewRoute

_WORD, _NUMBER = {"type": "string"}, {"type": "integer"}
PROBLEM = {
    "type": "object",
    "properties": {
        "title": _WORD,
        "status": _NUMBER,
        "detail": _WORD,
        "code": _NUMBER | {"description": "RocketMQ's, where a server refused"},
        "broker": _WORD,
        "hint": _WORD,
        "denied": {"type": "object", "properties": {"user": _WORD, "resource": _WORD, "action": _WORD}},
        "moved": {"type": "array", "items": _WORD, "description": "of 409: what has changed since the plan"},
    },
    "required": ["title", "status", "detail"],
}


def document(base: str) -> dict[str, Any]:
    """Return the document of the API below this path."""
    of_streams = [route.gives for route in STREAMS]
    shared = (PlanShown, ApplyWanted, WorkShown)
    types = [*(route.gives for route in VIEWS), *(route.wants for route in ACTIONS), *of_streams, *shared]
    schemas, parts = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    of_views, of_actions = schemas[: len(VIEWS)], schemas[len(VIEWS) : len(VIEWS) + len(ACTIONS)]
    plan, apply, work = schemas[-len(shared) :]
    below = f"{base}/api/v1/{{cluster}}"
    paths: dict[str, Any] = {f"{base}/api/v1/clusters": {"get": _clusters()}}
    for view, schema in zip(VIEWS, of_views, strict=True):
        paths[f"{below}{view.path}"] = {"get": _operation(view, schema)}
    for action, wants in zip(ACTIONS, of_actions, strict=True):
        paths[f"{below}{action.path}:plan"] = {"post": _posted(action, "plan", wants, {"200": plan})}
        paths[f"{below}{action.path}:apply"] = {"post": _posted(action, "apply", apply, {"200": work, "202": work})}
    for stream, schema in zip(STREAMS, schemas[len(VIEWS) + len(ACTIONS) : -len(shared)], strict=True):
        paths[f"{below}{stream.path}"] = {"get": _operation(stream, schema, "text/event-stream")}
    for file in DOWNLOADS:
        paths[f"{below}{file.path}"] = {"get": _operation(file, {"type": "string"}, "application/octet-stream")}
    paths[f"{below}/results/{{id}}"] = {"get": _result(work)}
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


def _result(schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "operationId": "result",
        "summary": "How an action ended, or how far it is",
        "parameters": _path_parameters(["cluster", "id"]),
        "responses": _responses(schema),
    }


def _posted(route: ActionRoute, what: str, wants: dict[str, Any], gives: dict[str, Any]) -> dict[str, Any]:
    said = {"plan": "what would be done; nothing is changed", "apply": "do what a plan says, unless it has moved (409)"}
    return {
        "operationId": f"{route.name}-{what}",
        "summary": f"{route.summary}: {said[what]}",
        "parameters": _path_parameters(["cluster", *route.parameters]),
        "requestBody": {"required": True, "content": {"application/json": {"schema": wants}}},
        "responses": {number: _responses(schema)["200"] for number, schema in gives.items()}
        | {"default": _responses({})["default"]},
    }


def _path_parameters(names: list[str]) -> list[dict[str, Any]]:
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _operation(
    route: ViewRoute | StreamRoute | DownloadRoute, schema: dict[str, Any], media: str = "application/json"
) -> dict[str, Any]:
    parameters = _path_parameters(["cluster", *route.parameters])
    if route.query is not None:
        described = msgspec.json.schema(route.query)["$defs"][route.query.__name__]["properties"]
        parameters += [{"name": name, "in": "query", "schema": one} for name, one in described.items()]
    return {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": parameters,
        "responses": _responses(schema, media),
    }


def _responses(schema: dict[str, Any], media: str = "application/json") -> dict[str, Any]:
    refused = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        "200": {"description": "Found", "content": {media: {"schema": schema}}},
        "default": {"description": "Refused, with the reason", "content": refused},
    }
