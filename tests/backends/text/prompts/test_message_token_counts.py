"""Tests of dividing a prompt's tokens among its messages, against renderings of its beginnings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ingle.backends.base.conversation import ChatMessage, Reasoning, Tool, ToolCall
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.llama_cpp.llama_tokenizer import LlamaVocabulary
from ingle.backends.testing.byte_tokenizer import ByteTokenizer
from ingle.backends.text.prompts.message_token_counts import (
    MessageCounter,
    MessageMarks,
    MessageTokens,
)
from ingle.backends.text.prompts.prompt_builder import PromptBuilder
from ingle.backends.text.templates.chat_template import CHATML, ChatTemplate
from ingle.backends.text.templates.template_renderer import RenderLimits
from ingle.backends.text.tokenization.tokenizer import Tokenizer, encode_prompt

MakeTemplate = Callable[..., ChatTemplate]

USER, ASSISTANT = "user", "assistant"
TALK = [
    ChatMessage(USER, "user"),
    ChatMessage(ASSISTANT, "assistant\n\nuser"),
    ChatMessage(USER, "  Größe, 大きさ 🙂?\n"),
    ChatMessage(ASSISTANT, "<|im_end|> is how I end, and the code is\n```\nx = 1\n```"),
    ChatMessage(USER, "user"),
]
SYSTEM = ChatMessage("system", "You are terse.")
TOOL = Tool("look_up", "Looks up.", '{"type":"object","properties":{"place":{"type":"string"}}}')
CALLED = [
    SYSTEM,
    ChatMessage(USER, "Where?"),
    ChatMessage(ASSISTANT, "", tool_calls=[ToolCall("1", "look_up", '{"place":"here"}')]),
    ChatMessage("tool", "Nowhere.", tool_call_id="1"),
    ChatMessage(ASSISTANT, "Nowhere."),
    ChatMessage(USER, "Sure?"),
]

GEMMA = """{{ bos_token }}{% set turns = messages %}{% set system = "" %}
{%- if messages[0].role == "system" -%}
{% set system = messages[0].content + "\n\n" %}{% set turns = messages[1:] %}
{%- endif -%}
{% for turn in turns -%}
{% if (turn.role == "user") != (loop.index0 % 2 == 0) -%}
{{ raise_exception("Take turns.") }}
{%- endif -%}
{{ "<start_of_turn>" + ("model" if turn.role == "assistant" else turn.role) + "\n" }}
{{- (system if loop.first else "") + turn.content | trim + "<end_of_turn>\n" }}
{%- endfor %}
{%- if add_generation_prompt %}{{ "<start_of_turn>model\n" }}{% endif %}"""


class Counting:
    """Prompts of one template, counted both ways."""

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate) -> None:
        self.tokenizer = tokenizer
        self.prompts = PromptBuilder(tokenizer, template, context=8192)
        self.counter = MessageCounter(tokenizer, self.prompts)

    def count(self, messages: Sequence[ChatMessage], **fields: Any) -> MessageTokens:
        request = GenerateRequest(id="r", messages=list(messages), **fields)
        counted = self.counter.count(request)
        prompt = self.prompts.build(request)
        assert sum(counted.messages) + counted.rest == len(prompt.token_ids)
        return counted

    def by_prefixes(self, messages: Sequence[ChatMessage], **fields: Any) -> list[int]:
        """What each message but the first adds to the prompt of those before it."""
        lengths: list[int] = []
        for end in range(1, len(messages) + 1):
            request = GenerateRequest(id="r", messages=list(messages[:end]), **fields)
            text = self.prompts.render(request, opens_answer=False)
            lengths.append(len(encode_prompt(self.tokenizer, text)))
        return [after - before for before, after in pairwise(lengths)]


@pytest.fixture(params=["smollm2", "qwen2.5-coder", "gemma3"])
def real(request: pytest.FixtureRequest, fetch_model: Any, make_template: MakeTemplate) -> Counting:
    tokenizer = LlamaVocabulary(fetch_model(request.param))
    template = make_template(
        tokenizer.chat_template or GEMMA,
        bos_token=tokenizer.bos_text,
        eos_token=tokenizer.eos_text,
        limits=RenderLimits(seconds=30),
    )
    return Counting(tokenizer, template)


@pytest.mark.model
def test_real_templates_agree_with_prefixes(real: Counting) -> None:
    counted = real.count(TALK)
    assert counted.messages[1:] == real.by_prefixes(TALK)
    # The first one has its own words only; BOS and the template's own system prompt are nobody's.
    assert counted.messages[0] == counted.messages[-1]
    assert 2 < counted.rest < 60
    talk = [SYSTEM, *TALK]
    counted = real.count(talk)
    assert counted.messages[2:] == real.by_prefixes(talk)[1:]
    assert counted.messages[0] >= 4


@pytest.mark.model
def test_calls_of_tools_are_counted(real: Counting) -> None:
    counted = real.count(CALLED, tools=[TOOL])
    assert all(count > 0 for count in counted.messages)
    assert counted.messages[-2:] == real.by_prefixes(CALLED, tools=[TOOL])[-2:]
    assert real.count(CALLED[:1]).messages[0] > 0


@pytest.fixture
def counting(make_template: MakeTemplate) -> Callable[[str], Counting]:
    return lambda source: Counting(ByteTokenizer(), make_template(source))


def test_without_a_system_prompt_only_the_opening_is_left(
    counting: Callable[[str], Counting],
) -> None:
    chatml = counting(CHATML)
    counted = chatml.count([SYSTEM, *TALK])
    assert counted.messages[1:] == chatml.by_prefixes([SYSTEM, *TALK])
    assert counted.rest == len(encode_prompt(ByteTokenizer(), "<|im_start|>assistant\n"))
    assert chatml.count([]).messages == []


def test_an_answer_that_continues_has_no_rest(counting: Callable[[str], Counting]) -> None:
    chatml = counting(CHATML)
    whole = chatml.count(TALK[:4])
    going_on = chatml.count(TALK[:4], continues=True)
    assert going_on.rest < whole.rest
    assert going_on.messages[:3] == whole.messages[:3]
    assert 0 < going_on.messages[3] < whole.messages[3]


def test_templates_that_rewrite_texts_are_counted_by_prefixes(
    counting: Callable[[str], Counting],
) -> None:
    loud = counting(CHATML.replace("message['content']", "message['content'] | upper"))
    assert loud.count(TALK).messages[1:] == loud.by_prefixes(TALK)


def test_a_message_without_words_is_counted(counting: Callable[[str], Counting]) -> None:
    chatml = counting(CHATML)
    talk = [TALK[0], ChatMessage(ASSISTANT, ""), TALK[2], TALK[3]]
    assert chatml.count(talk).messages[1:] == chatml.by_prefixes(talk)


def test_earlier_thoughts_that_are_dropped_cost_nothing(
    counting: Callable[[str], Counting],
) -> None:
    source = CHATML.replace(
        "message['content']",
        "('<think>' + message.reasoning_content + '</think>' if loop.last and "
        "message.reasoning_content else '') + message['content']",
    )
    thinking = counting(source + "{# reasoning_content <think> </think> #}")
    plain = [TALK[0], TALK[1], TALK[2]]
    thought = [TALK[0], ChatMessage(ASSISTANT, TALK[1].content, reasoning="Hm, hm."), TALK[2]]
    assert thinking.count(thought).messages == thinking.count(plain).messages
    off = Reasoning(enabled=False)
    assert thinking.count(plain, reasoning=off).messages == thinking.count(plain).messages


def test_marks_leave_no_trace() -> None:
    marks = MessageMarks()
    first = marks.put(ChatMessage(USER, "  word \n"), 0)
    assert first.content.startswith("  x")
    assert first.content.endswith("x \n")
    empty = ChatMessage(ASSISTANT, " \n")
    assert marks.put(empty, 1) == empty
    text = f"<{first.content.strip()}>"
    assert marks.take(text, 2) == ("<word>", [(1, 5), None])


@pytest.mark.slow
def test_every_template_gives_each_message_its_own(
    make_template: MakeTemplate, sources: Path
) -> None:
    talk = [
        SYSTEM,
        ChatMessage(USER, "One?"),
        ChatMessage(ASSISTANT, "Two."),
        ChatMessage(USER, "Six?"),
    ]
    for path in sorted(sources.glob("*.jinja")):
        counting = Counting(ByteTokenizer(), make_template(path.read_text("utf-8")))
        counted = counting.count(talk)
        # Some put the system prompt into another message.
        for message, tokens in list(zip(talk, counted.messages, strict=True))[1:]:
            assert tokens >= len(message.content), path.stem
