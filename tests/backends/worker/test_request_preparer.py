from __future__ import annotations

import queue
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ingle.backends.base.conversation import Tool
from ingle.backends.base.events import Tokenized
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.requests import GenerateRequest, TokenizeRequest
from ingle.backends.base.sampling_params import Grammar, GrammarKind
from ingle.backends.testing.byte_tokenizer import ByteTokenizer
from ingle.backends.testing.scripted_model_runner import ScriptedModelRunner
from ingle.backends.text.prompts.prompt_builder import PromptBuilder
from ingle.backends.text.structured_output import grammar_compiler
from ingle.backends.worker.request_preparer import Admitted, Arrival, RequestPreparer

MakeSpec = Callable[..., LoadSpec]
TOOL = Tool(name="read", description="", parameters="{}")


@pytest.mark.parametrize("pattern", ["[a-z]+", "["])
@pytest.mark.parametrize("tools", [[], [TOOL]])
def test_grammar_of_tools_is_compiled_after_their_prompt_was_tokenised(
    scripted_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch, tools: list[Tool], pattern: str
) -> None:
    built: list[int] = []
    build = grammar_compiler._vocabulary  # pyright: ignore[reportPrivateUsage]

    def counted(tokenizer: ByteTokenizer) -> Any:
        built.append(1)
        return build(tokenizer)

    monkeypatch.setattr(grammar_compiler, "_vocabulary", counted)
    done: queue.SimpleQueue[Admitted] = queue.SimpleQueue()
    form = SimpleNamespace(grammar=Grammar(GrammarKind.REGEX, pattern))
    preparer = RequestPreparer(
        ScriptedModelRunner(scripted_spec()),
        ByteTokenizer(),
        PromptBuilder(ByteTokenizer(), None, context=512),
        cast(Any, SimpleNamespace(of=lambda request, text: form)),  # pyright: ignore[reportUnknownLambdaType]
        is_wanted=lambda arrival: True,
        done=done.put,
    )
    request = GenerateRequest(id="a", prompt="Hi", tools=tools)
    for name in ("first", "second"):
        preparer.put(Arrival(TokenizeRequest(id=name, generate=request), 0.0))
        assert isinstance(done.get(timeout=10).outcome, Tokenized)
    preparer.close()
    assert len(built) == len(tools)
