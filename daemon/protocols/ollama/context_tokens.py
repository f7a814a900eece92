"""The tokens of a conversation that `POST /api/generate` hands out, and takes back as `context`."""

from __future__ import annotations

import secrets
from dataclasses import replace

from msgspec import structs

from ingle.backends.base.conversation import ChatMessage
from ingle.backends.base.requests import GenerateRequest, TokenizeRequest

from ...lifecycle.lease import Lease
from ..job import Job

_MARK = "An answer that stands for the one before."


class Memory:
    """Makes the prompt of one request out of what was said before, and remembers its tokens.

    The tokens before stay as they are, so that everything computed for them is found again.
    """

    def __init__(self, before: list[int], *, wanted: bool) -> None:
        """`wanted` says whether the answer tells its tokens."""
        self.prompt: list[int] = []
        """The prompt's tokens, once the model has made them."""
        self._before = before
        self._wanted = wanted

    async def fit(self, job: Job, lease: Lease) -> Job:
        """The job as its model shall get it."""
        request = job.request
        if request.messages is not None and not lease.info.has_chat_template:
            # Ollama's template for a model that was never taught to converse is the prompt alone.
            text = "\n\n".join(message.content for message in request.messages)
            request = structs.replace(request, messages=None, prompt=text)
        if self._before:
            tokens = [*self._before, *await self._next_turn(lease, request)]
            request = structs.replace(request, messages=None, prompt=tokens)
            self.prompt = tokens
        elif self._wanted:
            self.prompt = await self._tokens(lease, generate=request)
        return replace(job, request=request)

    async def _next_turn(self, lease: Lease, request: GenerateRequest) -> list[int]:
        """What follows an answer in this model's template: its end, and the new prompt."""
        if request.messages is None:
            text = request.prompt if isinstance(request.prompt, str) else ""
            return await self._tokens(lease, text=text)
        conversation = [ChatMessage("user", _MARK), ChatMessage("assistant", _MARK)]
        probe = structs.replace(
            request, messages=[*conversation, ChatMessage("user", request.messages[-1].content)]
        )
        rendered = await lease.backend.tokenize(TokenizeRequest(id=_new_id(), generate=probe))
        head, mark, tail = (rendered.text or "").rpartition(_MARK)
        if not mark or not head:
            tail = request.messages[-1].content
        return await self._tokens(lease, text=tail)

    async def _tokens(
        self, lease: Lease, *, generate: GenerateRequest | None = None, text: str | None = None
    ) -> list[int]:
        asked = TokenizeRequest(id=_new_id(), generate=generate, text=text)
        return (await lease.backend.tokenize(asked)).token_ids


def _new_id() -> str:
    return f"tokens-{secrets.token_hex(8)}"
