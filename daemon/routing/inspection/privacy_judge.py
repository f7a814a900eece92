"""Asks a loaded model whether a text is private."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from ingle.backends.base.conversation import ChatMessage, Reasoning
from ingle.backends.base.errors import BackendError
from ingle.backends.base.events import Delta, Event
from ingle.backends.base.requests import GenerateRequest, Priority
from ingle.backends.base.sampling_params import Grammar, GrammarKind, SamplingParams
from ingle.models.errors import ModelError

from ...errors import RequestError

log = logging.getLogger("ingle.daemon")

Generate = Callable[[GenerateRequest], AsyncGenerator[Event, None]]
"""Answers a request with a loaded model; see `stream_events`."""

_PRIVATE, _PUBLIC = "private", "public"
_MOST = 6000  # characters: fits a small model's context, and is prefilled in a second or two
_SECONDS = 3.0
_LONGER_SECONDS = 30.0
"""For a model that the owner named, which may have to be loaded first."""
_INSTRUCTION = """\
You sort messages. Answer with one word.
private: about the writer or another real person, their health, money, family, job, papers or \
letters, or about the business of their company.
public: general knowledge, programming, mathematics, invented stories, translation of neutral text.

Message: How do vaccines work?
Answer: public
Message: My doctor found a shadow on my lung, what now?
Answer: private
Message: Rewrite: Dear Ms Ortiz, the parts for your order will arrive on Friday.
Answer: private
Message: Tom has 3 apples and eats one. How many are left?
Answer: public"""


async def is_judged_private(
    generate: Generate, text: str, *, strict: bool = False, seconds: float | None = None
) -> bool:
    """Whether the model answers `private` within `seconds`; if `strict`, whether it does not answer
    `public`.

    Long texts are cut to their beginning and end. The text may try to make the model answer
    `public`, so False must not release anything.
    """
    answer = ""
    if seconds is None:
        seconds = _LONGER_SECONDS if strict else _SECONDS
    try:
        async with asyncio.timeout(seconds), aclosing(generate(question(text))) as events:
            async for event in events:
                if isinstance(event, Delta):
                    answer += event.text
    except (TimeoutError, BackendError, ModelError, RequestError) as error:
        if strict:
            log.warning("The judge of privacy does not answer, so a text stays here: %r", error)
        return strict
    word = answer.strip().casefold()
    return word != _PUBLIC if strict else word == _PRIVATE


def question(text: str) -> GenerateRequest:
    """Return the request to the model: private, greedy, and answered with one of two words."""
    if len(text) > _MOST:
        text = f"{text[: _MOST // 2]}\n[…]\n{text[-_MOST // 2 :]}"
    return GenerateRequest(
        id=f"judge-{uuid.uuid4().hex}",
        messages=[
            ChatMessage(role="system", content=_INSTRUCTION),
            ChatMessage(role="user", content=f"Message: {text}\nAnswer:"),
        ],
        sampling=SamplingParams(temperature=0.0),
        reasoning=Reasoning(enabled=False),
        grammar=Grammar(GrammarKind.REGEX, f"{_PRIVATE}|{_PUBLIC}"),
        max_tokens=8,
        private=True,
        priority=Priority.INTERACTIVE,
    )
