"""Parsers agree with the test vectors of llama.cpp."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ingle.backends.base.conversation import ChatMessage
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.testing.byte_tokenizer import ByteTokenizer
from ingle.backends.text.answers.answer_format import AnswerFormats
from ingle.backends.text.templates.chat_template import ChatTemplate

from .conftest import Answer, ReadAll
from .llama_vectors import Vector, read_vectors

MakeTemplate = Callable[..., ChatTemplate]
pytestmark = pytest.mark.slow

# Known differences: the template, a piece of the answer, and the reason.
KNOWN_DIFFERENCES = {
    "deepseek-ai-DeepSeek-V4": ("Let me check the time\n\n<", "no tools: it is all a thought"),
    "inclusionai-ling-3.0-flash": ("<|role_end|>", "ends an answer, and is no text"),
    "muse-glimmer": ("<|eot|>", "ends an answer, and is no text"),
    "CohereForAI-c4ai-command-r-plus-tool_use": ("<|CHATBOT_TOKEN|>", "is part of the prompt"),
    "Apriel-1.6-15b-Thinker-fixed": ("I'm\nthinking", "the prompt's words are no thought of it"),
    "openai-gpt-oss-120b": ("I will execute python", "tools nobody offered: text is not dropped"),
    "MiniMax-M3": ("Union string", "an object where the schema has one"),
}


def test_parsers_agree_with_llama_cpp_vectors(
    make_template: MakeTemplate, sources: Path, read_all: ReadAll
) -> None:
    vectors = list(read_vectors((sources / "test-chat.cpp").read_text("utf-8")))
    mismatches: list[tuple[str, int, Answer]] = []
    prompts: dict[tuple[str, bool, bool], str] = {}
    for vector in vectors:
        source = (sources / f"{vector.template}.jinja").read_text("utf-8")
        kind = vector.template, vector.enables_thinking, bool(vector.tools)
        if kind not in prompts:
            template = make_template(source)
            user = [ChatMessage("user", "x")]
            prompts[kind] = template.render(
                user, vector.tools, enable_thinking=vector.enables_thinking
            )
            template.close()
        found = answer_of(read_all, source, prompts[kind], vector)
        if not matches(found, vector) and not is_known_difference(vector):
            mismatches.append((vector.template, vector.line, found))
    assert mismatches == []
    assert len(vectors) > 250


def answer_of(read_all: ReadAll, source: str, prompt: str, vector: Vector) -> Answer:
    request = GenerateRequest(id="r", messages=[ChatMessage("user", "x")], tools=vector.tools)
    form = AnswerFormats(ByteTokenizer(), source).of(request, prompt)
    if form.new_parser is None:
        return Answer(vector.answer, "", [], [])
    return read_all(form.new_parser, vector.answer)


def matches(found: Answer, vector: Vector) -> bool:
    calls = [(name, json.loads(arguments)) for name, arguments in vector.calls]
    texts = (found.text.strip(), found.reasoning.strip())
    return found.calls == calls and texts == (vector.text.strip(), vector.reasoning.strip())


def is_known_difference(vector: Vector) -> bool:
    piece, _ = KNOWN_DIFFERENCES.get(vector.template, ("", ""))
    return bool(piece) and piece in vector.answer
