"""Token counts per message of a prompt, compared with rendering prefixes of the conversation."""

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
CHAT = [
    ChatMessage(USER, "user"),
    ChatMessage(ASSISTANT, "assistant\n\nuser"),
    ChatMessage(USER, "  Größe, 大きさ 🙂?\n"),
    ChatMessage(ASSISTANT, "<|im_end|> is how I end, and the code is\n```\nx = 1\n```"),
    ChatMessage(USER, "user"),
]
SYSTEM = ChatMessage("system", "You are terse.")
TOOL = Tool("look_up", "Looks up.", '{"type":"object","properties":{"place":{"type":"string"}}}')
TOOL_CHAT = [
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


class TemplateCounts:
    """Token counts of one template, by `MessageCounter` and by prefixes."""

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
        """The number of tokens that each message but the first adds to the prompt of the preceding
        ones."""
        lengths: list[int] = []
        for end in range(1, len(messages) + 1):
            request = GenerateRequest(id="r", messages=list(messages[:end]), **fields)
            text = self.prompts.render(request, opens_answer=False)
            lengths.append(len(encode_prompt(self.tokenizer, text)))
        return [after - before for before, after in pairwise(lengths)]


@pytest.fixture(params=["smollm2", "qwen2.5-coder", "gemma3"])
def real_counts(
    request: pytest.FixtureRequest, fetch_model: Any, make_template: MakeTemplate
) -> TemplateCounts:
    tokenizer = LlamaVocabulary(fetch_model(request.param))
    template = make_template(
        tokenizer.chat_template or GEMMA,
        bos_token=tokenizer.bos_text,
        eos_token=tokenizer.eos_text,
        limits=RenderLimits(seconds=30),
    )
    return TemplateCounts(tokenizer, template)


@pytest.mark.model
def test_counts_of_real_templates_match_prefixes(real_counts: TemplateCounts) -> None:
    counted = real_counts.count(CHAT)
    assert counted.messages[1:] == real_counts.by_prefixes(CHAT)
    # The first message counts only its own tokens, without BOS and the template's default system
    # prompt.
    assert counted.messages[0] == counted.messages[-1]
    assert 2 < counted.rest < 60
    chat = [SYSTEM, *CHAT]
    counted = real_counts.count(chat)
    assert counted.messages[2:] == real_counts.by_prefixes(chat)[1:]
    assert counted.messages[0] >= 4


@pytest.mark.model
def test_tool_calls_are_counted(real_counts: TemplateCounts) -> None:
    counted = real_counts.count(TOOL_CHAT, tools=[TOOL])
    assert all(count > 0 for count in counted.messages)
    assert counted.messages[-2:] == real_counts.by_prefixes(TOOL_CHAT, tools=[TOOL])[-2:]
    assert real_counts.count(TOOL_CHAT[:1]).messages[0] > 0


@pytest.fixture
def make_counts(make_template: MakeTemplate) -> Callable[[str], TemplateCounts]:
    return lambda source: TemplateCounts(ByteTokenizer(), make_template(source))


def test_rest_is_only_the_generation_prompt(
    make_counts: Callable[[str], TemplateCounts],
) -> None:
    chatml = make_counts(CHATML)
    counted = chatml.count([SYSTEM, *CHAT])
    assert counted.messages[1:] == chatml.by_prefixes([SYSTEM, *CHAT])
    assert counted.rest == len(encode_prompt(ByteTokenizer(), "<|im_start|>assistant\n"))
    assert chatml.count([]).messages == []


def test_continued_answer_has_no_generation_prompt(
    make_counts: Callable[[str], TemplateCounts],
) -> None:
    chatml = make_counts(CHATML)
    complete = chatml.count(CHAT[:4])
    continued = chatml.count(CHAT[:4], continues=True)
    assert continued.rest < complete.rest
    assert continued.messages[:3] == complete.messages[:3]
    assert 0 < continued.messages[3] < complete.messages[3]


def test_templates_that_change_text_fall_back_to_prefixes(
    make_counts: Callable[[str], TemplateCounts],
) -> None:
    uppercase = make_counts(CHATML.replace("message['content']", "message['content'] | upper"))
    assert uppercase.count(CHAT).messages[1:] == uppercase.by_prefixes(CHAT)


def test_empty_message_is_counted(make_counts: Callable[[str], TemplateCounts]) -> None:
    chatml = make_counts(CHATML)
    chat = [CHAT[0], ChatMessage(ASSISTANT, ""), CHAT[2], CHAT[3]]
    assert chatml.count(chat).messages[1:] == chatml.by_prefixes(chat)


def test_dropped_reasoning_is_not_counted(
    make_counts: Callable[[str], TemplateCounts],
) -> None:
    source = CHATML.replace(
        "message['content']",
        "('<think>' + message.reasoning_content + '</think>' if loop.last and "
        "message.reasoning_content else '') + message['content']",
    )
    reasoning_counts = make_counts(source + "{# reasoning_content <think> </think> #}")
    plain = [CHAT[0], CHAT[1], CHAT[2]]
    with_reasoning = [
        CHAT[0],
        ChatMessage(ASSISTANT, CHAT[1].content, reasoning="Hm, hm."),
        CHAT[2],
    ]
    assert reasoning_counts.count(with_reasoning).messages == reasoning_counts.count(plain).messages
    off = Reasoning(enabled=False)
    assert (
        reasoning_counts.count(plain, reasoning=off).messages
        == reasoning_counts.count(plain).messages
    )


def test_marks_are_removed_from_the_text() -> None:
    marks = MessageMarks()
    first = marks.put(ChatMessage(USER, "  word \n"), 0)
    assert first.content.startswith("  x")
    assert first.content.endswith("x \n")
    empty = ChatMessage(ASSISTANT, " \n")
    assert marks.put(empty, 1) == empty
    text = f"<{first.content.strip()}>"
    assert marks.take(text, 2) == ("<word>", [(1, 5), None])


@pytest.mark.slow
def test_every_template_attributes_tokens_to_each_message(
    make_template: MakeTemplate, sources: Path
) -> None:
    chat = [
        SYSTEM,
        ChatMessage(USER, "One?"),
        ChatMessage(ASSISTANT, "Two."),
        ChatMessage(USER, "Six?"),
    ]
    for path in sorted(sources.glob("*.jinja")):
        make_counts = TemplateCounts(ByteTokenizer(), make_template(path.read_text("utf-8")))
        counted = make_counts.count(chat)
        # Some templates merge the system prompt into another message.
        for message, tokens in list(zip(chat, counted.messages, strict=True))[1:]:
            assert tokens >= len(message.content), path.stem
