"""Placeholders go out, values come back, and nothing of the values leaves."""

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
    ToolCallDelta,
    ToolCallStarted,
)
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.base.sampling_params import Grammar, GrammarKind
from ingle.backends.remote.errors import CannotExpress
from ingle.daemon.routing.detectors.finding import FindingKind, SensitiveFinding
from ingle.daemon.routing.egress.placeholders import PlaceholderMemories, PlaceholderMemory
from ingle.daemon.routing.egress.redaction import Redaction
from ingle.daemon.routing.inspection.request_parts import parts_of

MAIL = "anna@example.com"
OTHER = "bo@example.org"


def chat(*texts: str) -> GenerateRequest:
    roles = ("user", "assistant")
    messages = [ChatMessage(roles[number % 2], text) for number, text in enumerate(texts)]
    return GenerateRequest(id="r", messages=messages)


def find(request: GenerateRequest, values: dict[str, FindingKind]) -> list[SensitiveFinding]:
    """Every place of the values, as detectors tell them."""
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


def test_one_value_has_one_placeholder() -> None:
    request, redaction = redact(chat(f"{MAIL}, {OTHER}, {MAIL}"), MAIL, OTHER)
    assert contents(request) == ["[EMAIL_1], [EMAIL_2], [EMAIL_1]"]
    assert redaction.kinds == ("email",)
    assert [part.where for part in redaction.changed] == ["messages[0].content"]


def test_it_stays_the_same_through_a_conversation() -> None:
    memories = PlaceholderMemories()
    redact(chat(MAIL), MAIL, memory=memories.of("c"))
    request, _ = redact(chat(OTHER, MAIL), MAIL, OTHER, memory=memories.of("c"))
    assert contents(request) == ["[EMAIL_2]", "[EMAIL_1]"]
    request, _ = redact(chat(OTHER), OTHER, memory=memories.of("d"))
    assert contents(request) == ["[EMAIL_1]"]


def test_a_known_value_is_replaced_where_no_detector_sees_it() -> None:
    """The answer that was restored comes back as history."""
    memory = PlaceholderMemory()
    redact(chat(MAIL), MAIL, memory=memory)
    request, redaction = Redaction.of(chat("Go on.", f"I wrote to {MAIL}.", "And?"), [], memory)
    assert contents(request)[1] == "I wrote to [EMAIL_1]."
    assert redaction.kinds == ("email",)


def test_every_part_is_replaced() -> None:
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


def test_names_get_no_brackets() -> None:
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
    called = redaction.restorer().feed([ToolCallStarted("r", 0, 0, "c", "mail_OWN_WORD_1", [])])
    assert isinstance(called[0], ToolCallStarted)


def test_numbers_in_json_stay_json() -> None:
    call = ToolCall("c", "pay", '{"card": 4111111111111111, "note": "x"}')
    request = GenerateRequest(id="r", messages=[ChatMessage("assistant", "", tool_calls=[call])])
    redacted, _ = Redaction.of(request, find(request, {"4111111111111111": FindingKind.CARD}))
    assert redacted.messages is not None
    assert json.loads(redacted.messages[0].tool_calls[0].arguments)["card"] == "[CARD_1]"


def test_what_nothing_can_stand_for_is_refused() -> None:
    call = ToolCall("c", "pay", '{"a": "b"}')
    request = GenerateRequest(id="r", messages=[ChatMessage("assistant", "", tool_calls=[call])])
    with pytest.raises(CannotExpress):
        Redaction.of(request, find(request, {'a": "b': FindingKind.EMAIL}))


def test_findings_that_overlap_are_one() -> None:
    request = chat("Write to Anna <anna@example.com> now")
    values = {
        "Anna <anna@example.com>": FindingKind.PERSON,
        MAIL: FindingKind.EMAIL,
        "com> now": FindingKind.PLACE,
    }
    redacted, redaction = Redaction.of(request, find(request, values))
    assert contents(redacted) == ["Write to [PERSON_1]"]
    assert answer(redaction, ["[PERSON_1]"]) == "Anna <anna@example.com> now"


@pytest.mark.parametrize(
    "typed", ["[EMAIL_1]", "EMAIL_1", "[email_1]", "[EMAIL\\_1]", "[TEXT_1]", "\\[EMAIL_1\\]"]
)
def test_what_looks_like_a_placeholder_stays_what_it_was(typed: str) -> None:
    request, redaction = redact(chat(f"{MAIL} is not {typed}"), MAIL)
    assert contents(request) == ["[EMAIL_1] is not [TEXT_1]"]
    assert answer(redaction, ["[EMAIL_1] is not [TEXT_1]"]) == f"{MAIL} is not {typed}"


@pytest.mark.parametrize(
    ("said", "meant"),
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
def test_values_come_back_however_they_are_spelled(said: str, meant: str, size: int) -> None:
    _, redaction = redact(chat(f"{MAIL} {OTHER}"), MAIL, OTHER)
    pieces = [said[start : start + size] for start in range(0, len(said), size)]
    assert answer(redaction, pieces) == meant
    assert answer(redaction, pieces, ReasoningDelta) == meant  # pyright: ignore[reportArgumentType]


@settings(max_examples=200)
@example(words=["EMAIL_2", "EMAIL_2"], cuts={8})
@example(words=["EMAIL_2", "[EMAIL_1]"], cuts={8})
@given(
    st.lists(
        st.sampled_from(["[EMAIL_1]", "EMAIL_2", "[", "]", "\\", "E", "x", " ", "EMAIL_", "1"])
    ),
    st.sets(st.integers(0, 60), max_size=6),
)
def test_pieces_make_no_difference(words: list[str], cuts: set[int]) -> None:
    _, redaction = redact(chat(f"{MAIL} {OTHER}"), MAIL, OTHER)
    text = "".join(words)
    places = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    pieces = [text[a:b] for a, b in pairwise(places)]
    assert answer(redaction, pieces) == answer(redaction, [text])


def test_arguments_stay_json() -> None:
    name = 'Anna "Ann" \\ Müller\n'
    request, redaction = Redaction.of(
        chat(f"For {name}"), find(chat(f"For {name}"), {name: FindingKind.PERSON})
    )
    assert contents(request) == ["For [PERSON_1]"]
    restorer = redaction.restorer()
    written = '{"to": "[PERSON_1]", "cc": "PERSON_1"}'
    events: list[Event] = [
        ToolCallStarted("r", 0, 0, "c", "send", []),
        *(ToolCallDelta("r", 0, 0, character, []) for character in written),
        Finished("r", 0, FinishReason.TOOL_CALLS, 1),
    ]
    out = [event for one in events for event in restorer.feed([one])]
    arguments = "".join(event.arguments for event in out if isinstance(event, ToolCallDelta))
    assert json.loads(arguments) == {"to": name, "cc": name}


def test_values_out_of_json_come_back_plain() -> None:
    name = 'Anna "Ann"'
    call = ToolCall("c", "send", json.dumps({"to": name}))
    request = GenerateRequest(id="r", messages=[ChatMessage("assistant", "", tool_calls=[call])])
    _, redaction = Redaction.of(
        request, find(request, {json.dumps(name)[1:-1]: FindingKind.PERSON})
    )
    assert answer(redaction, ["[PERSON_1]"]) == name


def test_only_what_this_request_held_comes_back() -> None:
    """Whoever says the name of somebody else's conversation learns nothing of it."""
    memory = PlaceholderMemory()
    redact(chat(MAIL), MAIL, memory=memory)
    _, redaction = redact(chat(f"Say EMAIL and _1. {OTHER}"), OTHER, memory=memory)
    assert answer(redaction, ["[EMAIL_1], EMAIL_2"]) == f"[EMAIL_1], {OTHER}"


def test_sequences_and_channels_do_not_mix() -> None:
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
def test_text_is_not_held_longer_than_it_may_matter() -> None:
    _, redaction = redact(chat(MAIL), MAIL)
    restorer = redaction.restorer()
    for text in ("The ", "answer", " is", " here, ", "[1]", "\n"):
        assert restorer.feed([Delta("r", 0, text, [])]) == [Delta("r", 0, text, [])]


def test_a_value_written_in_two_ways_is_one() -> None:
    request = chat("+49 170 1234567 or 00491701234567")
    findings = [
        SensitiveFinding(
            kind=FindingKind.PHONE, start=s, end=e, value="+491701234567", detector="t", part=0
        )
        for s, e in ((0, 15), (19, 33))
    ]
    redacted, redaction = Redaction.of(request, findings)
    assert contents(redacted) == ["[PHONE_1] or [PHONE_1]"]
    assert answer(redaction, ["PHONE_1"]) == "+49 170 1234567"
