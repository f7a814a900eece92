"""Models in Anthropic's format, at the paths that its API shares with OpenAI's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import wraps
from typing import Any, Literal, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ingle.models.errors import ModelError

from ...error_status import describe
from ...errors import InvalidBody, RequestError
from ...http.bodies import ANTHROPIC, error_response
from ...http.route_spec import Parameter

HEADER = Parameter(
    "anthropic-version", "header", str, "Clients that send it get Anthropic's format."
)
PAGING = (
    Parameter("limit", "query", str, "Of Anthropic's clients: the most models a page, 1 to 1000."),
    Parameter("after_id", "query", str, "Of Anthropic's clients: those behind this one."),
    Parameter("before_id", "query", str, "Of Anthropic's clients: those in front of this one."),
)
PAGE = 20
LARGEST_PAGE = 1000

Api = TypeVar("Api")
ApiHandler = Callable[[Api, Request], Awaitable[Response]]


class AnthropicModel(msgspec.Struct, frozen=True, kw_only=True):
    """One model; the keys of `capabilities` are all that Anthropic's client knows."""

    type: Literal["model"] = "model"
    id: str
    display_name: str
    created_at: str
    lifecycle: Literal["active"] = "active"
    max_input_tokens: int
    max_tokens: int
    capabilities: dict[str, Any]

    @classmethod
    def of(cls, name: str, created: int, context: int, *, thinks: bool) -> AnthropicModel:
        """A model that was made at `created`, in seconds since 1970."""
        return cls(
            id=name,
            display_name=name,
            created_at=datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            max_input_tokens=context,
            max_tokens=context,
            capabilities=_capabilities(thinks=thinks),
        )


class AnthropicModelList(msgspec.Struct, frozen=True, kw_only=True):
    """One page of models."""

    data: list[AnthropicModel]
    has_more: bool
    first_id: str | None
    last_id: str | None

    @classmethod
    def of(cls, models: list[AnthropicModel], request: Request) -> AnthropicModelList:
        """The page that the request asks for; raises `InvalidBody`."""
        limit = _limit(request.query_params.get("limit"))
        after, before = (request.query_params.get(name) for name in ("after_id", "before_id"))
        if after:
            models = models[_place(models, after, "after_id") + 1 :]
        if before:
            models = models[: _place(models, before, "before_id")]
        page = models[:limit] if after or not before else models[-limit:]
        return cls(
            data=page,
            has_more=len(models) > len(page),
            first_id=page[0].id if page else None,
            last_id=page[-1].id if page else None,
        )


def is_anthropic(request: Request) -> bool:
    """Whether the client uses Anthropic's API."""
    return HEADER.name in request.headers


def negotiates_error_format(handler: ApiHandler[Api]) -> ApiHandler[Api]:
    """Make a handler answer errors in Anthropic's format if the request asks for it."""

    @wraps(handler)
    async def answer(self: Api, request: Request) -> Response:
        try:
            return await handler(self, request)
        except (RequestError, ModelError) as error:
            if not is_anthropic(request):
                raise
            return error_response(describe(error), ANTHROPIC)

    return answer


def _limit(text: str | None) -> int:
    if not text:
        return PAGE
    if text.isascii() and text.isdigit() and len(text) < 5 and 1 <= int(text) <= LARGEST_PAGE:
        return int(text)
    raise InvalidBody(f"'limit' must be between 1 and {LARGEST_PAGE}.", param="limit")


def _place(models: list[AnthropicModel], name: str, param: str) -> int:
    for place, model in enumerate(models):
        if model.id == name:
            return place
    raise InvalidBody(f"'{param}' is {name[:80]!r}, which is no model here.", param=param)


def _capabilities(*, thinks: bool) -> dict[str, Any]:
    no, yes, may_think = {"supported": False}, {"supported": True}, {"supported": thinks}
    kinds = ("adaptive", "between_tools", "disabled", "enabled")
    levels = ("low", "medium", "high", "xhigh", "max")
    return {
        "batch": no,
        "citations": no,
        "code_execution": no,
        "context_management": no,
        "effort": may_think | dict.fromkeys(levels, may_think),
        "image_input": no,
        "pdf_input": no,
        "server_tools": no | {"code_execution": no, "web_search": no},
        "structured_outputs": yes,
        "thinking": may_think | {"types": dict.fromkeys(kinds, may_think)},
    }
