"""Asks many questions about a conversation, all after one cached prefix."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from compaction_cases.chat_maker import Fact
from compaction_cases.grading import abstains, says
from ingle.daemon.client.async_client import AsyncDaemonClient
from ingle.daemon.client.generation_stream import GenerationFollower
from ingle.daemon.client.generation_types import (
    DeltaEvent,
    FinishedEvent,
    GenerationStarted,
    PromptTokenCounts,
)

QUESTION = "Question about what I told you earlier: {ask} Answer in a few words."
UNTOLD = (
    "Now a question about me and what I told you in this conversation. {ask} Give only the answer. "
    "If I never told you, say “unknown”."
)
"""For facts never stated.

Small models that are offered “unknown” choose it for most questions, even with the whole chat; so
it is not offered for stated facts.
"""
Messages = list[dict[str, str]]


@dataclass
class Asked:
    """One generation: its text and its cost."""

    text: str
    finished: FinishedEvent
    first_token: float


@dataclass
class Score:
    """How the questions about one view came out."""

    right: int = 0
    asked: int = 0
    stale: int = 0
    corrected: int = 0
    false_memories: int = 0
    never_said: int = 0
    kinds: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    wrong: list[list[str]] = field(default_factory=list[list[str]])

    @property
    def accuracy(self) -> float:
        """The share of right answers, abstentions included."""
        return self.right / self.asked if self.asked else 0.0

    def add(self, other: Score) -> None:
        """Add the other counts."""
        for name in ("right", "asked", "stale", "corrected", "false_memories", "never_said"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for kind, (right, asked) in other.kinds.items():
            before = self.kinds.get(kind, [0, 0])
            self.kinds[kind] = [before[0] + right, before[1] + asked]
        self.wrong += other.wrong


class Prober:
    """Asks one model of a daemon."""

    def __init__(self, client: AsyncDaemonClient, model: str, streams: int = 8) -> None:
        self._client = client
        self._model = model
        self._streams = asyncio.Semaphore(streams)

    async def ask(self, messages: Messages, *, tokens: int, label: str = "") -> Asked:
        """Return one greedy answer."""
        body: dict[str, object] = {
            "model": self._model,
            "messages": messages,
            "max_tokens": tokens,
            "sampling": {"temperature": 0},
            "conversation": label,
        }
        clock = asyncio.get_running_loop().time
        begin = clock()
        created = await self._client.request(
            GenerationStarted, "POST", "/ingle/v1/generations", body
        )
        text: list[str] = []
        first: float | None = None
        finished: FinishedEvent | None = None
        generation = GenerationFollower(self._client, created.id, created.model)
        async with aclosing(generation.events()) as events:
            async for event in events:
                if isinstance(event, DeltaEvent):
                    first = clock() - begin if first is None else first
                    text.append(event.text)
                elif isinstance(event, FinishedEvent):
                    finished = event
        assert finished is not None
        return Asked("".join(text), finished, clock() - begin if first is None else first)

    async def warm(self, messages: Messages) -> None:
        """Have the prompt computed."""
        await self.ask(messages, tokens=1)

    async def size(self, messages: Messages) -> int:
        """The tokens of the prompt, as the model's template and tokenizer make it."""
        body = {"model": self._model, "messages": messages}
        return (
            await self._client.request(PromptTokenCounts, "POST", "/ingle/v1/tokens", body)
        ).total

    async def score(self, view: Messages, facts: Sequence[Fact], after_round: int) -> Score:
        """Ask for every fact; late corrections count once they were stated."""
        await self.warm(view)
        answers = await asyncio.gather(*(self._answer(view, fact) for fact in facts))
        score = Score()
        for fact, answer in zip(facts, answers, strict=True):
            score.add(grade(fact, answer, after_round))
        return score

    async def _answer(self, view: Messages, fact: Fact) -> str:
        async with self._streams:
            wording = UNTOLD if fact.kind == "never said" else QUESTION
            question = {"role": "user", "content": wording.format(ask=fact.ask)}
            return (await self.ask([*view, question], tokens=24)).text


def grade(fact: Fact, answer: str, after_round: int) -> Score:
    """One answer; a stale value is one that no longer holds, and comes without the new one."""
    score = Score(asked=1)
    if fact.kind == "never said":
        score.never_said = 1
        right = abstains(answer)
        score.false_memories = int(not right)
    else:
        told = not fact.stale or fact.late <= after_round
        right = says(answer, fact.value if told else fact.stale)
        if fact.stale and told:
            score.corrected = 1
            score.stale = int(not right and says(answer, fact.stale))
    score.right = int(right)
    score.kinds = {fact.kind: [int(right), 1]}
    if not right:
        score.wrong = [[fact.kind, fact.ask, fact.value, answer.strip()[:100]]]
    return score
