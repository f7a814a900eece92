"""Reasoning budget: reasoning is ended after the budget, from the request to the events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ingle.backends.base.backend import stream_events
from ingle.backends.base.conversation import ChatMessage, Reasoning
from ingle.backends.base.events import Delta, Finished, ReasoningDelta
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.requests import GenerateRequest, TokenizeRequest
from ingle.backends.base.sampling_params import Grammar, GrammarKind, SamplingParams
from tests.harness.local_backend import LocalBackend

MakeSpec = Callable[..., LoadSpec]
FetchModel = Callable[[str], Path]

MESSAGES = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}"
OPENS = MESSAGES + "<think>\n"
WAITS = "{# <think> </think> #}" + MESSAGES
END = "\n</think>\n\n"


class Answer(msgspec.Struct):
    """The events of one choice, joined."""

    reasoning: str = ""
    text: str = ""
    tokens: list[int] = []
    end: Finished | None = None


@asynccontextmanager
async def serving(spec: LoadSpec) -> AsyncGenerator[LocalBackend]:
    backend = LocalBackend(spec)
    await backend.start()
    try:
        yield backend
    finally:
        await backend.stop()


async def ask(backend: LocalBackend, **fields: Any) -> list[Answer]:
    """Return the choices of one request, in order."""
    fields = {"messages": [ChatMessage("user", "Hi")], **fields}
    request = GenerateRequest(id="r", **fields)
    answers = [Answer() for _ in range(request.n)]
    async for event in stream_events(backend, request):
        match event:
            case ReasoningDelta(_, index, text, token_ids):
                answers[index].reasoning += text
                answers[index].tokens += token_ids
            case Delta(_, index, text, token_ids):
                answers[index].text += text
                answers[index].tokens += token_ids
            case Finished():
                answers[event.index].end = event
            case _:
                pass
    return answers


@pytest.mark.parametrize("speculation", ["off", "ngram"])
@pytest.mark.parametrize("n", [1, 3])
async def test_reasoning_is_ended_at_the_budget_and_the_answer_begins(
    scripted_spec: MakeSpec, n: int, speculation: Any
) -> None:
    reply = "hm " * 20 + "The answer."
    spec = scripted_spec(reply=reply)
    spec = msgspec.structs.replace(spec, chat_template=OPENS, speculation=speculation)
    async with serving(spec) as backend:
        for answer in await ask(backend, reasoning=Reasoning(budget=30), n=n):
            assert answer.reasoning.rstrip() == ("hm " * 10).rstrip()
            # The script continues after the forced end of reasoning.
            assert answer.text == reply[30 + len(END) :].lstrip()
            assert answer.end is not None
            assert answer.end.reason == "stop"
            assert answer.end.completion_tokens == len(reply) + 1
            assert len(answer.tokens) <= len(reply)


async def test_reasoning_within_the_budget_is_unchanged(scripted_spec: MakeSpec) -> None:
    spec = msgspec.structs.replace(scripted_spec(reply="hm</think>Yes."), chat_template=OPENS)
    async with serving(spec) as backend:
        for budget in (11, 12, 1000):
            (answer,) = await ask(backend, reasoning=Reasoning(budget=budget))
            assert (answer.reasoning, answer.text) == ("hm", "Yes.")


async def test_budget_applies_to_reasoning_opened_by_the_model(scripted_spec: MakeSpec) -> None:
    reply = "<think>" + "hm " * 20 + "<think>again" + " and again" * 9 + "</think>Yes."
    spec = msgspec.structs.replace(scripted_spec(reply=reply), chat_template=WAITS)
    async with serving(spec) as backend:
        (answer,) = await ask(backend, reasoning=Reasoning(budget=30))
    assert answer.reasoning.startswith("hm hm ")
    assert len(answer.reasoning) <= 30
    assert answer.text.endswith("Yes.")


async def test_budget_of_zero_disables_reasoning(scripted_spec: MakeSpec) -> None:
    spec = msgspec.structs.replace(scripted_spec(reply="Yes."), chat_template=OPENS)
    async with serving(spec) as backend:
        (answer,) = await ask(backend, reasoning=Reasoning(budget=0))
    assert (answer.reasoning, answer.text) == ("", "Yes.")


async def test_grammar_applies_only_after_reasoning(scripted_spec: MakeSpec) -> None:
    schema = '{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}'
    grammar = Grammar(GrammarKind.JSON_SCHEMA, schema)
    reply = "x" * 20 + "?" * len(END) + '{"a": 31}'
    spec = msgspec.structs.replace(scripted_spec(reply=reply), chat_template=OPENS)
    async with serving(spec) as backend:
        answers = await ask(backend, reasoning=Reasoning(budget=20), grammar=grammar, n=2)
    for answer in answers:
        assert answer.reasoning.strip() == "x" * 20
        assert answer.text == '{"a": 31}'
        assert answer.end is not None
        assert answer.end.reason == "stop"


@pytest.mark.parametrize("most", [10, 30, 31, 35, 41, 42])
async def test_max_tokens_applies_within_the_forced_end_of_reasoning(
    scripted_spec: MakeSpec, most: int
) -> None:
    spec = msgspec.structs.replace(scripted_spec(reply="x" * 99), chat_template=OPENS)
    async with serving(spec) as backend:
        (answer,) = await ask(backend, reasoning=Reasoning(budget=30), max_tokens=most)
    assert answer.end is not None
    assert answer.end.reason == "length"
    assert answer.end.completion_tokens == most


async def test_logprobs_match_tokens_across_the_forced_end(scripted_spec: MakeSpec) -> None:
    spec = msgspec.structs.replace(scripted_spec(reply="x" * 60), chat_template=OPENS)
    request = GenerateRequest(
        id="r",
        messages=[ChatMessage("user", "Hi")],
        reasoning=Reasoning(budget=30),
        logprobs=1,
    )
    async with serving(spec) as backend:
        async for event in stream_events(backend, request):
            if isinstance(event, Delta):
                assert event.logprobs is not None
                assert [token.token_id for token in event.logprobs] == event.token_ids


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize("engine", ["llama.cpp", "cuda"])
async def test_real_model_continues_as_if_it_had_ended_the_reasoning(
    fetch_model: FetchModel, engine: str
) -> None:
    path = fetch_model("qwen2.5-coder:0.5b")
    template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "<|im_start|>assistant\n<think>\n"
    )
    spec = LoadSpec(
        engine=engine,
        path=str(path),
        context=1024,
        slots=4,
        device="cpu",
        chat_template=template,
        speculation="ngram",
    )
    fields: dict[str, Any] = {
        "messages": [ChatMessage("user", "Is 7 a prime number?")],
        "reasoning": Reasoning(budget=6),
        "sampling": SamplingParams(temperature=0),
    }
    async with serving(spec) as backend:
        prompt = await backend.tokenize(
            TokenizeRequest(id="t", generate=GenerateRequest(id="t", **fields))
        )
        end = await backend.tokenize(TokenizeRequest(id="e", text=END))
        answers = await ask(backend, n=2, max_tokens=20, **fields)
        forced = [*answers[0].tokens[:6], *end.token_ids]
        fields |= {"messages": None, "prompt": prompt.token_ids + forced, "max_tokens": 4}
        (expected,) = await ask(backend, **fields)
    for answer in answers:
        assert answer.end is not None
        assert answer.end.reasoning_tokens == 6
        assert answer.tokens[: len(forced)] == forced
        # A near-tie may resolve differently a few tokens later: batches have other shapes.
        assert answer.tokens[len(forced) :][:2] == expected.tokens[:2]
