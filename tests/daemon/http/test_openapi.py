"""The OpenAPI document matches the served routes, types and references."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, cast

from starlette.routing import Route

from ingle.daemon.server.app import create_app
from ingle.daemon.server.route_table import route_table

if TYPE_CHECKING:
    from ..conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

Document = dict[str, Any]


async def document_of(daemon: RunningDaemon) -> Document:
    answer = await daemon.tcp.get("/openapi.json")
    assert answer.status_code == 200
    return answer.json()


def walk(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield cast("dict[str, Any]", value)
        for child in cast("dict[str, Any]", value).values():
            yield from walk(child)
    elif isinstance(value, list):
        for child in cast("list[Any]", value):
            yield from walk(child)


async def test_documented_paths_equal_served_routes(daemon: RunningDaemon) -> None:
    document = await document_of(daemon)
    described = {
        (method.upper(), path) for path, item in document["paths"].items() for method in item
    }
    routed = {
        (method, re.sub(r"\{(\w+):\w+\}", r"{\1}", route.path))
        for route in create_app(daemon.services).routes
        if isinstance(route, Route)
        for method in route.methods or ()
        if method != "HEAD" or route.methods == {"HEAD"}
    }
    assert described == routed
    table = {
        (spec.method, re.sub(r"\{(\w+):\w+\}", r"{\1}", spec.path))
        for spec in route_table(daemon.services)
        if not spec.web_socket
    }
    assert table == routed


async def test_every_reference_resolves(daemon: RunningDaemon) -> None:
    document = await document_of(daemon)
    schemas = document["components"]["schemas"]
    references = {node["$ref"] for node in walk(document) if isinstance(node.get("$ref"), str)}
    assert references
    for reference in references:
        assert reference.removeprefix("#/components/schemas/") in schemas, reference


async def test_every_operation_is_complete(daemon: RunningDaemon) -> None:
    document = await document_of(daemon)
    formats = {
        (spec.method.lower(), re.sub(r"\{(\w+):\w+\}", r"{\1}", spec.path)): spec.error_format
        for spec in route_table(daemon.services)
    }
    ids: list[str] = []
    for path, item in document["paths"].items():
        for method, operation in item.items():
            ids.append(operation["operationId"])
            assert operation["summary"].endswith("."), path
            named = {p["name"] for p in operation.get("parameters", []) if p["in"] == "path"}
            assert named == set(re.findall(r"\{(\w+)\}", path))
            success = [code for code in operation["responses"] if code.startswith("2")]
            assert len(success) == 1, path
            assert operation["responses"][success[0]]["content"], path
            assert ("requestBody" in operation) <= (method in ("post", "delete"))
            shape = formats[method, path].type.__name__
            refused = operation["responses"]["403"]["content"]["application/json"]["schema"]
            assert refused == {"$ref": f"#/components/schemas/{shape}"}
    assert len(ids) == len(set(ids))


async def test_only_optional_bodies_are_documented_as_optional(daemon: RunningDaemon) -> None:
    paths = (await document_of(daemon))["paths"]
    posts = {path: item["post"] for path, item in paths.items() if "post" in item}
    optional = [
        path
        for path, operation in posts.items()
        if not operation.get("requestBody", {"required": True})["required"]
    ]
    assert optional == ["/ingle/v1/unload"]
    assert (await daemon.tcp.post("/ingle/v1/unload")).json() == {"unloaded": []}


async def test_streams_document_their_events(daemon: RunningDaemon) -> None:
    paths = (await document_of(daemon))["paths"]
    events = paths["/ingle/v1/generations/{id}/events"]["get"]["responses"]["200"]["content"]
    kinds = events["text/event-stream"]["itemSchema"]["anyOf"]
    assert {kind["properties"]["event"]["const"] for kind in kinds} == {
        "loading",
        "route",
        "started",
        "prefill",
        "reasoning",
        "tool_call",
        "arguments",
        "delta",
        "finished",
        "error",
    }
    chat = paths["/v1/chat/completions"]["post"]["responses"]["200"]["content"]
    assert set(chat) == {"application/json", "text/event-stream"}


async def test_documented_types_match_responses(daemon: RunningDaemon) -> None:
    document = await document_of(daemon)
    schemas = document["components"]["schemas"]
    for path, schema in (
        ("/ingle/v1/status", "Status"),
        ("/v1/models", "ModelList"),
        ("/health", "Health"),
    ):
        described = document["paths"][path]["get"]["responses"]["200"]["content"]
        own = described["application/json"]["schema"]
        assert own.get("anyOf", [own])[0]["$ref"].endswith(f"/{schema}")
        sent = (await daemon.tcp.get(path)).json()
        assert set(sent) == set(schemas[schema]["properties"])
    temperature = schemas["ChatCompletionRequest"]["properties"]["temperature"]
    assert {"type": "number", "minimum": 0, "maximum": 2} in temperature["anyOf"]
