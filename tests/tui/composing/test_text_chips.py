"""Chips: labels in a draft that stand for pasted text or attachments."""

from __future__ import annotations

from ingle.tui.chats.message import Attachment
from ingle.tui.composing.text_chips import TextChips, span_at, with_labels


def test_paste_becomes_a_chip_with_a_label() -> None:
    chips = TextChips()
    label = chips.add_paste("a\nb\nc")
    assert label == "[pasted 3 lines]"
    text = f"see {label} and [pasted 3 lines #2]"
    assert [(span.start, span.end) for span in chips.spans(text)] == [(4, 4 + len(label))]
    assert chips.attachments(text) == (Attachment("pasted 3 lines", "a\nb\nc"),)


def test_last_line_break_begins_no_line() -> None:
    assert TextChips().add_paste("one\ntwo\n") == "[pasted 2 lines]"


def test_label_has_separated_thousands() -> None:
    assert TextChips().add_paste("x" * 12_345) == "[pasted 12 345 characters]"
    assert TextChips().add_paste("x\n" * 10_000) == "[pasted 10 000 lines]"


def test_chips_of_the_same_size_have_different_labels() -> None:
    chips = TextChips()
    first, second = chips.add_paste("a\nb"), chips.add_paste("c\nd")
    assert first != second
    assert [a.text for a in chips.attachments(f"{second} {first} {second}")] == ["c\nd", "a\nb"]


def test_packed_draft_restores_its_chips() -> None:
    chips = TextChips()
    paste, trip = chips.add_paste("one\ntwo"), chips.add("Trip [old]", "Kyoto")
    draft = f"look: {paste} please {trip}"
    again = TextChips()
    assert again.unpack(chips.pack(draft)) == draft
    assert [a.text for a in again.attachments(draft)] == ["one\ntwo", "Kyoto"]
    assert again.add_paste("x\ny") == "[pasted 2 lines #2]"


def test_draft_without_chips_is_packed_unchanged() -> None:
    assert TextChips().pack("[pasted 3 lines] is only text") == "[pasted 3 lines] is only text"


def test_span_at_position() -> None:
    chips = TextChips()
    label = chips.add_paste("a\nb")
    spans = chips.spans(f"x{label}y")
    assert span_at(spans, 0) is None
    assert span_at(spans, 1) == spans[0]
    assert span_at(spans, 1, inside=True) is None
    assert span_at(spans, 5, inside=True) == spans[0]
    assert span_at(spans, 1 + len(label)) == spans[0]
    assert span_at(spans, 2 + len(label)) is None


def test_kept_draft_is_listed_with_the_labels_of_its_chips() -> None:
    chips = TextChips()
    draft = f"look: {chips.add('$ ls', 'calc.py')} please"
    assert with_labels(chips.pack(draft)) == draft
