"""The chat templates of llama.cpp's own tests, from the sdist of its Python binding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ingle.backends.base.conversation import ChatMessage, Reasoning, Tool, ToolCall
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.testing.byte_tokenizer import ByteTokenizer
from ingle.backends.text.prompts.prompt_builder import PromptBuilder
from ingle.backends.text.templates.chat_template import ChatTemplate
from ingle.backends.text.templates.reasoning_tags import detect_reasoning_tags
from ingle.backends.text.templates.template_renderer import RenderLimits
from ingle.backends.text.templates.tool_messages import tool_instructions

CONVERSATION = [
    ChatMessage("system", "SYS"),
    ChatMessage("user", "U1"),
    ChatMessage("assistant", "A1"),
    ChatMessage("user", "U2"),
]
TOOLS = [
    Tool("look_up", "Tlook.", '{"type":"object","properties":{"place":{"type":"string"}}}'),
    Tool("note", "Tnote.", '{"properties":{"words":{"type":"string"}},"required":[]}'),
]
CALLS = [
    ToolCall("toolu_01", "look_up", '{"place":"Pla"}'),
    ToolCall("toolu_02", "note", '{"words":"Wor"}'),
]
TOOL_CONVERSATION = [
    *CONVERSATION,
    ChatMessage("assistant", "", tool_calls=CALLS, reasoning="R1"),
    ChatMessage("tool", "Res1", tool_call_id="toolu_01"),
    ChatMessage("tool", "Res2", tool_call_id="toolu_02"),
]
NEXT = ChatMessage("user", "U3")
EXPECTED_PARTS = [
    "SYS",
    "U1",
    "A1",
    "U2",
    "look_up",
    "note",
    "place",
    "words",
    "Pla",
    "Wor",
    "Res1",
    "Res2",
]
# Templates without tool support, or without support for what a request can contain.
TOOLS_AS_TEXT = {
    "CohereForAI-c4ai-command-r-plus-tool_use",
    "HuggingFaceTB-SmolLM3-3B",
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
    "deepseek-ai-DeepSeek-V3.1",
    "google-gemma-2-2b-it",
    "llama-cpp-rwkv-world",
    "microsoft-Phi-3.5-mini-instruct",
}
EXPECTED = {
    "Qwen-Qwen2.5-7B-Instruct": (
        "<|im_start|>system\nSYS<|im_end|>\n<|im_start|>user\nU1<|im_end|>\n"
        "<|im_start|>assistant\nA1<|im_end|>\n<|im_start|>user\nU2<|im_end|>\n"
        "<|im_start|>assistant\n"
    ),
    "google-gemma-2-2b-it": (
        "<s><start_of_turn>user\nSYS\n\nU1<end_of_turn>\n<start_of_turn>model\nA1<end_of_turn>\n"
        "<start_of_turn>user\nU2<end_of_turn>\n<start_of_turn>model\n"
    ),
    "microsoft-Phi-3.5-mini-instruct": (
        "<|system|>\nSYS<|end|>\n<|user|>\nU1<|end|>\n<|assistant|>\nA1<|end|>\n"
        "<|user|>\nU2<|end|>\n<|assistant|>\n"
    ),
    "mistralai-Mistral-Nemo-Instruct-2407": "<s>[INST]U1[/INST]A1</s>[INST]SYS\n\nU2[/INST]",
    "meta-llama-Llama-3.1-8B-Instruct": (
        "<s><|start_header_id|>system<|end_header_id|>\n\n"
        "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\nSYS<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nU1<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nA1<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nU2<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    ),
}

MakeTemplate = Callable[..., ChatTemplate]
pytestmark = pytest.mark.slow


def test_every_template_renders_a_conversation(make_template: MakeTemplate, sources: Path) -> None:
    rendered = 0
    for path in sorted(sources.glob("*.jinja")):
        template = make_template(path.read_text("utf-8"), limits=RenderLimits())
        text = template.render(CONVERSATION)
        assert all(message.content in text for message in CONVERSATION), path.stem
        template.close()
        rendered += 1
    assert rendered >= 60


@pytest.mark.parametrize(
    "end", [[], [NEXT], [ChatMessage("assistant", "A3"), NEXT]], ids=["result", "user", "answer"]
)
def test_every_prompt_contains_tools_calls_and_results(
    make_template: MakeTemplate, sources: Path, end: list[ChatMessage]
) -> None:
    as_text: set[str] = set()
    for path in sorted(sources.glob("*.jinja")):
        template = make_template(path.read_text("utf-8"), limits=RenderLimits())
        text = template.render([*TOOL_CONVERSATION, *end], TOOLS)
        assert [messages for messages in EXPECTED_PARTS if messages not in text] == [], path.stem
        assert all(message.content in text for message in end), path.stem
        if tool_instructions(TOOLS) in text:
            as_text.add(path.stem)
        template.close()
    assert as_text == TOOLS_AS_TEXT


def test_system_messages_anywhere_and_disabled_reasoning(
    make_template: MakeTemplate, sources: Path
) -> None:
    later = ChatMessage("system", "SYS2")
    for path in sorted(sources.glob("*.jinja")):
        template = make_template(path.read_text("utf-8"), limits=RenderLimits())
        for messages in (
            [*CONVERSATION[:3], later, CONVERSATION[3]],
            [CONVERSATION[0], later, *CONVERSATION[1:]],
            [*CONVERSATION, later],
            CONVERSATION[2:],
        ):
            text = template.render(messages)
            assert all(message.content in text for message in messages), path.stem
        tags = detect_reasoning_tags(template.source, ByteTokenizer())
        if tags is not None:
            prompts = PromptBuilder(ByteTokenizer(), template, context=100_000)
            off = Reasoning(enabled=False)
            request = GenerateRequest(id="r", messages=CONVERSATION, reasoning=off)
            assert not tags.left_open(prompts.build(request).text), path.stem
        template.close()


def test_every_template_can_continue_an_answer(make_template: MakeTemplate, sources: Path) -> None:
    messages = [ChatMessage("user", "U1"), ChatMessage("assistant", "Once upon ")]
    for path in sorted(sources.glob("*.jinja")):
        template = make_template(path.read_text("utf-8"), limits=RenderLimits())
        text = template.render(messages, continues=True)
        assert text.endswith("Once upon "), path.stem
        assert text.count("Once upon") == 1, path.stem
        template.close()


@pytest.mark.parametrize("name", EXPECTED)
def test_exact_prompts(make_template: MakeTemplate, sources: Path, name: str) -> None:
    template = make_template((sources / f"{name}.jinja").read_text("utf-8"))
    assert template.render(CONVERSATION) == EXPECTED[name]
