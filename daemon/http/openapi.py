"""`GET /openapi.json`, generated from the same table that routes the requests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from ..client.answer import Answer
from .route_spec import Parameter, RouteSpec, StreamSpec

ALWAYS = (400, 401, 403, 500)
_MEDIA = {str: "text/plain", bytes: "application/octet-stream"}
_GATE = (401, 403)
REF_TEMPLATE = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")


def openapi_document(routes: Sequence[RouteSpec], version: str) -> dict[str, Any]:
    """The whole document, as OpenAPI 3.2, which has no words for WebSockets."""
    routes = [route for route in routes if not route.web_socket]
    types = _types(routes)
    schemas, components = msgspec.json.schema_components(types, ref_template=REF_TEMPLATE)
    _require_sent_fields(components)
    by_type = {id(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = _PARAMETER.sub(r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, by_type)
    return {
        "openapi": "3.2.0",
        "info": {
            "title": "ingle",
            "version": version,
            "description": "A local inference daemon, for the user who runs it: callers are "
            "identified by the operating system, or by a key.",
        },
        "paths": paths,
        "components": {"schemas": components},
    }


def _require_sent_fields(components: dict[str, Any]) -> None:
    """Mark all fields of `Answer` types as required: the daemon always sends them."""
    kinds = list(Answer.__subclasses__())
    for kind in kinds:
        kinds += kind.__subclasses__()
        schema = components.get(kind.__name__)
        if schema is not None:
            schema["required"] = list(schema["properties"])
            for field in schema["properties"].values():
                field.pop("default", None)


def _types(routes: Sequence[RouteSpec]) -> list[Any]:
    types: list[Any] = []
    for route in routes:
        types.append(route.error_format.type)
        types += [kind for kind in (route.request, route.response) if kind is not None]
        types += [parameter.type for parameter in route.parameters]
        if route.alternative is not None:
            types += [route.alternative.response, route.alternative.error]
        if route.stream is not None:
            types += route.stream.events.values()
    return types


def _operation(route: RouteSpec, by_type: dict[int, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "responses": _responses(route, by_type),
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(route.path)
    ]
    parameters += [_parameter(parameter, by_type) for parameter in route.parameters]
    if parameters:
        operation["parameters"] = parameters
    if route.request is not None:
        operation["requestBody"] = {
            "required": not route.body_optional,
            "content": {route.request_media: {"schema": by_type[id(route.request)]}},
        }
    return operation


def _operation_id(route: RouteSpec) -> str:
    words = re.findall(r"\w+", _PARAMETER.sub(r"by_\1", route.path))
    return "_".join([route.method.lower(), *words])


def _parameter(parameter: Parameter, by_type: dict[int, Any]) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": False,
        "description": parameter.description,
        "schema": by_type[id(parameter.type)],
    }


def _responses(route: RouteSpec, by_type: dict[int, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if route.response is not None:
        media = _MEDIA.get(route.response, "application/json")
        other = None if route.alternative is None else route.alternative.response
        content[media] = {"schema": _either(route.response, other, by_type)}
    if route.stream is not None:
        content[route.stream.media_type] = _stream_media(route.stream, by_type)
    responses: dict[str, Any] = {
        str(route.status): {"description": HTTPStatus(route.status).phrase, "content": content}
    }
    error = route.error_format.type
    other = None if route.alternative is None else route.alternative.error
    for status in sorted({*ALWAYS, *route.errors}):
        responses[str(status)] = {
            "description": HTTPStatus(status).phrase,
            # The request gate answers before headers and body select the alternative.
            "content": {
                "application/json": {
                    "schema": _either(error, None if status in _GATE else other, by_type)
                }
            },
        }
    return responses


def _either(kind: Any, other: Any, by_type: dict[int, Any]) -> Any:
    schema = by_type[id(kind)]
    return schema if other is None else {"anyOf": [schema, by_type[id(other)]]}


def _stream_media(stream: StreamSpec, by_type: dict[int, Any]) -> dict[str, Any]:
    """Each event of a stream, or each line of one that has no events."""
    condition = f"Where {stream.only_if}." if stream.only_if else ""
    if stream.media_type != "text/event-stream":
        items = [by_type[id(kind)] for kind in stream.events.values()]
    else:
        items = [_event(name, by_type[id(kind)]) for name, kind in stream.events.items()]
        if "" in stream.events:
            items.append({"properties": {"data": {"const": "[DONE]"}}, "required": ["data"]})
    return {"itemSchema": {"description": condition, "anyOf": items}}


def _event(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A server-sent event as OpenAPI 3.2 describes it; an error may take any event's place."""
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": schema}
    properties: dict[str, Any] = {"data": data}
    if name:
        properties["event"] = {"const": name}
    required = ["data", "event"] if name else ["data"]
    return {"type": "object", "properties": properties, "required": required}
