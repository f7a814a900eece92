"""Requests as `ingle watch` shows them."""

from __future__ import annotations

from .answer import Answer


class PrefixBreak(Answer, frozen=True, kw_only=True):
    """Where a prompt first differs from the client's earlier one that is most like it: the byte, of
    how many, and what follows there in the earlier prompt and in this one.
    """

    at: int
    of: int
    before: str
    after: str


class WatchedRequest(Answer, frozen=True, kw_only=True):
    """A request that has ended; `time` is the Unix time of its start.

    `outcome` is the reason of the answer's end, or `failed` with an `error`. Of the prompt's tokens
    the cached ones were not computed. Seconds are those of the whole request, in the queue, until
    the first token was sampled, and from there to the last. `prefix` is None if the prompt begins
    with an earlier one, or there is none. `slimmed` characters of the tools were left out of it.
    """

    id: str
    time: float
    client: str
    path: str
    model: str
    messages: int
    tools: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    seconds: float
    queue_seconds: float
    prompt_seconds: float
    decode_seconds: float
    calls: list[str]
    outcome: str
    error: str = ""
    slimmed: int = 0
    prefix: PrefixBreak | None = None


class WatchedPrompt(Answer, frozen=True, kw_only=True):
    """The prompt of a watched request, as the model's template renders it."""

    id: str
    text: str
