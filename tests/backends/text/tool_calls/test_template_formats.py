"""Call formats detected from llama.cpp's test templates, and round trips of calls through them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ingle.backends.base.conversation import ChatMessage, Tool, ToolCall
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.testing.byte_tokenizer import ByteTokenizer
from ingle.backends.text.answers.answer_format import AnswerFormats
from ingle.backends.text.templates.chat_template import ChatTemplate
from ingle.backends.text.templates.reasoning_tags import detect_reasoning_tags
from ingle.backends.text.templates.template_renderer import RenderLimits
from ingle.backends.text.tool_calls.format_detection import detect_call_format

from .conftest import ReadAll, parameters

MakeTemplate = Callable[..., ChatTemplate]
pytestmark = pytest.mark.slow

EXPECTED_FORMATS = {
    "Apertus-8B-Instruct": "apertus",
    "Apriel-1.6-15b-Thinker-fixed": "apriel",
    "Bielik-11B-v3.0-Instruct": "hermes",
    "ByteDance-Seed-OSS": "seed",
    "Cohere2MoE": "cohere-moe",
    "CohereForAI-c4ai-command-r-plus-tool_use": "command-r-plus",
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": "command-r7b",
    "GLM-4.6": "glm-lines",
    "GLM-4.7-Flash": "glm",
    "GigaChat3-10B-A1.8B": "gigachat-3",
    "GigaChat3.1-10B-A1.8B": "gigachat-3.1",
    "HuggingFaceTB-SmolLM3-3B": "generic",
    "Kimi-K2-Instruct": "kimi-k2",
    "Kimi-K2-Thinking": "kimi-k2",
    "Kimi-K3": "kimi-k3",
    "LFM2-8B-A1B": "lfm-2",
    "LFM2.5-8B-A1B": "lfm-2",
    "LFM2.5-Instruct": "lfm-2",
    "MiMo-VL": "hermes",
    "MiniMax-M1": "minimax-m1",
    "MiniMax-M2": "minimax-m2",
    "MiniMax-M3": "minimax-m3",
    "Mistral-Small-3.2-24B-Instruct-2506": "mistral",
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "qwen-tags",
    "NVIDIA-Nemotron-Nano-v2": "nemotron",
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": "hermes",
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": "hermes",
    "Qwen-QwQ-32B": "hermes",
    "Qwen-Qwen2.5-7B-Instruct": "hermes",
    "Qwen-Qwen3-0.6B": "hermes",
    "Qwen3-Coder": "qwen-tags",
    "Qwen3.5-4B": "qwen-tags",
    "Reka-Edge": "hermes",
    "Spark2.5": "glm",
    "StepFun3.5-Flash": "qwen-tags",
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": "deepseek-r1",
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": "deepseek-r1",
    "deepseek-ai-DeepSeek-V3.1": "deepseek-v3.1",
    "deepseek-ai-DeepSeek-V3.2": "deepseek-v3.2",
    "deepseek-ai-DeepSeek-V4-Flash-0731": "deepseek-v4",
    "deepseek-ai-DeepSeek-V4": "deepseek-v4",
    "fireworks-ai-llama-3-firefunction-v2": "firefunction",
    "google-gemma-2-2b-it": "generic",
    "google-gemma-4-31B-it-interleaved": "gemma-4",
    "google-gemma-4-31B-it": "gemma-4",
    "ibm-granite-granite-3.3-2B-Instruct": "granite-3",
    "ibm-granite-granite-4.0": "hermes",
    "ibm-granite-granite-4.1": "hermes",
    "inclusionai-ling-3.0-flash": "glm-lines",
    "llama-cpp-deepseek-r1": "deepseek-r1",
    "llama-cpp-rwkv-world": "generic",
    "meetkai-functionary-medium-v3.1": "functionary-3.1",
    "meetkai-functionary-medium-v3.2": "functionary-3.2",
    "meta-llama-Llama-3.1-8B-Instruct": "llama-3",
    "meta-llama-Llama-3.2-3B-Instruct": "llama-3",
    "meta-llama-Llama-3.3-70B-Instruct": "llama-3",
    "microsoft-Phi-3.5-mini-instruct": "generic",
    "mistralai-Ministral-3-14B-Reasoning-2512": "mistral-args",
    "mistralai-Mistral-Nemo-Instruct-2407": "mistral-array",
    "moonshotai-Kimi-K2": "kimi-k2",
    "muse-glimmer": "muse",
    "openai-gpt-oss-120b": "harmony",
    "openbmb-MiniCPM5-1B": "minicpm-5",
    "poolside-Laguna-S-2.1": "glm",
    "poolside-Laguna-XS-2.1": "glm-lines",
    "poolside-Laguna-XS.2": "glm-lines",
    "tencent-Hy3": "hunyuan-3",
    "unsloth-Apriel-1.5": "apriel",
    "unsloth-mistral-Devstral-Small-2507": "mistral-args",
    "upstage-Solar-Open-100B": "solar",
}
WITHOUT_REASONING = {
    "CohereForAI-c4ai-command-r-plus-tool_use",
    "GigaChat3-10B-A1.8B",
    "GigaChat3.1-10B-A1.8B",
    "Kimi-K2-Instruct",
    "LFM2-8B-A1B",
    "MiMo-VL",
    "MiniMax-M1",
    "Mistral-Small-3.2-24B-Instruct-2506",
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use",
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use",
    "Qwen-Qwen2.5-7B-Instruct",
    "Qwen3-Coder",
    "fireworks-ai-llama-3-firefunction-v2",
    "google-gemma-2-2b-it",
    "ibm-granite-granite-4.0",
    "ibm-granite-granite-4.1",
    "meetkai-functionary-medium-v3.1",
    "meetkai-functionary-medium-v3.2",
    "meta-llama-Llama-3.1-8B-Instruct",
    "meta-llama-Llama-3.2-3B-Instruct",
    "meta-llama-Llama-3.3-70B-Instruct",
    "microsoft-Phi-3.5-mini-instruct",
    "mistralai-Mistral-Nemo-Instruct-2407",
    "moonshotai-Kimi-K2",
    "unsloth-mistral-Devstral-Small-2507",
}
# The prompts of this template end before the token that begins an answer.
INCOMPLETE = {"CohereForAI-c4ai-command-r-plus-tool_use"}
ONE_BY_ONE = {
    "GigaChat3-10B-A1.8B",
    "GigaChat3.1-10B-A1.8B",
    "meta-llama-Llama-3.1-8B-Instruct",
    "meta-llama-Llama-3.2-3B-Instruct",
    "meta-llama-Llama-3.3-70B-Instruct",
    "openai-gpt-oss-120b",
}
TOOLS = [
    Tool(
        "write_file",
        "Writes a file.",
        parameters(path="string", text="string", mode="integer", backup="boolean"),
    ),
    Tool("list_files", "Lists files.", parameters(path="string")),
]
USER = ChatMessage("user", "U1")
WRITE = {"path": "a/b.py", "text": 'x = "<a>"\n\tif y:\n    z', "mode": 420, "backup": True}
LIST = {"path": "42"}
CALLS = [
    ToolCall(
        "abcdefgh1",
        "write_file",
        '{"path": "a/b.py", "text": '
        '"x = \\"<a>\\"\\n\\tif y:\\n    z", "mode": 420, "backup": true}',
    ),
    ToolCall("abcdefgh2", "list_files", '{"path": "42"}'),
]


def expected_answer(template: ChatTemplate, calls: list[ToolCall]) -> tuple[str, str]:
    """The end of the prompt, and the answer that would make these calls."""
    prompt = template.render([USER], TOOLS)
    call_message = ChatMessage("assistant", "", reasoning="", tool_calls=calls)
    results = [ChatMessage("tool", f"RESULT{i}", tool_call_id=c.id) for i, c in enumerate(calls)]
    complete = template.render([USER, call_message, *results], TOOLS)
    pairs = zip(prompt, complete, strict=False)
    common = next((index for index, (a, b) in enumerate(pairs) if a != b), len(prompt))
    if common < len(prompt) and prompt.rfind("<", 0, common) > prompt.rfind(">", 0, common):
        common = prompt.rfind("<", 0, common)  # not in the middle of a tag
    return prompt[:common], complete[common : complete.index("RESULT0")]


def test_format_of_every_template_is_detected(sources: Path) -> None:
    templates = {path.stem: path.read_text("utf-8") for path in sources.glob("*.jinja")}
    tokenizer = ByteTokenizer()
    detected = {
        name: detect_call_format(source, tokenizer).name for name, source in templates.items()
    }
    assert detected == EXPECTED_FORMATS
    without_tags = {
        name for name, source in templates.items() if not detect_reasoning_tags(source, tokenizer)
    }
    assert without_tags == WITHOUT_REASONING


@pytest.mark.parametrize("name", sorted(EXPECTED_FORMATS.keys() - INCOMPLETE))
@pytest.mark.parametrize("count", [1, 2])
def test_calls_rendered_by_a_template_are_parsed_back(
    make_template: MakeTemplate, sources: Path, read_all: ReadAll, name: str, count: int
) -> None:
    source = (sources / f"{name}.jinja").read_text("utf-8")
    template = make_template(source, limits=RenderLimits(seconds=30))
    tail, answer = expected_answer(template, CALLS[:count])
    request = GenerateRequest(id="r", messages=[USER], tools=TOOLS)
    form = AnswerFormats(ByteTokenizer(), source).of(request, tail)
    assert form.new_parser is not None
    found = read_all(form.new_parser, answer)
    call_count = count if name not in ONE_BY_ONE else 1
    expected = [("write_file", WRITE), ("list_files", LIST)][:call_count]
    assert found.calls == expected, answer
