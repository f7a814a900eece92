"""The requests sent to the servers, and the figures derived from them."""

from __future__ import annotations

import random
import statistics
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from completion_client import Answer, ask
from prompts import conversation, words
from server import Ask, Server

Figures = dict[str, float]

SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {
        "people": {
            "type": "array",
            "minItems": 8,
            "maxItems": 8,
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "maxLength": 24},
                    "age": {"type": "integer", "minimum": 0, "maximum": 120},
                    "city": {"enum": ["Oslo", "Quito", "Kyoto", "Accra"]},
                },
                "required": ["name", "age", "city"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["people"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Figure:
    """A figure that ratios are made of."""

    name: str
    label: str
    unit: str
    more_is_better: bool


@dataclass(frozen=True)
class Sizes:
    """How much is asked for."""

    answer: int
    """Tokens of an answer."""
    long_prompt: int
    """Words, which are nearly as many tokens."""
    chat: int
    """Words of a conversation."""
    other_model: Path | None
    """The model that a swap alternates with."""


@dataclass(frozen=True)
class Measured:
    """One run of one server: its figures, and the tokens behind them."""

    figures: Figures
    tokens: int
    prompt_tokens: int
    cached_tokens: int


class Scenario(ABC):
    """One thing to measure; `name` selects it."""

    name: str
    figures: tuple[Figure, ...]
    default_rounds: int = 10
    keeps_processes: bool = True

    def __init__(self, sizes: Sizes, streams: int = 1) -> None:
        self.sizes = sizes
        self.streams = streams

    @abstractmethod
    async def measure(self, server: Server, seed: int) -> Measured:
        """One run; the same seed asks the same of every server, another seed something new."""


DECODE = Figure("decode", "decode", "t/s", more_is_better=True)
TOTAL = Figure("total", "total", "t/s", more_is_better=True)
FIRST = Figure("first_token", "first token", "ms", more_is_better=False)
LATEST_FIRST = Figure("last_first_token", "latest first", "ms", more_is_better=False)


class Short(Scenario):
    """Several streams with prompts of about twenty tokens."""

    name = "short"
    figures = (DECODE, TOTAL, FIRST, LATEST_FIRST)

    async def measure(self, server: Server, seed: int) -> Measured:
        prompts = [self.prompt(random.Random(f"{seed} {i}")) for i in range(self.streams)]
        requests = [
            server.request(Ask(tokens=self.sizes.answer, prompt=prompt)) for prompt in prompts
        ]
        answers = await ask(server.port, requests)
        for answer in answers:
            check_length(server, answer, self.sizes.answer)
        return Measured(throughput(answers), *counts(answers))

    def prompt(self, source: random.Random) -> str:
        """Return a prompt with a unique beginning, so that no server has it cached."""
        return (
            f"{words(source, 5)}.\nWrite a long story about {words(source, 1)}.\nOnce upon a time"
        )


class Long(Short):
    """Several streams with prompts of about a thousand tokens."""

    name = "long"
    default_rounds = 5

    def prompt(self, source: random.Random) -> str:
        return f"{words(source, self.sizes.long_prompt)}.\nOnce upon a time"


COLD = Figure("cold_first_token", "cold first", "ms", more_is_better=False)
NEXT = Figure("next_first_token", "next first", "ms", more_is_better=False)
GAIN = Figure("cold_over_next", "cold / next", "x", more_is_better=True)
BACK = Figure("away_and_back", "reload", "ms", more_is_better=False)


class Warm(Scenario):
    """A conversation, cold; then its next turn."""

    name = "warm"
    figures = (COLD, NEXT, GAIN)
    default_rounds = 5

    async def measure(self, server: Server, seed: int) -> Measured:
        chat = conversation(random.Random(seed), self.sizes.chat)
        cold = await self.turn(server, chat)
        away = self.interrupt(server)
        reply = {"role": "assistant", "content": cold.text}
        chat += [reply, {"role": "user", "content": "And what came after that?"}]
        warm = await self.turn(server, chat)
        figures = {
            COLD.name: 1000 * cold.first,
            NEXT.name: 1000 * warm.first,
            GAIN.name: cold.first / warm.first,
        }
        if away:
            figures[BACK.name] = 1000 * away
        return Measured(figures, *counts([warm]))

    async def turn(self, server: Server, chat: Sequence[dict[str, str]]) -> Answer:
        """One answer of a few tokens."""
        request = server.request(Ask(tokens=24, messages=chat, fixed_length=False))
        return (await ask(server.port, [request]))[0]

    def interrupt(self, server: Server) -> float:
        """Run the action between the turns; return its seconds."""
        return 0.0


class Restart(Warm):
    """The same, with the server stopped and started between the turns."""

    name = "restart"
    figures = (COLD, NEXT, GAIN, BACK)
    default_rounds = 3
    keeps_processes = False

    def interrupt(self, server: Server) -> float:
        return server.restart()


class Swap(Warm):
    """The same, with another model loaded between the turns."""

    name = "swap"
    figures = (COLD, NEXT, GAIN, BACK)
    default_rounds = 3
    keeps_processes = False

    def interrupt(self, server: Server) -> float:
        assert self.sizes.other_model is not None
        assert server.model is not None
        own = server.model
        return server.swap(self.sizes.other_model) + server.swap(own)


class Structured(Scenario):
    """Answers bound to a JSON schema, beside free ones of the same prompts."""

    name = "json"
    figures = (
        Figure("bound", "bound", "ms/token", more_is_better=False),
        Figure("free", "free", "ms/token", more_is_better=False),
        Figure("bound_over_free", "bound / free", "x", more_is_better=False),
    )
    default_rounds = 5

    async def measure(self, server: Server, seed: int) -> Measured:
        bound = await self.answers(server, f"{seed} bound", SCHEMA)
        free = await self.answers(server, f"{seed} free", None)
        figures = {"bound": each_token(bound), "free": each_token(free)}
        figures["bound_over_free"] = figures["bound"] / figures["free"]
        return Measured(figures, *counts(bound))

    async def answers(
        self, server: Server, seed: str, schema: dict[str, object] | None
    ) -> list[Answer]:
        """Return one answer per stream."""
        requests = [
            server.request(
                Ask(
                    tokens=self.sizes.answer,
                    messages=[{"role": "user", "content": self.question(f"{seed} {i}")}],
                    schema=schema,
                )
            )
            for i in range(self.streams)
        ]
        return await ask(server.port, requests)

    def question(self, seed: str) -> str:
        """One that the model answers at length in either form."""
        topic = words(random.Random(seed), 3)
        return f"Tell me about eight people whose lives have to do with {topic}, one by one."


KINDS: dict[str, type[Scenario]] = {
    kind.name: kind for kind in (Short, Long, Warm, Swap, Restart, Structured)
}


def throughput(answers: Sequence[Answer]) -> Figures:
    """Rates over all streams, and how long their first tokens took."""
    tokens = sum(answer.tokens for answer in answers)
    firsts = [answer.first for answer in answers]
    return {
        DECODE.name: decode_rate(answers),
        TOTAL.name: tokens / max(answer.last for answer in answers),
        FIRST.name: 1000 * statistics.median(firsts),
        LATEST_FIRST.name: 1000 * max(firsts),
    }


def decode_rate(answers: Sequence[Answer]) -> float:
    """Tokens a second over the time in which all streams are decoding.

    A server that answers one after another knows no such time; there it is the time from the
    first of all tokens to the last.
    """
    begin = max(answer.first for answer in answers)
    end = min(answer.last for answer in answers)
    if end > begin:
        tokens = sum(
            sum(begin < at <= end for at in answer.times) * answer.tokens / len(answer.times)
            for answer in answers
        )
        return tokens / (end - begin)
    tokens = sum(answer.tokens for answer in answers) - len(answers)
    first, last = min(a.first for a in answers), max(a.last for a in answers)
    return tokens / (last - first)


def each_token(answers: Sequence[Answer]) -> float:
    """Milliseconds between two tokens of a stream, the mean over streams."""
    return statistics.fmean(
        1000 * (answer.last - answer.first) / max(1, answer.tokens - 1) for answer in answers
    )


def counts(answers: Sequence[Answer]) -> tuple[int, int, int]:
    """Tokens generated, read, and found in a cache."""
    return (
        sum(answer.tokens for answer in answers),
        sum(answer.prompt_tokens for answer in answers),
        sum(answer.cached_tokens for answer in answers),
    )


def check_length(server: Server, answer: Answer, wanted: int) -> None:
    """A stream that ended early would make the rest of its batch look fast.

    A server that cannot ignore the end of a sequence answers one stream at a time, so that a
    short one changes no other; it counts as many tokens as came.
    """
    if answer.tokens != wanted and server.can_ignore_eos:
        raise RuntimeError(f"{server.name}: {answer.tokens} tokens came instead of {wanted}")
