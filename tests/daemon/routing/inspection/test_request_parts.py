"""Everything that a request says is among its parts, and can be replaced there."""

from __future__ import annotations

import secrets

import msgspec
import pytest

from ingle.backends.base.conversation import (
    ChatMessage,
    Infill,
    InfillFile,
    Reasoning,
    Tool,
    ToolCall,
    ToolChoice,
)
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.base.sampling_params import Grammar, GrammarKind, SamplingParams
from ingle.daemon.routing.inspection.request_parts import (
    opaque_part,
    parts_digest,
    parts_of,
    with_texts,
)

NOT_SENT = ("id", "client", "conversation")
"""What names a request here, and is no part of what a provider gets."""


def mark() -> str:
    return f"canary-{secrets.token_hex(4)}"


def chat() -> GenerateRequest:
    """A request with a canary in every text that there is."""
    return GenerateRequest(
        id="r",
        messages=[
            ChatMessage("system", mark()),
            ChatMessage(mark(), mark(), name=mark()),
            ChatMessage(
                "assistant", mark(), reasoning=mark(), tool_calls=[ToolCall(mark(), mark(), mark())]
            ),
            ChatMessage("tool", mark(), tool_call_id=mark(), name=mark()),
        ],
        tools=[Tool(mark(), mark(), mark())],
        tool_choice=ToolChoice("required", [mark()]),
        reasoning=Reasoning(effort=mark()),
        template_variables={mark(): {mark(): [mark(), 7, True, None]}},
        stop=[mark()],
        grammar=Grammar(GrammarKind.REGEX, mark()),
        sampling=SamplingParams(dry_sequence_breakers=(mark(),)),
    )


def infill() -> GenerateRequest:
    files = [InfillFile(mark(), mark()), InfillFile(mark(), mark())]
    return GenerateRequest(id="r", infill=Infill(mark(), mark(), mark(), files))


@pytest.mark.parametrize("request_", [chat(), infill(), GenerateRequest(id="r", prompt=mark())])
def test_no_text_is_left_out(request_: GenerateRequest) -> None:
    """Whatever has a canary in the request's own encoding has one in its parts."""
    encoded = msgspec.json.encode(msgspec.structs.replace(request_, id="", client=""))
    texts = [part.text for part in parts_of(request_)]
    assert encoded.count(b"canary-") == sum(text.count("canary-") for text in texts)
    changed = with_texts(request_, ["x" for _ in texts])
    assert b"canary-" not in msgspec.json.encode(changed)
    assert with_texts(request_, texts) == request_
    wheres = [part.where for part in parts_of(request_)]
    assert len(set(wheres)) == len(wheres)


def test_every_field_with_text_is_known_here() -> None:
    """A field that somebody adds to requests must be added to the parts, or named here."""
    fields = {field.name for field in msgspec.structs.fields(GenerateRequest)}
    looked_at = {
        "messages", "prompt", "infill", "tools", "tool_choice", "reasoning",
        "template_variables", "sampling", "stop", "grammar",
    }  # fmt: skip
    no_text = {
        "parallel_tool_calls", "continues", "raw", "max_tokens", "max_context", "max_seconds", "n",
        "ignore_eos", "private", "speculation", "priority", "logprobs",
    }  # fmt: skip
    assert fields == looked_at | no_text | set(NOT_SENT)


def test_numbers_in_template_variables_are_texts_too() -> None:
    request = GenerateRequest(id="r", prompt="x", template_variables={"a": [4111111111111111]})
    assert "4111111111111111" in [part.text for part in parts_of(request)]


def test_token_ids_are_not_text() -> None:
    assert opaque_part(GenerateRequest(id="r", prompt=[1, 2])) == "prompt"
    biased = SamplingParams(logit_bias={5: 1.0})
    assert opaque_part(GenerateRequest(id="r", prompt="x", sampling=biased)) is not None
    assert opaque_part(GenerateRequest(id="r", prompt="x")) is None


def test_the_digest_tells_places_and_texts_apart() -> None:
    def digest(*texts: str) -> bytes:
        messages = [ChatMessage("user", text) for text in texts]
        return parts_digest(parts_of(GenerateRequest(id="r", messages=messages)))

    assert len({digest("ab", "c"), digest("a", "bc"), digest("abc"), digest("\ud800")}) == 4
    assert digest("ab", "c") == digest("ab", "c")
