"""`truncation: auto`: the oldest messages are left out, until the others fit."""

from __future__ import annotations

import dataclasses

from msgspec import structs

from ingle.backends.base.conversation import ChatMessage
from ingle.backends.base.errors import RequestRejected
from ingle.backends.base.requests import GenerateRequest, TokenizeRequest

from ...lifecycle.lease import Lease
from ..job import Job

SHARE_FOR_ANSWER = 4
"""The answer gets a quarter of the context at most, where it may be long."""


class Truncation:
    """Shortens one conversation; `dropped` tells how many messages that cost."""

    def __init__(self) -> None:
        self.dropped = 0

    async def __call__(self, job: Job, lease: Lease) -> Job:
        """The job, short enough for the model; instructions and the last message always stay."""
        messages = job.request.messages or []
        cuts = _cuts(messages)
        # Looked for by halves: each look costs the tokens of the whole conversation.
        low, high = 0, len(cuts) - 1
        while low < high:
            middle = (low + high) // 2
            if await _fits(_cut(job.request, messages, cuts[middle]), lease):
                high = middle
            else:
                low = middle + 1
        self.dropped = cuts[low] - cuts[0]
        return dataclasses.replace(job, request=_cut(job.request, messages, cuts[low]))


def _cuts(messages: list[ChatMessage]) -> list[int]:
    """Where a conversation may begin behind its instructions: no result loses its call."""
    start = next((i for i, message in enumerate(messages) if message.role != "system"), 0)
    later = [i for i in range(start + 1, len(messages)) if messages[i].role == "user"]
    return [start, *later]


def _cut(request: GenerateRequest, messages: list[ChatMessage], cut: int) -> GenerateRequest:
    start = _cuts(messages)[0]
    return structs.replace(request, messages=[*messages[:start], *messages[cut:]])


async def _fits(request: GenerateRequest, lease: Lease) -> bool:
    context = lease.info.context
    reserve = context // SHARE_FOR_ANSWER
    if request.max_tokens is not None:
        reserve = min(request.max_tokens, reserve)
    try:
        asked = TokenizeRequest(id=f"{request.id}-fit", generate=request)
        found = await lease.backend.tokenize(asked)
    except RequestRejected as error:
        if error.code != "context_length_exceeded":
            raise
        return False
    return len(found.token_ids) + reserve <= context
