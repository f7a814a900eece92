from __future__ import annotations

from ingle.tui.chats.message import Attachment
from ingle.tui.composing.text_chips import TextChips, span_at


def test_a_paste_becomes_a_label_that_is_found_again() -> None:
    book = TextChips()
    label = book.add_paste("a\nb\nc")
    assert label == "[pasted 3 lines #1]"
    text = f"see {label} and [pasted 3 lines #2]"
    assert [(span.start, span.end) for span in book.spans(text)] == [(4, 4 + len(label))]
    assert book.attachments(text) == (Attachment("pasted 3 lines #1", "a\nb\nc"),)


def test_a_long_line_is_counted_in_characters() -> None:
    assert TextChips().add_paste("x" * 12_345) == "[pasted 12 345 characters #1]"


def test_two_chips_of_the_same_size_differ() -> None:
    book = TextChips()
    first, second = book.add_paste("a\nb"), book.add_paste("c\nd")
    assert first != second
    assert [a.text for a in book.attachments(f"{second} {first} {second}")] == ["c\nd", "a\nb"]


def test_a_kept_draft_brings_its_chips_back() -> None:
    book = TextChips()
    paste, trip = book.add_paste("one\ntwo"), book.add("Trip [old]", "Kyoto")
    draft = f"look: {paste} please {trip}"
    again = TextChips()
    assert again.unpack(book.pack(draft)) == draft
    assert [a.text for a in again.attachments(draft)] == ["one\ntwo", "Kyoto"]
    assert again.add_paste("x\ny") == "[pasted 2 lines #3]"


def test_a_draft_without_chips_is_kept_as_it_is() -> None:
    assert (
        TextChips().pack("[pasted 3 lines #1] is only text") == "[pasted 3 lines #1] is only text"
    )


def test_the_chip_at_a_place() -> None:
    book = TextChips()
    label = book.add_paste("a\nb")
    spans = book.spans(f"x{label}y")
    assert span_at(spans, 0) is None
    assert span_at(spans, 1) == spans[0]
    assert span_at(spans, 1, inside=True) is None
    assert span_at(spans, 5, inside=True) == spans[0]
    assert span_at(spans, 1 + len(label)) == spans[0]
    assert span_at(spans, 2 + len(label)) is None
