"""The answers that llama.cpp tests its parsers with mean the same to ours."""

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

# What is not the same, by the template and a piece of the answer, and why.
OTHERWISE = {
    "deepseek-ai-DeepSeek-V4": ("Let me check the time\n\n<", "no tools: it is all a thought"),
    "inclusionai-ling-3.0-flash": ("<|role_end|>", "ends an answer, and is no text"),
    "muse-glimmer": ("<|eot|>", "ends an answer, and is no text"),
    "CohereForAI-c4ai-command-r-plus-tool_use": ("<|CHATBOT_TOKEN|>", "is part of the prompt"),
    "Apriel-1.6-15b-Thinker-fixed": ("I'm\nthinking", "the prompt's words are no thought of it"),
    "openai-gpt-oss-120b": ("I will execute python", "tools nobody offered: text is not dropped"),
    "MiniMax-M3": ("Union string", "an object where the schema has one"),
}


def test_every_vector(make_template: MakeTemplate, sources: Path, read_all: ReadAll) -> None:
    vectors = list(read_vectors((sources / "test-chat.cpp").read_text("utf-8")))
    wrong: list[tuple[str, int, Answer]] = []
    prompts: dict[tuple[str, bool, bool], str] = {}
    for vector in vectors:
        source = (sources / f"{vector.template}.jinja").read_text("utf-8")
        kind = vector.template, vector.thinks, bool(vector.tools)
        if kind not in prompts:
            template = make_template(source)
            user = [ChatMessage("user", "x")]
            prompts[kind] = template.render(user, vector.tools, enable_thinking=vector.thinks)
            template.close()
        found = answer_of(read_all, source, prompts[kind], vector)
        if not same(found, vector) and not known(vector):
            wrong.append((vector.template, vector.line, found))
    assert wrong == []
    assert len(vectors) > 250


def answer_of(read_all: ReadAll, source: str, prompt: str, vector: Vector) -> Answer:
    request = GenerateRequest(id="r", messages=[ChatMessage("user", "x")], tools=vector.tools)
    form = AnswerFormats(ByteTokenizer(), source).of(request, prompt)
    if form.new_parser is None:
        return Answer(vector.answer, "", [], [])
    return read_all(form.new_parser, vector.answer)


def same(found: Answer, vector: Vector) -> bool:
    calls = [(name, json.loads(arguments)) for name, arguments in vector.calls]
    said = (found.text.strip(), found.thought.strip())
    return found.calls == calls and said == (vector.text.strip(), vector.thought.strip())


def known(vector: Vector) -> bool:
    piece, _ = OTHERWISE.get(vector.template, ("", ""))
    return bool(piece) and piece in vector.answer
