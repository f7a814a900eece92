"""Properties of redaction: what is restored is what was redacted, wherever a stream is split."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ingle.backends.base.conversation import ChatMessage, Tool, ToolCall
from ingle.backends.base.events import (
    Delta,
    Event,
    Finished,
    FinishReason,
    ToolCallDelta,
    ToolCallStarted,
)
from ingle.backends.base.requests import GenerateRequest
from ingle.daemon.routing.detectors.finding import FindingKind, SensitiveFinding
from ingle.daemon.routing.egress.placeholders import PlaceholderMemory
from ingle.daemon.routing.egress.redaction import Redaction
from ingle.daemon.routing.inspection.request_parts import parts_of

KINDS = (FindingKind.EMAIL, FindingKind.PERSON, FindingKind.DATE_OF_BIRTH)
WORDS = (
    "[", "]", "\\", '"', "'", "\n", "```", "```sql\n", "{", "EMAIL_1", "[EMAIL_1]", "email 1",
    "[PERSON", "_1", "anna", "Anna", "ANNA", "é", "张伟", " ", "x", "1", "B", "s", "'s",
    "[E-MAIL 1]", "DATE_OF_BIRTH_1", "\\n", "\u00df", "İ", "O'Brien",
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(WORDS), max_size=25).map("".join) | st.text(max_size=40)


def conversation(text: str) -> GenerateRequest:
    return GenerateRequest(id="r", messages=[ChatMessage("user", text)])


def content(request: GenerateRequest) -> str:
    assert request.messages is not None
    return request.messages[0].content


def found(request: GenerateRequest, *values: str, kind: FindingKind) -> list[SensitiveFinding]:
    return [
        SensitiveFinding(kind, at, at + len(value), value, part=number)
        for number, part in enumerate(parts_of(request))
        for value in values
        for at in range(len(part.text))
        if part.text.startswith(value, at)
    ]


def split(text: str, cuts: set[int]) -> list[str]:
    places = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    return [text[a:b] for a, b in pairwise(places)]


def answer(redaction: Redaction, pieces: Sequence[str]) -> str:
    restorer = redaction.restorer()
    events: list[Event] = [Delta("r", 0, piece, []) for piece in pieces]
    events.append(Finished("r", 0, FinishReason.STOP, 1))
    restored = [event for one in events for event in restorer.feed([one])]
    return "".join(event.text for event in restored if isinstance(event, Delta))


def arguments(redaction: Redaction, pieces: Sequence[str]) -> Any:
    restorer = redaction.restorer()
    events: list[Event] = [ToolCallStarted("r", 0, 0, "c", "f", [])]
    events += [ToolCallDelta("r", 0, 0, piece, []) for piece in pieces]
    events.append(Finished("r", 0, FinishReason.TOOL_CALLS, 1))
    restored = [event for one in events for event in restorer.feed([one])]
    return json.loads("".join(e.arguments for e in restored if isinstance(e, ToolCallDelta)))


@settings(max_examples=400)
@example("EMAIL_1xEMAIL_1", [(0, 1, FindingKind.EMAIL)], set())
@given(
    TEXTS,
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20), st.sampled_from(KINDS)), max_size=5),
    st.sets(st.integers(0, 200), max_size=8),
)
def test_repeated_text_is_restored(
    text: str, places: list[tuple[int, int, FindingKind]], cuts: set[int]
) -> None:
    findings = [
        SensitiveFinding(kind, start, min(start + length, len(text)), "")
        for start, length, kind in places
        if start < len(text)
    ]
    redacted, redaction = Redaction.of(conversation(text), findings)
    assert answer(redaction, split(content(redacted), cuts)) == text
    assert len(set(redaction.originals.values())) == len(redaction.originals)


@settings(max_examples=150)
@given(TEXTS.filter(str.strip), TEXTS, st.sets(st.integers(0, 200), max_size=8), st.booleans())
def test_repeated_tool_arguments_are_restored(
    value: str, other: str, cuts: set[int], escaped: bool
) -> None:
    written = json.dumps({"to": f"To {value}.", "cc": other, "n": [1]}, ensure_ascii=escaped)
    call = ToolCall("c", "send", written)
    request = GenerateRequest(id="r", messages=[ChatMessage("assistant", "", tool_calls=[call])])
    value = json.dumps(value, ensure_ascii=escaped)[1:-1]
    findings = [
        one
        for one in found(request, value, kind=FindingKind.PERSON)
        if one.part == 1 and one.start == written.index("To ") + 3
    ]
    redacted, redaction = Redaction.of(request, findings)
    assert redacted.messages is not None
    pieces = split(redacted.messages[0].tool_calls[0].arguments, cuts)
    assert arguments(redaction, pieces) == json.loads(written)


@settings(max_examples=150)
@given(TEXTS.filter(lambda text: bool(text.strip())), st.sets(st.integers(0, 60), max_size=8))
def test_values_are_escaped_where_the_answer_is_json(value: str, cuts: set[int]) -> None:
    value = value.strip()
    request = conversation(f"For <{value}>")
    finding = SensitiveFinding(FindingKind.PERSON, 5, 5 + len(value), value)
    _, redaction = Redaction.of(request, [finding])
    written = '{"a": "[PERSON_1]", "b": ["x PERSON_1", 1]}'
    expected = {"a": value, "b": [f"x {value}", 1]}
    assert arguments(redaction, split(written, cuts)) == expected
    assert json.loads(answer(redaction, split(written, cuts))) == expected
    fenced = answer(redaction, split(f"Don't:\n```json\n{written}\n```\n", cuts))
    assert json.loads(fenced.removeprefix("Don't:\n```json").removesuffix("```\n")) == expected


def test_calls_that_take_turns_are_restored_as_json() -> None:
    value = 'Anna "Ann" Huber'
    request = conversation(value)
    _, redaction = Redaction.of(request, found(request, value, kind=FindingKind.PERSON))
    restorer = redaction.restorer()
    written = '{"to": "[PERSON_1]", "cc": [PERSON_1]}'
    pieces = [ToolCallDelta("r", 0, call, each, []) for each in written for call in (0, 1)]
    out = restorer.feed([*pieces, Finished("r", 0, FinishReason.TOOL_CALLS, 1)])
    for call in (0, 1):
        text = "".join(e.arguments for e in out if isinstance(e, ToolCallDelta) and e.call == call)
        assert json.loads(text) == {"to": value, "cc": value}


@pytest.mark.parametrize(
    ("answered", "expected"),
    [
        ('```python\nname = "[PERSON_1]"\n```\n"[PERSON_1]"', 'name = "O\'Brien \\"Pat\\""'),
        ("```python\nname = '[PERSON_1]'\n```", "name = 'O\\'Brien \"Pat\"'"),
        ("```sql\nSELECT '[PERSON_1]'\n```", "SELECT 'O''Brien \"Pat\"'"),
        ('So: {"a": "[PERSON_1]"}', '{"a": "O\'Brien \\"Pat\\""}'),
        ('He said "[PERSON_1]"', 'He said "O\'Brien "Pat""'),
    ],
)
def test_values_are_escaped_in_strings_of_code(answered: str, expected: str) -> None:
    value = 'O\'Brien "Pat"'
    request = conversation(f"I am {value}")
    _, redaction = Redaction.of(request, found(request, value, kind=FindingKind.PERSON))
    assert expected in answer(redaction, list(answered))


@pytest.mark.parametrize(
    ("answered", "expected"),
    [
        ("[person_1]'s car", "Anna Huber's car"),
        ("[PERSON_1's] car", "Anna Huber's car"),
        ("PERSON_1s Auto, [PERSON_1s] Auto", "Anna Hubers Auto, Anna Hubers Auto"),
        ("[PERSON 1], [Person-1], [PERSON1]", "Anna Huber, Anna Huber, Anna Huber"),
        ("[PERSONNE_1] et [Persona_1]", "Anna Huber et Anna Huber"),
        ("[人物_1]的车, 【PERSON_1】", "Anna Huber的车, Anna Huber"),
        ("请联系PERSON_1。", "请联系Anna Huber。"),
        ("[ADRESSE_1] / [dirección 1]", "Hauptstr. 5 / Hauptstr. 5"),
        ("C:\\Users\\[PERSON_1]", "C:\\Users\\Anna Huber"),
        ("item_1, [Figure_1], [1], persons[1]", "item_1, [Figure_1], [1], persons[1]"),
        ("[PERSON_2] [PERSON_12] XPERSON_1", "[PERSON_2] [PERSON_12] XPERSON_1"),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_changed_placeholders_are_restored(answered: str, expected: str, size: int) -> None:
    request = conversation("Anna Huber, Hauptstr. 5")
    findings = found(request, "Anna Huber", kind=FindingKind.PERSON)
    findings += found(request, "Hauptstr. 5", kind=FindingKind.STREET_ADDRESS)
    redacted, redaction = Redaction.of(request, findings)
    assert content(redacted) == "[PERSON_1], [ADDRESS_1]"
    assert answer(redaction, split(answered, set(range(0, 60, size)))) == expected


def test_values_in_pasted_json_are_not_escaped_twice() -> None:
    pasted = r'Fix this: {"path": "C:\\new\\anna.txt"} for me'
    request = conversation(pasted)
    path = r"C:\\new\\anna.txt"
    redacted, redaction = Redaction.of(request, found(request, path, kind=FindingKind.FILE_PATH))
    assert answer(redaction, list(content(redacted))) == pasted
    assert answer(redaction, ["It is `[FILE_PATH_1]`."]) == r"It is `C:\new\anna.txt`."
    assert arguments(redaction, ['{"p": "[FILE_PATH_1]"}']) == {"p": r"C:\new\anna.txt"}


def test_values_are_replaced_everywhere_as_whole_words() -> None:
    text = "Anna Huber, ANNA HUBER, Annason, Frau Hubers, huberin x@Anna Huber; 请张伟来"
    request = conversation(text)
    first = [
        SensitiveFinding(FindingKind.PERSON, 0, 10, "Anna Huber"),
        SensitiveFinding(FindingKind.PERSON, text.index("张"), text.index("张") + 2, ""),
    ]
    other = GenerateRequest(
        id="r",
        messages=[ChatMessage("user", text), ChatMessage("assistant", "anna huber 和张伟说")],
    )
    redacted, redaction = Redaction.of(request, first)
    assert content(redacted) == (
        "[PERSON_1], [PERSON_1B], Annason, Frau [PERSON_1C]s, huberin x@[PERSON_1]; 请[PERSON_2]来"
    )
    assert answer(redaction, [content(redacted)]) == text
    again, _ = Redaction.of(other, first)
    assert again.messages is not None
    assert again.messages[1].content == "[PERSON_1D] 和[PERSON_2]说"


def test_values_are_replaced_after_line_breaks_in_json() -> None:
    call = ToolCall("c", "send", json.dumps({"body": 'Hi,\nAnna Huber\tand Jos\u00e9 "Pep" Ruiz'}))
    messages = [
        ChatMessage("user", 'Anna Huber, José "Pep" Ruiz'),
        ChatMessage("assistant", "", tool_calls=[call]),
    ]
    request = GenerateRequest(id="r", messages=messages)
    values = ("Anna Huber", 'José "Pep" Ruiz')
    redacted, _ = Redaction.of(request, found(request, *values, kind=FindingKind.PERSON)[:2])
    assert redacted.messages is not None
    body = json.loads(redacted.messages[1].tool_calls[0].arguments)["body"]
    assert body == "Hi,\n[PERSON_1]\tand [PERSON_2]"


def test_a_number_keeps_the_word_that_announces_it() -> None:
    text = "Pay to IBAN DE89 3704 0044 0532 0130 00 now"
    findings = [
        SensitiveFinding(FindingKind.PERSON, 7, 14, "IBAN DE"),
        SensitiveFinding(FindingKind.IBAN, 12, 39, "DE89370400440532013000"),
    ]
    redacted, _ = Redaction.of(conversation(text), findings)
    assert content(redacted) == "Pay to IBAN [IBAN_1] now"


def test_placeholders_of_tools_do_not_depend_on_the_messages() -> None:
    def redacted(*texts: str) -> GenerateRequest:
        messages = [ChatMessage("user", text) for text in texts]
        request = GenerateRequest(
            id="r", messages=messages, tools=[Tool("f", "Asks c@example.org")]
        )
        values = ("a@example.org", "b@example.org", "c@example.org")
        return Redaction.of(request, found(request, *values, kind=FindingKind.EMAIL))[0]

    once, twice = redacted("a@example.org"), redacted("a@example.org", "b@example.org")
    assert once.tools == twice.tools
    assert once.messages == (twice.messages or [])[:1]


def test_memory_keeps_placeholders_over_turns() -> None:
    memory = PlaceholderMemory()
    mail = found(conversation("a@example.org"), "a@example.org", kind=FindingKind.EMAIL)
    Redaction.of(conversation("a@example.org"), mail, memory)
    later, redaction = Redaction.of(conversation("A@EXAMPLE.ORG, a@example.org"), [], memory)
    assert content(later) == "[EMAIL_1B], [EMAIL_1]"
    assert answer(redaction, list("EMAIL_1B or EMAIL_1")) == "A@EXAMPLE.ORG or a@example.org"
