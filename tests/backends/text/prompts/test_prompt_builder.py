from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ingle.backends.base.conversation import ChatMessage, Reasoning, Tool, ToolCall, ToolChoice
from ingle.backends.base.errors import ContextExceeded, RequestRejected
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.testing.byte_tokenizer import BOS, ByteTokenizer
from ingle.backends.text.prompts.prompt_builder import PromptBuilder
from ingle.backends.text.templates.chat_template import ChatTemplate

Build = Callable[..., str]

HI = ChatMessage("user", "Hi")
MESSAGES = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}"
OPENS = MESSAGES + "{% if add_generation_prompt %}<think>\n{% endif %}"
SWITCHES = MESSAGES + "{% if enable_thinking is defined and not enable_thinking %}off{% endif %}"


@pytest.fixture
def build(make_template: Callable[..., ChatTemplate]) -> Build:
    """The text of the prompt of a request with these fields."""

    def build(source: str, messages: Sequence[ChatMessage] = (HI,), **fields: Any) -> str:
        prompts = PromptBuilder(ByteTokenizer(), make_template(source), context=4096)
        request = GenerateRequest(id="a", messages=list(messages), **fields)
        return prompts.build(request).text

    return build


def test_tools_are_shown_unless_they_must_not_be_called(build: Build) -> None:
    source = "{% for t in tools or [] %}{{ t.function | tojson }};{% endfor %}" + MESSAGES
    tools = [Tool("look_up", "Finds.")]
    assert "look_up" in build(source, tools=tools)
    assert "look_up" in build(source, tools=tools, tool_choice=ToolChoice("required"))
    assert build(source, tools=tools, tool_choice=ToolChoice("none")) == "user:Hi;"


class TestTemplateVariables:
    def test_they_reach_the_template(self, build: Build) -> None:
        assert build(SWITCHES, template_variables={"enable_thinking": False}) == "user:Hi;off"

    def test_they_go_before_what_follows_from_the_request(self, build: Build) -> None:
        fields = {"template_variables": {"enable_thinking": True}}
        assert build(SWITCHES, reasoning=Reasoning(enabled=False), **fields) == "user:Hi;"

    @pytest.mark.parametrize(
        "name", ["messages", "tools", "continues", "add_generation_prompt", "self", "a b", "_x"]
    )
    def test_those_of_our_own_are_refused(self, build: Build, name: str) -> None:
        with pytest.raises(RequestRejected) as caught:
            build(SWITCHES, template_variables={name: 1})
        assert caught.value.param == "chat_template_kwargs"

    @pytest.mark.parametrize("value", [10**30, "\ud800"])
    def test_values_that_cannot_be_told_are_refused(self, build: Build, value: object) -> None:
        with pytest.raises(RequestRejected):
            build(SWITCHES, template_variables={"enable_thinking": value})


class TestReasoning:
    OFF = (Reasoning(enabled=False), Reasoning(budget=0), Reasoning(effort="none"))

    @pytest.mark.parametrize("reasoning", OFF)
    def test_off_by_the_switch_of_the_template(self, build: Build, reasoning: Reasoning) -> None:
        assert build(SWITCHES, reasoning=reasoning) == "user:Hi;off"

    @pytest.mark.parametrize("reasoning", OFF)
    def test_off_by_an_empty_thought(self, build: Build, reasoning: Reasoning) -> None:
        assert build(OPENS, reasoning=reasoning) == "user:Hi;<think>\n\n</think>\n\n"

    def test_off_where_the_model_would_begin_it_itself(self, build: Build) -> None:
        source = "{# <think> </think> #}" + MESSAGES + "bot:"
        off = Reasoning(enabled=False)
        assert build(source, reasoning=off) == "user:Hi;bot:<think>\n\n</think>\n\n"
        assert build(MESSAGES, reasoning=off) == "user:Hi;"

    def test_off_where_thoughts_are_messages(self, build: Build) -> None:
        source = "{# <|channel|>analysis<|message|> #}{{ messages[0].content }}<|end|>"
        text = build(source + "<|start|>assistant", reasoning=Reasoning(enabled=False))
        assert text == (
            "Hi<|end|><|start|>assistant<|channel|>analysis<|message|>\n\n<|end|><|start|>assistant"
        )

    def test_off_where_the_template_closes_it_itself(self, build: Build) -> None:
        source = MESSAGES + "<think>{{ '' if enable_thinking else '</think>' }}"
        assert build(source, reasoning=Reasoning(enabled=False)) == "user:Hi;<think></think>"
        assert build(source, reasoning=Reasoning(enabled=True)) == "user:Hi;<think>"

    def test_it_is_left_to_the_template_where_nothing_is_said(self, build: Build) -> None:
        assert build(OPENS) == "user:Hi;<think>\n"
        assert build(SWITCHES) == "user:Hi;"

    def test_an_effort(self, build: Build) -> None:
        source = MESSAGES + "{{ reasoning_effort | default('-') }}"
        assert build(source) == "user:Hi;-"
        assert build(source, reasoning=Reasoning(effort="high")) == "user:Hi;high"
        assert build(source, reasoning=Reasoning(effort="minimal")) == "user:Hi;low"
        assert build(source, reasoning=Reasoning(enabled=False)) == "user:Hi;low"
        strict = "{% if reasoning_effort not in ['low', 'high'] %}{{ 1 / 0 }}{% endif %}" + source
        assert build(strict, reasoning=Reasoning(effort="max")) == "user:Hi;high"

    def test_a_budget_that_the_template_knows(self, build: Build) -> None:
        source = MESSAGES + "{{ thinking_budget | default(-1) }}"
        assert build(source, reasoning=Reasoning(budget=77)) == "user:Hi;77"
        assert build(source, reasoning=Reasoning(enabled=False)) == "user:Hi;0"
        assert build(source) == "user:Hi;-1"


class TestContinuing:
    def test_the_answer_goes_on_where_the_last_message_ends(self, build: Build) -> None:
        said = [HI, ChatMessage("assistant", "It is")]
        assert build(OPENS, said, continues=True) == "user:Hi;assistant:It is"
        assert build(OPENS, said, continues=False) == "user:Hi;assistant:It is;<think>\n"

    def test_only_an_answer_can_go_on(self, build: Build) -> None:
        assert build(OPENS, [HI], continues=True) == "user:Hi;<think>\n"
        call = ChatMessage("assistant", "", tool_calls=[ToolCall("a", "f", "{}")])
        assert build(OPENS, [HI, call], continues=True).endswith("<think>\n")

    def test_thoughts_go_on_too(self, build: Build) -> None:
        said = [HI, ChatMessage("assistant", "", reasoning="First, I")]
        knows = (
            "{% for m in messages %}{{ m.role }}:"
            "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
            "{{ m.content }};{% endfor %}"
        )
        assert build(knows, said, continues=True) == "user:Hi;assistant:<think>First, I"
        assert build(OPENS, said, continues=True) == "user:Hi;<think>\nFirst, I"
        forgets = "{# <think> </think> #}" + MESSAGES
        assert build(forgets, said, continues=True) == "user:Hi;<think>\nFirst, I"


class TestBounds:
    def test_a_prompt_of_token_ids_is_taken_as_it_is(self) -> None:
        prompts = PromptBuilder(ByteTokenizer(), None, context=64)
        assert prompts.build(GenerateRequest(id="a", prompt=[1, 2])).token_ids == [1, 2]

    def test_control_tokens_count_in_a_raw_prompt(self) -> None:
        prompts = PromptBuilder(ByteTokenizer(), None, context=64)
        request = GenerateRequest(id="a", prompt="<|begin|>")
        assert prompts.build(request).token_ids == [BOS, BOS]

    def test_a_hopeless_text_is_refused_before_it_is_tokenised(self) -> None:
        prompts = PromptBuilder(ByteTokenizer(), None, context=64)
        with pytest.raises(ContextExceeded) as caught:
            prompts.build(GenerateRequest(id="a", prompt="x" * 2**21))
        assert not caught.value.exact

    def test_without_a_template_there_are_no_conversations(self) -> None:
        prompts = PromptBuilder(ByteTokenizer(), None, context=64)
        with pytest.raises(RequestRejected, match="no chat template"):
            prompts.build(GenerateRequest(id="a", messages=[HI]))
