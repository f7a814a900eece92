"""Forced tool calls of real models in a worker: each parses and matches its schema."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ingle.backends.base.backend import stream_events
from ingle.backends.base.conversation import ChatMessage, ToolChoice
from ingle.backends.base.events import Delta, Finished, ToolCallDelta, ToolCallStarted
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.worker.supervisor.worker_process import WorkerProcess

from .questions import QUESTIONS, TOOLS

SCHEMAS = {tool.name: json.loads(tool.parameters) for tool in TOOLS}
FORMATS = jsonschema.Draft202012Validator.FORMAT_CHECKER
FetchModel = Callable[[str], Path]
RecordProperty = Callable[[str, object], None]
ENGINES = ["llama.cpp", "cuda"]


async def worker(path: Path, engine: str) -> WorkerProcess:
    spec = LoadSpec(engine=engine, path=str(path), context=8192, slots=4)
    started = WorkerProcess(spec)
    await started.start()
    return started


async def calls_of(model: WorkerProcess, request: GenerateRequest) -> list[tuple[str, Any]]:
    """Return the calls of an answer that contains nothing else."""
    names: list[str] = []
    arguments: list[str] = []
    async for event in stream_events(model, request):
        match event:
            case ToolCallStarted():
                names.append(event.name)
                arguments.append("")
            case ToolCallDelta():
                arguments[event.call] += event.arguments
            case Delta():
                assert not event.text, event.text
            case Finished():
                assert event.reason == "tool_calls", (event.reason, names, arguments)
            case _:
                pass
    return [(name, json.loads(text)) for name, text in zip(names, arguments, strict=True)]


def check(calls: list[tuple[str, Any]], *, several: bool) -> None:
    """Check that there is at least one call, and that each matches its tool."""
    assert calls
    assert several or len(calls) == 1
    for name, arguments in calls:
        jsonschema.validate(
            arguments, SCHEMAS[name], jsonschema.Draft202012Validator, format_checker=FORMATS
        )


def request(number: int, question: str, **fields: Any) -> GenerateRequest:
    """Alternate greedy and sampled requests, and one call and several calls."""
    asked: dict[str, Any] = {
        "messages": [ChatMessage("user", question)],
        "tools": TOOLS,
        "tool_choice": ToolChoice("required"),
        "parallel_tool_calls": number % 4 == 3,
        "sampling": SamplingParams(temperature=float(number % 2), seed=number),
        "max_tokens": 600,
        **fields,
    }
    return GenerateRequest(id=f"r{number}", **asked)


async def ask_all(model: WorkerProcess, numbers: range, **fields: Any) -> Counter[str]:
    """Ask some of the questions, four at a time; count the calls of each tool."""
    called: Counter[str] = Counter()
    asking = asyncio.Semaphore(4)

    async def ask(number: int) -> None:
        async with asking:
            calls = await calls_of(model, request(number, QUESTIONS[number], **fields))
        check(calls, several=number % 4 == 3)
        called.update(name for name, _ in calls)

    async with asyncio.TaskGroup() as group:
        for number in numbers:
            group.create_task(ask(number))
    return called


@pytest.mark.slow
@pytest.mark.model
async def test_small_model_makes_the_forced_call(smollm2_path: Path) -> None:
    """One call each: asked for several, this model continues until its tokens are used up."""
    model = await worker(smollm2_path, "llama.cpp")
    try:
        few = TOOLS[8:10]
        fields = {"tools": few, "parallel_tool_calls": False, "max_tokens": 2000}
        assert (await ask_all(model, range(0, 97, 32), **fields)).total() == 4
        named = request(0, "Hello", tools=few, tool_choice=ToolChoice("required", ["plot"]))
        calls = await calls_of(model, named)
        assert [name for name, _ in calls] == ["plot"]
        check(calls, several=False)
    finally:
        await model.stop()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["qwen2.5-coder:0.5b", "qwen2.5-coder:1.5b"])
@pytest.mark.parametrize("part", range(4))
async def test_forced_calls_match_their_schemas(
    fetch_model: FetchModel,
    engine: str,
    name: str,
    part: int,
    record_property: RecordProperty,
) -> None:
    model = await worker(fetch_model(name), engine)
    try:
        called = await ask_all(model, range(part, len(QUESTIONS), 4))
    finally:
        await model.stop()
    record_property("called", dict(called))
    assert called.total() >= len(QUESTIONS) // 4
