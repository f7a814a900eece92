"""Redaction: placeholders in requests, and the restoring of values in answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ingle.backends.base.conversation import ChatMessage, Tool, ToolCall
from ingle.backends.base.events import (
    Delta,
    Event,
    Finished,
    FinishReason,
    ReasoningDelta,
    Started,
    ToolCallStarted,
)
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.base.sampling_params import Grammar, GrammarKind
from ingle.backends.remote.errors import CannotExpress
from ingle.daemon.routing.detectors.finding import FindingKind, SensitiveFinding
from ingle.daemon.routing.egress.placeholders import PlaceholderMemories, PlaceholderMemory
from ingle.daemon.routing.egress.redaction import Redaction
from ingle.daemon.routing.inspection.request_parts import parts_of

MAIL = "anna@fabrikam.com"
OTHER = "bo@fabrikam.org"


def chat(*texts: str) -> GenerateRequest:
    roles = ("user", "assistant")
    messages = [ChatMessage(roles[number % 2], text) for number, text in enumerate(texts)]
    return GenerateRequest(id="r", messages=messages)


def find(request: GenerateRequest, values: dict[str, FindingKind]) -> list[SensitiveFinding]:
    """Every occurrence of the values, as a detector's findings."""
    return [
        SensitiveFinding(
            kind=kind, start=at, end=at + len(value), value=value, detector="t", part=number
        )
        for number, part in enumerate(parts_of(request))
        for value, kind in values.items()
        for at in range(len(part.text))
        if part.text.startswith(value, at)
    ]


def redact(
    request: GenerateRequest, *values: str, memory: PlaceholderMemory | None = None
) -> tuple[GenerateRequest, Redaction]:
    findings = find(request, dict.fromkeys(values, FindingKind.EMAIL))
    return Redaction.of(request, findings, memory)


def contents(request: GenerateRequest) -> list[str]:
    return [message.content for message in request.messages or []]


def answer(redaction: Redaction, pieces: Sequence[str], piece: type[Delta] = Delta) -> str:
    restorer = redaction.restorer()
    events: list[Event] = [Started("r", 0)]
    events += [piece("r", 0, text, []) for text in pieces]
    events.append(Finished("r", 0, FinishReason.STOP, 1))
    restored = [event for one in events for event in restorer.feed([one])]
    assert isinstance(restored[-1], Finished)
    return "".join(event.text for event in restored if isinstance(event, piece))


def test_equal_values_share_a_placeholder() -> None:
    request, redaction = redact(chat(f"{MAIL}, {OTHER}, {MAIL}"), MAIL, OTHER)
    assert contents(request) == ["[EMAIL_1], [EMAIL_2], [EMAIL_1]"]
    assert redaction.kinds == ("email",)
    assert [part.where for part in redaction.changed] == ["messages[0].content"]


def test_placeholders_are_stable_within_a_conversation() -> None:
    memories = PlaceholderMemories()
    redact(chat(MAIL), MAIL, memory=memories.of("c"))
    request, _ = redact(chat(OTHER, MAIL), MAIL, OTHER, memory=memories.of("c"))
    assert contents(request) == ["[EMAIL_2]", "[EMAIL_1]"]
    request, _ = redact(chat(OTHER), OTHER, memory=memories.of("d"))
    assert contents(request) == ["[EMAIL_1]"]


def test_known_values_are_replaced_without_a_finding() -> None:
    """A restored answer comes back as history."""
    memory = PlaceholderMemory()
    redact(chat(MAIL), MAIL, memory=memory)
    request, redaction = Redaction.of(chat("Go on.", f"I wrote to {MAIL}.", "And?"), [], memory)
    assert contents(request)[1] == "I wrote to [EMAIL_1]."
    assert redaction.kinds == ("email",)


def test_every_part_of_a_request_is_redacted() -> None:
    request = GenerateRequest(
        id="r",
        messages=[
            ChatMessage("system", f"You help {MAIL}."),
            ChatMessage("user", MAIL, name="anna"),
            ChatMessage(
                "assistant",
                "",
                reasoning=f"Ask {MAIL}",
                tool_calls=[ToolCall("c1", "send", json.dumps({"to": MAIL}))],
            ),
            ChatMessage("tool", f"Sent to {MAIL}", tool_call_id="c1"),
        ],
        tools=[Tool("send", f"Sends, e.g. to {MAIL}", json.dumps({"default": MAIL}))],
        stop=[MAIL],
        grammar=Grammar(GrammarKind.JSON_SCHEMA, json.dumps({"const": MAIL})),
    )
    redacted, redaction = redact(request, MAIL)
    assert MAIL.encode() not in msgspec.json.encode(redacted)
    assert json.loads(redacted.tools[0].parameters) == {"default": "[EMAIL_1]"}
    assert len(redaction.changed) == 9


def test_placeholders_in_tool_names_have_no_brackets() -> None:
    request = GenerateRequest(
        id="r",
        messages=[ChatMessage("user", "hi")],
        tools=[Tool("mail_acme", "Writes to acme.")],
    )
    findings = find(request, {"acme": FindingKind.OWN_WORD})
    redacted, redaction = Redaction.of(request, findings)
    assert (redacted.tools[0].name, redacted.tools[0].description) == (
        "mail_OWN_WORD_1",
        "Writes to [OWN_WORD_1].",
    )
    (called,) = redaction.restorer().feed([ToolCallStarted("r", 0, 0, "c", "mail_OWN_WORD_1", [])])
    assert isinstance(called, ToolCallStarted)
    assert called.name == "mail_acme"


def test_redacted_numbers_in_json_stay_valid_json() -> None:
    call = ToolCall("c", "pay", '{"card": 4539578763621486, "note": "x"}')
    request = GenerateRequest(id="r", messages=[ChatMessage("assistant", "", tool_calls=[call])])
    redacted, _ = Redaction.of(request, find(request, {"4539578763621486": FindingKind.CARD}))
    assert redacted.messages is not None
    assert json.loads(redacted.messages[0].tool_calls[0].arguments)["card"] == "[CARD_1]"


def test_finding_across_json_syntax_is_refused() -> None:
    call = ToolCall("c", "pay", '{"a": "b"}')
    request = GenerateRequest(id="r", messages=[ChatMessage("assistant", "", tool_calls=[call])])
    with pytest.raises(CannotExpress):
        Redaction.of(request, find(request, {'a": "b': FindingKind.EMAIL}))


def test_overlapping_findings_have_a_placeholder_each() -> None:
    request = chat("Write to Anna <anna@fabrikam.com> now")
    values = {
        "Anna <anna@fabrikam.com>": FindingKind.PERSON,
        MAIL: FindingKind.EMAIL,
        "com> now": FindingKind.ORGANISATION,
    }
    redacted, redaction = Redaction.of(request, find(request, values))
    assert contents(redacted) == ["Write to [PERSON_1] <[EMAIL_1]> [ORGANISATION_1]"]
    assert answer(redaction, contents(redacted)) == contents(request)[0]


@pytest.mark.parametrize(
    "typed", ["[EMAIL_1]", "EMAIL_1", "[email_1]", "[EMAIL\\_1]", "[TEXT_1]", "\\[EMAIL_1\\]"]
)
def test_text_that_looks_like_a_placeholder_is_restored_unchanged(typed: str) -> None:
    request, redaction = redact(chat(f"{MAIL} is not {typed}"), MAIL)
    assert contents(request) == ["[EMAIL_1] is not [TEXT_1]"]
    assert answer(redaction, ["[EMAIL_1] is not [TEXT_1]"]) == f"{MAIL} is not {typed}"


@pytest.mark.parametrize(
    ("spelled", "expected"),
    [
        ("[EMAIL_1]", MAIL),
        ("EMAIL_1", MAIL),
        ("[email_1]", MAIL),
        ("[Email_1],", f"{MAIL},"),
        ("[EMAIL\\_1]", MAIL),
        ("\\[EMAIL\\_1\\]", MAIL),
        ("**[EMAIL_1]**", f"**{MAIL}**"),
        ("`EMAIL_1`", f"`{MAIL}`"),
        ("(EMAIL_1)", f"({MAIL})"),
        ("[see EMAIL_1]", f"[see {MAIL}]"),
        ("[EMAIL_1 and EMAIL_2]", f"[{MAIL} and {OTHER}]"),
        ("EMAIL_10", "EMAIL_10"),
        ("[EMAIL_3]", "[EMAIL_3]"),
        ("MY_EMAIL_1", "MY_EMAIL_1"),
        ("EMAIL", "EMAIL"),
        ("[EMAIL_", "[EMAIL_"),
        ("E", "E"),
        ("[EMAIL_1][EMAIL_2]", f"{MAIL}{OTHER}"),
        ("a\\b [c] \\", "a\\b [c] \\"),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_all_spellings_of_a_placeholder_are_restored(
    spelled: str, expected: str, size: int
) -> None:
    _, redaction = redact(chat(f"{MAIL} {OTHER}"), MAIL, OTHER)
    pieces = [spelled[start : start + size] for start in range(0, len(spelled), size)]
    assert answer(redaction, pieces) == expected
    assert answer(redaction, pieces, ReasoningDelta) == expected  # pyright: ignore[reportArgumentType]


@settings(max_examples=200)
@example(words=["EMAIL_2", "EMAIL_2"], cuts={8})
@example(words=["EMAIL_2", "[EMAIL_1]"], cuts={8})
@given(
    st.lists(
        st.sampled_from(["[EMAIL_1]", "EMAIL_2", "[", "]", "\\", "E", "x", " ", "EMAIL_", "1"])
    ),
    st.sets(st.integers(0, 60), max_size=6),
)
def test_restoring_does_not_depend_on_chunking(words: list[str], cuts: set[int]) -> None:
    _, redaction = redact(chat(f"{MAIL} {OTHER}"), MAIL, OTHER)
    text = "".join(words)
    places = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    pieces = [text[a:b] for a, b in pairwise(places)]
    assert answer(redaction, pieces) == answer(redaction, [text])


@pytest.mark.parametrize("kind", FindingKind)
def test_placeholder_in_single_characters_is_restored(kind: FindingKind) -> None:
    """The longest name with a number of several digits, and the text before it."""
    values = [f"secret{number:03}" for number in range(120)]
    asked = chat(" ".join(values))
    _, redaction = Redaction.of(asked, find(asked, dict.fromkeys(values, kind)))
    texts = {value.text: name for name, value in redaction.originals.items()}
    for bare in (False, True):
        name = texts["secret119"].strip("[]")
        written = f"See {name} now" if bare else f"See [{name}] now"
        assert answer(redaction, list(written)) == "See secret119 now"


def test_values_redacted_in_json_are_restored_unescaped() -> None:
    name = 'Anna "Ann"'
    call = ToolCall("c", "send", json.dumps({"to": name}))
    request = GenerateRequest(id="r", messages=[ChatMessage("assistant", "", tool_calls=[call])])
    _, redaction = Redaction.of(
        request, find(request, {json.dumps(name)[1:-1]: FindingKind.PERSON})
    )
    assert answer(redaction, ["[PERSON_1]"]) == name


def test_only_placeholders_of_this_request_are_restored() -> None:
    """A placeholder from another part of the conversation reveals nothing."""
    memory = PlaceholderMemory()
    redact(chat(MAIL), MAIL, memory=memory)
    _, redaction = redact(chat(f"Say EMAIL and _1. {OTHER}"), OTHER, memory=memory)
    assert answer(redaction, ["[EMAIL_1], EMAIL_2"]) == f"[EMAIL_1], {OTHER}"


def test_choices_and_reasoning_are_restored_separately() -> None:
    _, redaction = redact(chat(MAIL), MAIL)
    restorer = redaction.restorer()
    events = restorer.feed(
        [
            Delta("r", 0, "[EMA", []),
            Delta("r", 1, "IL_1]", []),
            ReasoningDelta("r", 0, "IL_1]", []),
            Delta("r", 1, "[EMA", []),
            Finished("r", 0, FinishReason.STOP, 1),
            Finished("r", 1, FinishReason.STOP, 1),
        ]
    )
    texts = [event.text for event in events if isinstance(event, Delta | ReasoningDelta)]
    assert texts == ["IL_1]", "[EMA", "IL_1]", "[EMA"]


@pytest.mark.slow
def test_text_that_cannot_be_a_placeholder_is_not_delayed() -> None:
    _, redaction = redact(chat(MAIL), MAIL)
    restorer = redaction.restorer()
    for text in ("The ", "answer", " is", " here, ", "[1]", "\n"):
        assert restorer.feed([Delta("r", 0, text, [])]) == [Delta("r", 0, text, [])]


def test_spellings_of_one_value_share_a_number() -> None:
    request = chat("+49 170 1234567 or 00491701234567")
    findings = [
        SensitiveFinding(
            kind=FindingKind.PHONE, start=s, end=e, value="+491701234567", detector="t", part=0
        )
        for s, e in ((0, 15), (19, 33))
    ]
    redacted, redaction = Redaction.of(request, findings)
    assert contents(redacted) == ["[PHONE_1] or [PHONE_1B]"]
    assert answer(redaction, ["PHONE_1, PHONE_1B"]) == "+49 170 1234567, 00491701234567"
