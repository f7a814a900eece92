"""`PromptBuilder`: template variables, reasoning, continued answers and limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ingle.backends.base.conversation import (
    ChatMessage,
    Picture,
    Reasoning,
    Tool,
    ToolCall,
    ToolChoice,
)
from ingle.backends.base.errors import ContextExceeded, RequestRejected
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.testing.byte_tokenizer import BOS, ByteTokenizer
from ingle.backends.text.prompts.encoded_pictures import EncodedPictures, PictureTokens
from ingle.backends.text.prompts.prompt_builder import PromptBuilder
from ingle.backends.text.templates.chat_template import ChatTemplate

Build = Callable[..., str]

HI = ChatMessage("user", "Hi")
MESSAGES = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}"
OPENS = MESSAGES + "{% if add_generation_prompt %}<think>\n{% endif %}"
SWITCHES = MESSAGES + "{% if enable_thinking is defined and not enable_thinking %}off{% endif %}"


@pytest.fixture
def build(make_template: Callable[..., ChatTemplate]) -> Build:
    """Build the prompt text of a request with these fields."""

    def build(source: str, messages: Sequence[ChatMessage] = (HI,), **fields: Any) -> str:
        prompts = PromptBuilder(ByteTokenizer(), make_template(source), context=4096)
        request = GenerateRequest(id="a", messages=list(messages), **fields)
        return prompts.build(request).text

    return build


def test_tools_are_rendered_unless_tool_choice_is_none(build: Build) -> None:
    source = "{% for t in tools or [] %}{{ t.function | tojson }};{% endfor %}" + MESSAGES
    tools = [Tool("look_up", "Finds.")]
    assert "look_up" in build(source, tools=tools)
    assert "look_up" in build(source, tools=tools, tool_choice=ToolChoice("required"))
    assert build(source, tools=tools, tool_choice=ToolChoice("none")) == "user:Hi;"


class Encoder(EncodedPictures):
    """Keeps the first byte of each picture in `seen`."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def _add_tokens(self, picture: Picture, tokens: PictureTokens) -> None:
        del tokens
        self.seen.append(picture.rgb[0])


def test_pictures_of_a_cancelled_request_are_not_encoded() -> None:
    pictures = [Picture(width=1, height=1, rgb=bytes([n, 0, 0])) for n in range(3)]
    encoder = Encoder()
    prompts = PromptBuilder(ByteTokenizer(), None, context=64, pictures=encoder)
    request = GenerateRequest(id="a", messages=[ChatMessage("user", "", pictures=pictures)])
    prompts.encode_pictures(request, lambda: len(encoder.seen) < 2)
    assert encoder.seen == [0, 1]


class TestTemplateVariables:
    def test_template_variables_reach_the_template(self, build: Build) -> None:
        assert build(SWITCHES, template_variables={"enable_thinking": False}) == "user:Hi;off"

    def test_template_variables_override_the_request(self, build: Build) -> None:
        fields = {"template_variables": {"enable_thinking": True}}
        assert build(SWITCHES, reasoning=Reasoning(enabled=False), **fields) == "user:Hi;"

    @pytest.mark.parametrize(
        "name", ["messages", "tools", "continues", "add_generation_prompt", "self", "a b", "_x"]
    )
    def test_reserved_template_variables_are_rejected(self, build: Build, name: str) -> None:
        with pytest.raises(RequestRejected) as caught:
            build(SWITCHES, template_variables={name: 1})
        assert caught.value.param == "chat_template_kwargs"

    @pytest.mark.parametrize("value", [10**30, "\ud800"])
    def test_unserializable_template_variables_are_rejected(
        self, build: Build, value: object
    ) -> None:
        with pytest.raises(RequestRejected):
            build(SWITCHES, template_variables={"enable_thinking": value})


class TestReasoning:
    OFF = (Reasoning(enabled=False), Reasoning(budget=0), Reasoning(effort="none"))

    @pytest.mark.parametrize("reasoning", OFF)
    def test_disabled_by_the_template_variable(self, build: Build, reasoning: Reasoning) -> None:
        assert build(SWITCHES, reasoning=reasoning) == "user:Hi;off"

    @pytest.mark.parametrize("reasoning", OFF)
    def test_disabled_by_an_empty_reasoning_block(self, build: Build, reasoning: Reasoning) -> None:
        assert build(OPENS, reasoning=reasoning) == "user:Hi;<think>\n\n</think>\n\n"

    def test_disabled_when_the_model_opens_reasoning_itself(self, build: Build) -> None:
        source = "{# <think> </think> #}" + MESSAGES + "bot:"
        off = Reasoning(enabled=False)
        assert build(source, reasoning=off) == "user:Hi;bot:<think>\n\n</think>\n\n"
        assert build(MESSAGES, reasoning=off) == "user:Hi;"

    def test_disabled_when_reasoning_is_a_separate_message(self, build: Build) -> None:
        source = "{# <|channel|>analysis<|message|> #}{{ messages[0].content }}<|end|>"
        text = build(source + "<|start|>assistant", reasoning=Reasoning(enabled=False))
        assert text == (
            "Hi<|end|><|start|>assistant<|channel|>analysis<|message|>\n\n<|end|><|start|>assistant"
        )

    def test_disabled_when_the_template_closes_reasoning(self, build: Build) -> None:
        source = MESSAGES + "<think>{{ '' if enable_thinking else '</think>' }}"
        assert build(source, reasoning=Reasoning(enabled=False)) == "user:Hi;<think></think>"
        assert build(source, reasoning=Reasoning(enabled=True)) == "user:Hi;<think>"

    def test_unspecified_reasoning_is_left_to_the_template(self, build: Build) -> None:
        assert build(OPENS) == "user:Hi;<think>\n"
        assert build(SWITCHES) == "user:Hi;"

    def test_reasoning_effort_is_mapped_to_known_values(self, build: Build) -> None:
        source = MESSAGES + "{{ reasoning_effort | default('-') }}"
        assert build(source) == "user:Hi;-"
        assert build(source, reasoning=Reasoning(effort="high")) == "user:Hi;high"
        assert build(source, reasoning=Reasoning(effort="minimal")) == "user:Hi;low"
        assert build(source, reasoning=Reasoning(enabled=False)) == "user:Hi;low"
        strict = "{% if reasoning_effort not in ['low', 'high'] %}{{ 1 / 0 }}{% endif %}" + source
        assert build(strict, reasoning=Reasoning(effort="max")) == "user:Hi;high"

    def test_thinking_budget_is_passed_to_the_template(self, build: Build) -> None:
        source = MESSAGES + "{{ thinking_budget | default(-1) }}"
        assert build(source, reasoning=Reasoning(budget=77)) == "user:Hi;77"
        assert build(source, reasoning=Reasoning(enabled=False)) == "user:Hi;0"
        assert build(source) == "user:Hi;-1"


class TestContinuing:
    def test_continues_the_last_assistant_message(self, build: Build) -> None:
        messages = [HI, ChatMessage("assistant", "It is")]
        assert build(OPENS, messages, continues=True) == "user:Hi;assistant:It is"
        assert build(OPENS, messages, continues=False) == "user:Hi;assistant:It is;<think>\n"

    def test_only_assistant_text_can_be_continued(self, build: Build) -> None:
        assert build(OPENS, [HI], continues=True) == "user:Hi;<think>\n"
        call = ChatMessage("assistant", "", tool_calls=[ToolCall("a", "f", "{}")])
        assert build(OPENS, [HI, call], continues=True).endswith("<think>\n")

    def test_reasoning_can_be_continued(self, build: Build) -> None:
        messages = [HI, ChatMessage("assistant", "", reasoning="First, I")]
        renders_reasoning = (
            "{% for m in messages %}{{ m.role }}:"
            "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
            "{{ m.content }};{% endfor %}"
        )
        assert (
            build(renders_reasoning, messages, continues=True)
            == "user:Hi;assistant:<think>First, I"
        )
        assert build(OPENS, messages, continues=True) == "user:Hi;<think>\nFirst, I"
        drops_reasoning = "{# <think> </think> #}" + MESSAGES
        assert build(drops_reasoning, messages, continues=True) == "user:Hi;<think>\nFirst, I"


class TestBounds:
    def test_token_id_prompt_is_used_unchanged(self) -> None:
        prompts = PromptBuilder(ByteTokenizer(), None, context=64)
        assert prompts.build(GenerateRequest(id="a", prompt=[1, 2])).token_ids == [1, 2]

    def test_control_tokens_are_parsed_in_a_raw_prompt(self) -> None:
        prompts = PromptBuilder(ByteTokenizer(), None, context=64)
        request = GenerateRequest(id="a", prompt="<|begin|>")
        assert prompts.build(request).token_ids == [BOS, BOS]

    def test_far_too_long_text_is_rejected_without_tokenizing(self) -> None:
        prompts = PromptBuilder(ByteTokenizer(), None, context=64)
        with pytest.raises(ContextExceeded) as caught:
            prompts.build(GenerateRequest(id="a", prompt="x" * 2**21))
        assert not caught.value.exact

    def test_far_too_long_message_is_rejected_without_rendering(
        self, make_template: Callable[..., ChatTemplate]
    ) -> None:
        prompts = PromptBuilder(ByteTokenizer(), make_template("{{ 1 / 0 }}"), context=64)
        with pytest.raises(ContextExceeded) as caught:
            prompts.build(GenerateRequest(id="a", messages=[ChatMessage("user", "x" * 2**21)]))
        assert not caught.value.exact

    def test_messages_require_a_chat_template(self) -> None:
        prompts = PromptBuilder(ByteTokenizer(), None, context=64)
        with pytest.raises(RequestRejected, match="no chat template"):
            prompts.build(GenerateRequest(id="a", messages=[HI]))
