"""Builds the worker loop for a load specification; runs where the model lives."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Protocol

import msgspec

from .base import EngineKind, LoadSpec, ModelInfo
from .engine.engine import Engine
from .engine.model_runner import ModelRunner
from .errors import LoadFailed
from .messages import FromWorker, Loading
from .text.chat_template import ChatTemplate, default_template
from .text.prompt import PromptBuilder
from .text.tokenizer import Tokenizer
from .worker_loop import Inbox, WorkerLoop


class LocalRunner(ModelRunner, Protocol):
    """A runner that brings its tokenizer and knows what it got."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        ...

    def info(self) -> ModelInfo:
        """What the model really got."""
        ...


@contextmanager
def loaded(
    spec: LoadSpec, send: Callable[[FromWorker], None], inbox: Inbox
) -> Generator[tuple[WorkerLoop, ModelInfo]]:
    """Load the model and free it at the end; progress goes through `send`; raises `LoadFailed`."""
    _check(spec)
    runner = _make_runner(spec, _throttled(send))
    try:
        template = _make_template(spec, runner.tokenizer)
        try:
            prompts = PromptBuilder(runner.tokenizer, template, context=runner.context)
            loop = WorkerLoop(Engine(runner), runner.tokenizer, prompts, send, inbox)
            info = msgspec.structs.replace(runner.info(), has_chat_template=template is not None)
            yield loop, info
        finally:
            if template is not None:
                template.close()
    finally:
        runner.close()


def _check(spec: LoadSpec) -> None:
    for name in ("context", "slots", "batch"):
        if getattr(spec, name) < 1:
            raise LoadFailed(
                f"A model cannot be loaded with {name} {getattr(spec, name)}.",
                hint=f"Choose a {name} of at least 1.",
            )


def _make_runner(spec: LoadSpec, on_progress: Callable[[float], None]) -> LocalRunner:
    # Each engine's libraries are imported only in the process that runs it.
    match spec.engine:
        case EngineKind.LLAMA_CPP:
            from .llama_cpp.model_runner import LlamaModelRunner

            return LlamaModelRunner(spec, on_progress)
        case EngineKind.SCRIPTED:
            from .scripted.model_runner import ScriptedModelRunner

            return ScriptedModelRunner(spec, on_progress)


def _make_template(spec: LoadSpec, tokenizer: Tokenizer) -> ChatTemplate | None:
    source = spec.chat_template or tokenizer.chat_template
    source = source or default_template(tokenizer.has_token)
    if source is None:
        return None
    template = ChatTemplate(source, bos_token=tokenizer.bos_text, eos_token=tokenizer.eos_text)
    template.start()
    return template


def _throttled(send: Callable[[FromWorker], None]) -> Callable[[float], None]:
    """Report whole percents only: llama.cpp calls once a tensor."""
    last = -1

    def report(fraction: float) -> None:
        nonlocal last
        percent = int(fraction * 100)
        if percent != last:
            last = percent
            send(Loading(percent / 100))

    return report
