"""Asks a loaded model whether a text is private."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from enum import StrEnum

import msgspec

from ingle.backends.base.conversation import ChatMessage, Reasoning
from ingle.backends.base.errors import BackendError
from ingle.backends.base.events import Delta, Event
from ingle.backends.base.requests import GenerateRequest, Priority
from ingle.backends.base.sampling_params import Grammar, GrammarKind, SamplingParams

from ..detectors.finding import FindingKind, SensitiveFinding

Generate = Callable[[GenerateRequest], AsyncGenerator[Event, None]]
"""Answers a request with a loaded model; see `stream_events`."""

_PRIVATE, _PUBLIC = "private", "public"
_MOST = 6000  # characters: fits a small model's context, and is prefilled in a second or two
_SECONDS = 3.0
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


class PrivacyOpinion(StrEnum):
    """The model's answer; `NONE` if there was none in time."""

    PRIVATE = "private"
    PUBLIC = "public"
    NONE = "none"


class PrivacyJudgement(msgspec.Struct, frozen=True):
    """An opinion, and how long it took. It may keep a text local, but never releases one."""

    opinion: PrivacyOpinion
    seconds: float

    def findings(self, text: str, part: int = 0) -> tuple[SensitiveFinding, ...]:
        """Return the whole text as a personal finding if the opinion is private; else nothing."""
        if self.opinion is not PrivacyOpinion.PRIVATE:
            return ()
        found = SensitiveFinding(
            kind=FindingKind.PERSONAL,
            start=0,
            end=len(text),
            value="personal",
            detector="judge",
            part=part,
        )
        return (found,)


async def judge(generate: Generate, text: str, *, seconds: float = _SECONDS) -> PrivacyJudgement:
    """Ask the model, for at most `seconds`; a model that fails has no opinion.

    Long texts are cut to their beginning and end. The text may try to make the model answer
    `public`, so that opinion must have no effect.
    """
    request = question(text)
    started = time.monotonic()
    answer = ""
    try:
        async with asyncio.timeout(seconds), aclosing(generate(request)) as events:
            async for event in events:
                if isinstance(event, Delta):
                    answer += event.text
    except (TimeoutError, BackendError):
        return PrivacyJudgement(PrivacyOpinion.NONE, time.monotonic() - started)
    word = answer.strip().casefold()
    opinion = PrivacyOpinion(word) if word in (_PRIVATE, _PUBLIC) else PrivacyOpinion.NONE
    return PrivacyJudgement(opinion, time.monotonic() - started)


def question(text: str) -> GenerateRequest:
    """Return the request to the model: private, greedy, and answered by one of two words."""
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
