"""What a request holds until it has ended, also if its answer never begins."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.requests import Request
from starlette.types import Scope

_HELD = "ingle.held"
"""The key of the ASGI scope that holds the stack."""


@asynccontextmanager
async def holding(scope: Scope) -> AsyncGenerator[None]:
    """Release at the end what the request of this scope holds."""
    async with AsyncExitStack() as stack:
        scope[_HELD] = stack
        yield


def request_stack(request: Request) -> AsyncExitStack:
    """Return the stack that is unwound once the answer was sent, has failed or was given up.

    A response's own generator is not enough: one that is never iterated releases nothing.
    """
    return request.scope[_HELD]
