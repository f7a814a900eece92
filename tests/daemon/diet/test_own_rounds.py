"""Turns of the model become one answer: what the client receives is what it asked for."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ingle.backends.base.conversation import ChatMessage, Tool, ToolCall, ToolChoice
from ingle.backends.base.errors import ContextExceeded
from ingle.backends.base.events import (
    Delta,
    Event,
    EventSink,
    Finished,
    FinishReason,
    ReasoningDelta,
    Started,
    ToolCallDelta,
    ToolCallStarted,
)
from ingle.backends.base.requests import GenerateRequest
from ingle.daemon.diet.disclosure import DESCRIBED, Disclosure, disclose, may_disclose
from ingle.daemon.diet.old_results import shorten_results
from ingle.daemon.diet.outlined_tools import outline_of
from ingle.daemon.diet.own_rounds import MOST_ROUNDS, run_rounds

SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "A file. " * 30},
            "how": {"enum": ["a", "b"], "title": "How"},
            "more": {"$ref": "#/$defs/more"},
            "rest": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["path", "how", "more", "gone"],
        "$defs": {"more": {"type": "object"}},
    }
)
TOOLS = [Tool(name, f"Does {name}. " * 40, SCHEMA) for name in ("read", "run", "look", "write")]
ASKED = GenerateRequest(id="r", messages=[ChatMessage("user", "Go.")], tools=TOOLS)


class Model:
    """Says one turn after the other: texts, and calls as pairs of a name and arguments."""

    def __init__(self, turns: list[list[str | tuple[str, str]]]) -> None:
        self._turns = turns
        self.requests: list[GenerateRequest] = []

    async def run(self, request: GenerateRequest, sink: EventSink) -> None:
        """See `RequestBackend.run`: each turn has a prompt of 100 tokens, 10 times its number."""
        number = len(self.requests)
        self.requests.append(request)
        turn = self._turns[min(number, len(self._turns) - 1)]
        sink([Started(request.id, 100 + 10 * number, 90 if number else 0)])
        calls = 0
        for piece in turn:
            if isinstance(piece, str):
                sink([Delta(request.id, 0, piece, [1])])
                continue
            events: list[Event] = [
                ToolCallStarted(request.id, 0, calls, f"call_{number}{calls}", piece[0], [1]),
                *(ToolCallDelta(request.id, 0, calls, part, [1]) for part in piece[1]),
            ]
            sink(events)
            calls += 1
        reason = FinishReason.TOOL_CALLS if calls else FinishReason.STOP
        sink([Finished(request.id, 0, reason, 4, decode_seconds=1.0)])


def answer_of(
    turns: list[list[str | tuple[str, str]]], asked: GenerateRequest = ASKED, *, diet: bool = True
) -> tuple[list[Event], Model]:
    """What the client receives, and the model."""
    model, events = Model(turns), list[Event]()
    request, own = disclose(asked, 8192) if diet else (asked, None)
    asyncio.run(run_rounds(model.run, request, events.extend, own))
    return events, model


def said(events: list[Event]) -> dict[str, Any]:
    """The answer of the events, without counts."""
    calls: list[list[str]] = []
    for event in events:
        if isinstance(event, ToolCallStarted):
            assert event.call == len(calls)
            calls.append([event.name, ""])
        if isinstance(event, ToolCallDelta):
            calls[event.call][1] += event.arguments
    (end,) = (event for event in events if isinstance(event, Finished))
    assert events[-1] is end
    assert [isinstance(event, Started) for event in events].count(True) == 1
    text = "".join(event.text for event in events if isinstance(event, Delta))
    return {"text": text, "calls": calls, "reason": end.reason}


ARGUMENTS = st.sampled_from(['{"path": "a"}', "{}", '{"name": "run"}', '{"digest": "0"}'])
THEIRS = st.tuples(st.sampled_from(["read", "run", "look", "gone"]), ARGUMENTS)
OURS = st.tuples(
    st.sampled_from(["describe_tool", "recall_result"]),
    ARGUMENTS | st.sampled_from(["", "[1]", "{", '"x"', '{"name": {}}', '{"start": -1}']),
)


@given(
    st.lists(st.lists(OURS, min_size=1, max_size=3), max_size=MOST_ROUNDS - 1),
    st.lists(THEIRS, max_size=3),
    st.sampled_from(["", "It is done."]),
    st.lists(OURS, max_size=2),
)
def test_client_receives_what_it_does_without_a_diet(
    before: list[list[tuple[str, str]]],
    calls: list[tuple[str, str]],
    text: str,
    beside: list[tuple[str, str]],
) -> None:
    last: list[str | tuple[str, str]] = [text, *calls]
    mixed = [text, *beside, *calls] if calls else last
    events, model = answer_of([*([*turn] for turn in before), mixed])
    plain, _ = answer_of([last], diet=False)
    assert said(events) == said(plain)
    assert len(model.requests) == len(before) + 1
    for earlier, later in zip(model.requests, model.requests[1:], strict=False):
        assert (later.messages or [])[: len(earlier.messages or [])] == earlier.messages
        assert (later.tools, later.shown_tools) == (earlier.tools, earlier.shown_tools)


def test_usage_is_that_of_the_last_prompt_and_all_words() -> None:
    asked: tuple[str, str] = ("describe_tool", '{"name": "run"}')
    events, _ = answer_of([["Let me see.", asked], ["Here.", ("run", "{}")]])
    started, end = events[0], events[-1]
    assert isinstance(started, Started)
    assert isinstance(end, Finished)
    assert (end.completion_tokens, end.decode_seconds) == (8, 2.0)
    assert started.prompt_tokens + end.prompt_tokens == 110 - 4
    computed = 100 + 110 - 90
    assert started.cached_tokens + end.cached_tokens == max(0, 106 - computed)
    assert said(events)["text"] == "Let me see.\n\nHere."
    (call,) = (event for event in events if isinstance(event, ToolCallStarted))
    assert call.call_id == "call_10" + DESCRIBED


def test_later_prompts_have_the_description_where_it_was() -> None:
    asked: tuple[str, str] = ("describe_tool", '{"name": "run"}')
    _, model = answer_of([[asked], [("run", "{}")]])
    call = ToolCall("call_10" + DESCRIBED, "run", "{}")
    more = [ChatMessage("assistant", "", tool_calls=[call]), ChatMessage("tool", "ok")]
    later, _ = disclose(replace(ASKED, messages=[*(ASKED.messages or []), *more, *more]), 8192)
    before = model.requests[1].messages or []
    assert (later.messages or [])[: len(before)] == before
    assert len(later.messages or []) == len(before) + 4


def test_model_that_only_asks_is_ended() -> None:
    asked: tuple[str, str] = ("recall_result", "{}")
    events, model = answer_of([[asked]])
    assert (len(model.requests), said(events)["reason"]) == (MOST_ROUNDS, FinishReason.STOP)
    forced = replace(ASKED, tool_choice=ToolChoice("required"), max_seconds=2.5)
    events, model = answer_of([[asked]], forced)
    assert (len(model.requests), said(events)["reason"]) == (3, FinishReason.LENGTH)
    _, model = answer_of([[asked]], replace(forced, max_seconds=None))
    assert model.requests[-2].tool_choice.names == []
    assert model.requests[-1].tool_choice.names == [tool.name for tool in TOOLS]


def test_answer_ends_where_the_context_does() -> None:
    class Full(Model):
        async def run(self, request: GenerateRequest, sink: EventSink) -> None:
            if len(self.requests) == 1:
                raise ContextExceeded(9000, 8192)
            await super().run(request, sink)

    request, own = disclose(ASKED, 8192)
    events: list[Event] = []
    model = Full([["Hm.", ("describe_tool", '{"name": "run"}')]])
    asyncio.run(run_rounds(model.run, request, events.extend, own))
    assert said(events) == {"text": "Hm.", "calls": [], "reason": FinishReason.LENGTH}
    model.requests = [request]
    with pytest.raises(ContextExceeded):
        asyncio.run(run_rounds(model.run, request, events.extend, own))


def test_outline_names_the_required_arguments() -> None:
    outline = outline_of(TOOLS[0])
    assert len(outline.description) <= 120
    assert json.loads(outline.parameters) == {
        "type": "object",
        "properties": {"path": {"type": "string"}, "how": {"enum": ["a", "b"]}, "more": {}},
        "required": ["path", "how", "more"],
    }


def test_tools_are_shown_in_full_if_demanded_or_short() -> None:
    shown = {tool.name: tool for tool in disclose(ASKED, 8192)[0].shown_tools}
    assert all(shown[tool.name] == outline_of(tool) for tool in TOOLS)
    forced = replace(ASKED, tool_choice=ToolChoice("required", ["run"]))
    shown = {tool.name: tool for tool in disclose(forced, 8192)[0].shown_tools}
    assert (shown["run"], shown["read"]) == (TOOLS[1], outline_of(TOOLS[0]))
    short = [Tool("read", "Reads.", SCHEMA[:2].replace('"', "") + "}")]
    request, own = disclose(replace(ASKED, tools=short), 8192)
    assert [tool.name for tool in request.shown_tools] == ["read", "recall_result"]
    assert not own.tools


def test_names_of_the_client_stay_its_own() -> None:
    mine = [*TOOLS, Tool("describe_tool"), Tool("recall_result"), Tool("recall_result_2")]
    _, own = disclose(replace(ASKED, tools=mine), 8192)
    assert (own.describe, own.recall) == ("describe_tool_2", "recall_result_3")


@pytest.mark.parametrize(
    "change",
    [{"tools": []}, {"n": 2}, {"continues": True}, {"tool_choice": ToolChoice("none")}],
)
def test_some_requests_take_one_turn(change: dict[str, Any]) -> None:
    assert may_disclose(ASKED)
    assert not may_disclose(replace(ASKED, **change))


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 6000)), max_size=12))
def test_shortened_results_stay_and_the_latest_are_whole(sizes: list[tuple[int, int]]) -> None:
    messages = [ChatMessage("user", "Go.")]
    before: list[ChatMessage] = []
    for number, (count, size) in enumerate(sizes):
        results = [ChatMessage("tool", f"{number}\n" + "x" * size) for _ in range(count)]
        messages += [ChatMessage("assistant", ""), *results]
        short, texts = shorten_results(messages, 8000, "recall_result")
        assert short[len(short) - count :] == results
        kept = [m for m in short if m.role == "tool" and m not in results]
        assert sum(len(m.content) for m in kept) <= 8000 + 1000 * 3 * len(sizes)
        gone = {m.content for m in messages} - {m.content for m in short}
        assert gone == set(texts.values())
        changed = [i for i, m in enumerate(before) if short[i] != m]
        assert all(len(short[i].content) < len(before[i].content) for i in changed)
        again = [m for m in before if "[Shortened:" in m.content]
        assert all(m in short for m in again)
        before = short


def test_recalled_text_comes_in_parts() -> None:
    own = Disclosure("describe_tool", "recall_result", {}, {"d": "0123456789"}, 4)
    told = [
        own.answer([ToolCall("", "recall_result", json.dumps(given))])[1].content
        for given in ({"digest": "d"}, {"digest": "d", "start": 8}, {"digest": "d", "start": 99})
    ]
    assert told[0] == '0123\n[Of 10 characters. "start": 4 returns the rest.]'
    assert told[1] == "89"
    assert told[2] == told[0]
    calls = [ToolCall("a", "recall_result", '{"digest":"d"}')] * 2
    assert len(own.answer(calls)) == 2


def test_thoughts_of_a_turn_stay_with_it() -> None:
    class Thinking(Model):
        async def run(self, request: GenerateRequest, sink: EventSink) -> None:
            sink([ReasoningDelta(request.id, 0, "Hm.", [1])])
            await super().run(request, sink)

    request, own = disclose(ASKED, 8192)
    events: list[Event] = []
    model = Thinking([[("describe_tool", '{"name": "run"}')], ["Done."]])
    asyncio.run(run_rounds(model.run, request, events.extend, own))
    assert (model.requests[1].messages or [])[1].reasoning == "Hm."
    assert [type(event) for event in events].count(ReasoningDelta) == 2
