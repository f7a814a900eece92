"""Request parts: every text of a request is inspected, and can be replaced."""

from __future__ import annotations

import secrets

import msgspec
import pytest

from ingle.backends.base.conversation import (
    ChatMessage,
    Infill,
    InfillFile,
    Picture,
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

NOT_SENT = ("id", "client", "conversation", "shown_tools")
"""Fields that only this machine reads, and are not sent to a provider."""


def canary() -> str:
    return f"canary-{secrets.token_hex(4)}"


def chat() -> GenerateRequest:
    """A request with a canary in every text field."""
    return GenerateRequest(
        id="r",
        messages=[
            ChatMessage("system", canary()),
            ChatMessage(canary(), canary(), name=canary()),
            ChatMessage(
                "assistant",
                canary(),
                reasoning=canary(),
                tool_calls=[ToolCall(canary(), canary(), canary())],
            ),
            ChatMessage("tool", canary(), tool_call_id=canary(), name=canary()),
        ],
        tools=[Tool(canary(), canary(), canary())],
        tool_choice=ToolChoice("required", [canary()]),
        reasoning=Reasoning(effort=canary()),
        template_variables={canary(): {canary(): [canary(), 7, True, None]}},
        stop=[canary()],
        grammar=Grammar(GrammarKind.REGEX, canary()),
        sampling=SamplingParams(dry_sequence_breakers=(canary(),)),
    )


def infill() -> GenerateRequest:
    files = [InfillFile(canary(), canary()), InfillFile(canary(), canary())]
    return GenerateRequest(id="r", infill=Infill(canary(), canary(), canary(), files))


@pytest.mark.parametrize("request_", [chat(), infill(), GenerateRequest(id="r", prompt=canary())])
def test_parts_contain_all_text_of_a_request(request_: GenerateRequest) -> None:
    """Every canary in the encoded request is also in its parts."""
    encoded = msgspec.json.encode(msgspec.structs.replace(request_, id="", client=""))
    texts = [part.text for part in parts_of(request_)]
    assert encoded.count(b"canary-") == sum(text.count("canary-") for text in texts)
    changed = with_texts(request_, ["x" for _ in texts])
    assert b"canary-" not in msgspec.json.encode(changed)
    assert with_texts(request_, texts) == request_
    wheres = [part.where for part in parts_of(request_)]
    assert len(set(wheres)) == len(wheres)


def test_every_request_field_is_classified() -> None:
    """A new field of requests must be added to the parts, or listed here."""
    fields = {field.name for field in msgspec.structs.fields(GenerateRequest)}
    inspected = {
        "messages", "prompt", "pictures", "infill", "tools", "tool_choice", "reasoning",
        "template_variables", "sampling", "stop", "grammar",
    }  # fmt: skip
    no_text = {
        "parallel_tool_calls", "continues", "raw", "max_tokens", "max_context", "max_seconds", "n",
        "ignore_eos", "stop_token_ids", "private", "speculation", "priority", "logprobs",
        "prompt_logprobs", "answer_space", "adapter", "reports_progress",
    }  # fmt: skip
    assert fields == inspected | no_text | set(NOT_SENT)


def test_numbers_in_template_variables_are_parts() -> None:
    request = GenerateRequest(id="r", prompt="x", template_variables={"a": [4539578763621486]})
    assert "4539578763621486" in [part.text for part in parts_of(request)]


def test_token_ids_are_opaque() -> None:
    assert opaque_part(GenerateRequest(id="r", prompt=[1, 2])) == "prompt"
    biased = SamplingParams(logit_bias={5: 1.0})
    assert opaque_part(GenerateRequest(id="r", prompt="x", sampling=biased)) is not None
    shown = GenerateRequest(id="r", prompt="x", pictures=[Picture(data=b"x")])
    assert opaque_part(shown) == "pictures"
    assert opaque_part(GenerateRequest(id="r", prompt="x")) is None


def test_digest_depends_on_part_boundaries() -> None:
    def digest(*texts: str) -> bytes:
        messages = [ChatMessage("user", text) for text in texts]
        return parts_digest(parts_of(GenerateRequest(id="r", messages=messages)))

    assert len({digest("ab", "c"), digest("a", "bc"), digest("abc"), digest("\ud800")}) == 4
    assert digest("ab", "c") == digest("ab", "c")


def test_only_what_a_person_wrote_is_read_as_prose() -> None:
    request = GenerateRequest(
        id="r",
        messages=[
            ChatMessage("system", "You are an agent."),
            ChatMessage("user", "Hello."),
            ChatMessage(
                "assistant", "Hi.", reasoning="Hm.", tool_calls=[ToolCall("ls", "{}", "1")]
            ),
            ChatMessage("tool", "a.txt"),
        ],
        tools=[Tool("ls", "Lists a folder.", "{}")],
        stop=["END"],
    )
    prose = {part.where for part in parts_of(request) if part.prose}
    assert prose == {"messages[1].content", "messages[3].content"}


def test_instructions_without_tools_are_prose_unless_they_are_as_long_as_an_agents() -> None:
    for text, prose in (("I live alone. " * 5, True), ("You are an agent. " * 200, False)):
        (part,) = parts_of(GenerateRequest(id="r", messages=[ChatMessage("system", text)]))
        assert part.prose is prose
    infill = GenerateRequest(id="r", prompt="My", infill=Infill("a", "b"))
    assert all(part.prose for part in parts_of(infill))
