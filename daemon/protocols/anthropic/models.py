"""Models in Anthropic's format, at the paths that its API shares with OpenAI's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Literal, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ingle.models.errors import ModelError

from ...error_status import describe
from ...errors import RequestError
from ...http.bodies import ANTHROPIC, error_response
from ...http.route_spec import Parameter
from .list_pages import date_time

HEADER = Parameter(
    "anthropic-version", "header", str, "Clients that send it get Anthropic's format."
)
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
    def of(
        cls, name: str, created: int, context: int, *, thinks: bool, sees: bool
    ) -> AnthropicModel:
        """A model that was made at `created`, in seconds since 1970."""
        return cls(
            id=name,
            display_name=name,
            created_at=date_time(created),
            max_input_tokens=context,
            max_tokens=context,
            capabilities=_capabilities(thinks=thinks, sees=sees),
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


def _capabilities(*, thinks: bool, sees: bool) -> dict[str, Any]:
    no, yes, may_think = {"supported": False}, {"supported": True}, {"supported": thinks}
    kinds = ("adaptive", "between_tools", "disabled", "enabled")
    levels = ("low", "medium", "high", "xhigh", "max")
    return {
        "batch": yes,
        "citations": no,
        "code_execution": no,
        "context_management": no,
        "effort": may_think | dict.fromkeys(levels, may_think),
        "image_input": {"supported": sees},
        "pdf_input": yes,
        "server_tools": no | {"code_execution": no, "web_search": no},
        "structured_outputs": yes,
        "thinking": may_think | {"types": dict.fromkeys(kinds, may_think)},
    }
