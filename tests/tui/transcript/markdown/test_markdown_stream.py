"""Streaming Markdown: equality with the whole document, unfinished markers, and rendering."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style

from ingle.tui.transcript.lines import RenderedLine, TranscriptStyles
from ingle.tui.transcript.markdown.markdown_stream import MarkdownStream, render_markdown

WIDTH = 60
STYLES = TranscriptStyles(
    **{
        name: Style(color=f"color({index + 1})")
        for index, name in enumerate(TranscriptStyles.__struct_fields__)
    }
)
MARKERS = re.compile(r"[*_~`#\[\]()|>\\<!=-]|https")

word = st.text("abcdefgh", min_size=1, max_size=7)
words = st.lists(word, min_size=1, max_size=5).map(" ".join)


def _around(marker: str) -> st.SearchStrategy[str]:
    return words.map(lambda text: f"{marker}{text}{marker}")


inline = st.one_of(
    words,
    _around("**"),
    _around("*"),
    _around("__"),
    _around("_"),
    _around("***"),
    _around("~~"),
    _around("`"),
    _around("``"),
    words.map(lambda text: f"**{text} *inner* {text}**"),
    words.map(lambda text: f"*{text} `code`*"),
    st.tuples(words, word).map(lambda parts: f"[{parts[0]}](httpx{parts[1]})"),
    words.map(lambda text: f"[**{text}**](httpx)"),
)
sentence = st.lists(inline, min_size=1, max_size=4).map(" ".join)
row = st.lists(sentence, min_size=3, max_size=3).map(lambda cells: f"| {' | '.join(cells)} |")
block = st.one_of(
    sentence,
    st.lists(sentence, min_size=2, max_size=3).map("\n".join),
    st.tuples(st.integers(1, 4), sentence).map(lambda parts: f"{'#' * parts[0]} {parts[1]}"),
    st.lists(sentence, min_size=1, max_size=3).map(
        lambda items: "\n".join(f"- {item}" for item in items)
    ),
    st.lists(sentence, min_size=1, max_size=3).map(
        lambda items: "\n".join(f"{index + 1}. {item}" for index, item in enumerate(items))
    ),
    st.tuples(sentence, sentence).map(lambda parts: f"* {parts[0]}\n  * {parts[1]}"),
    st.lists(sentence, min_size=1, max_size=2).map(
        lambda lines: "\n".join(f"> {line}" for line in lines)
    ),
    st.tuples(st.sampled_from(["```", "~~~", "````"]), word, st.lists(words, max_size=3)).map(
        lambda parts: "\n".join([parts[0] + parts[1], *parts[2], parts[0]])
    ),
    st.tuples(words, words).map(lambda parts: f"- {parts[0]}\n\n  ```txt\n  {parts[1]}\n  ```"),
    st.tuples(row, st.lists(row, min_size=1, max_size=2)).map(
        lambda parts: "\n".join([parts[0], "|---|:---:|---:|", *parts[1]])
    ),
    st.just("---"),
)
document = st.lists(block, min_size=1, max_size=4).map("\n\n".join)


def _text(lines: list[RenderedLine]) -> str:
    return "\n".join(line.text for line in lines)


def _without_addresses(text: str) -> str:
    """Remove the addresses that the renderer adds to complete links."""
    return re.sub(r"\(httpx?\w*\)", "", text.replace("\n", " "))


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(document)
def test_unfinished_markers_are_hidden(source: str) -> None:
    for end in range(1, len(source) + 1):
        stream = MarkdownStream(STYLES, 400)
        stream.append(source[:end])
        shown = _without_addresses(_text(stream.lines))
        assert not MARKERS.search(shown), (source[:end], shown)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(document, st.data())
def test_streamed_document_equals_the_whole(source: str, data: st.DataObject) -> None:
    stream = MarkdownStream(STYLES, WIDTH)
    position = 0
    while position < len(source):
        step = data.draw(st.integers(1, 40))
        stream.append(source[position : position + step])
        position += step
    stream.finish()
    assert stream.lines == render_markdown(source, STYLES, WIDTH)


@settings(max_examples=150, deadline=None)
@given(st.text("ab *_`~[]()|>#-+=.1:\\!<&\n\t", max_size=80), st.data())
def test_any_streamed_text_equals_the_whole(source: str, data: st.DataObject) -> None:
    stream = MarkdownStream(STYLES, WIDTH)
    position = 0
    while position < len(source):
        step = data.draw(st.integers(1, 20))
        stream.append(source[position : position + step])
        position += step
    stream.finish()
    assert stream.lines == render_markdown(source, STYLES, WIDTH)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200), st.integers(8, 40))
def test_lines_fit_the_width(source: str, width: int) -> None:
    for line in render_markdown(source, STYLES, width):
        assert sum(segment.cell_length for segment in line.segments) <= width


@pytest.mark.slow
@pytest.mark.parametrize(
    "source", ["*a " * 3000, "*a " * 3000 + "*" * 3000, "[" * 3000, "`*[" * 3000]
)
def test_deeply_nested_markers_are_rendered(source: str) -> None:
    stream = MarkdownStream(STYLES, WIDTH)
    stream.append(source + "end")
    stream.finish()
    assert "end" in _text(stream.lines)


@pytest.mark.parametrize("depth", [18, 30, 3000])
@pytest.mark.parametrize("marker", ["> ", "- ", "1. "])
def test_deep_nesting_loses_no_text(marker: str, depth: int) -> None:
    stream = MarkdownStream(STYLES, WIDTH)
    stream.append(f"before\n\n{marker * depth}deep\n\nafter")
    stream.finish()
    shown = _text(stream.lines)
    assert [word in shown for word in ("before", "deep", "after")] == [True] * 3
    assert max(cell_len(line.text) for line in stream.lines) <= WIDTH


def test_link_definition_completes_earlier_links() -> None:
    stream = MarkdownStream(STYLES, WIDTH)
    for character in "See [this][a].\n\nMore.\n\n[a]: http://example.org\n":
        stream.append(character)
    stream.finish()
    assert "this (http://example.org)" in _text(stream.lines)


def test_code_is_highlighted_once_its_fence_closes() -> None:
    stream = MarkdownStream(STYLES, WIDTH)
    stream.append("```python\ndef f(): return 1\n")
    colours = {segment.style for line in stream.lines[1:] for segment in line.segments}
    assert colours == {STYLES.fence}
    stream.append("```\n")
    assert STYLES.fence + STYLES.syntax_keyword in {
        segment.style for line in stream.lines for segment in line.segments
    }


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("| a | b |\n|---|---|\n| 1 | 2 |", ["a │ b", "──┼──", "1 │ 2"]),
        ("1. one\n2. two\n   - deep", ["1. one", "2. two", "   ◦ deep"]),
        ("> quoted\n> text", ["▎ quoted text"]),
        ("# Title\n\ntext", ["Title", "", "text"]),
        ("[here](http://x.org) and <http://y.org>", ["here (http://x.org) and http://y.org"]),
        ("a<br>b <script>", ["a<br>b <script>"]),
        ("```\ncode\n```", [" code"]),
        (
            "- [x] done\n- [ ] open\n- [link](http://x.org)",
            ["☑ done", "☐ open", "• link (http://x.org)"],
        ),
        ("- a\n  - b\n    - c\n      - d", ["• a", "  ◦ b", "    ▪ c", "      ▪ d"]),
        ("See[^1] and[^note].\n\n[^1]: The words.", ["See¹ and[note].", "", "¹ The words."]),
        ("![a *cat*](http://x.org/c.png)", ["▧ a cat (http://x.org/c.png)"]),
        ("a\tb", ["a   b"]),
        (
            "漢字 e\u0301 \U0001f469\u200d\U0001f469\u200d\U0001f467 end",
            ["漢字 e\u0301 \U0001f469\u200d\U0001f469\u200d\U0001f467 end"],
        ),
        ("\u05e9\u05dc\u05d5\u05dd (abc)", ["\u05e9\u05dc\u05d5\u05dd (abc)"]),
    ],
)
def test_rendered_blocks(source: str, shown: list[str]) -> None:
    lines = render_markdown(source, STYLES, WIDTH)
    assert [line.text.rstrip() for line in lines] == shown


def test_too_wide_table_is_shown_as_fields() -> None:
    source = "| name | city | age |\n|---|---|---|\n| Ann | Oslo | 31 |"
    assert _text(render_markdown(source, STYLES, 14)) == "name: Ann\ncity: Oslo\nage: 31"


def test_diff_lines_are_coloured() -> None:
    lines = render_markdown("```diff\n-old\n+new\n same\n```", STYLES, WIDTH)
    colours = [line.segments[1].style for line in lines[1:]]
    assert colours == [
        STYLES.fence + STYLES.diff_removed, STYLES.fence + STYLES.diff_added, STYLES.fence
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["漢字" * 60, "e\u0301" * 90, "\U0001f469\u200d\U0001f467" * 40])
def test_wide_and_joined_characters_are_not_split(text: str) -> None:
    for source in (text, f"```\n{text}\n```", f"| a | b |\n|---|---|\n| {text} | x |"):
        lines = render_markdown(source, STYLES, 31)
        assert max(cell_len(line.text) for line in lines) <= 31
        shown = "".join(line.text.replace(" ", "") for line in lines)
        assert shown.count("\u200d") == text.count("\u200d")


def test_streamed_task_list_shows_no_brackets() -> None:
    source = "- [x] done\n- [ ] open"
    for end in range(1, len(source) + 1):
        stream = MarkdownStream(STYLES, WIDTH)
        stream.append(source[:end])
        assert not re.search(r"[\[\]]", _text(stream.lines)), source[:end]


def test_growing_code_block_reuses_finished_lines() -> None:
    stream = MarkdownStream(STYLES, WIDTH)
    stream.append("```python\n" + "x = 1\n" * 50)
    before = stream.lines
    stream.append("y = 2\nz")
    assert all(one is other for one, other in zip(before[1:50], stream.lines[1:50], strict=True))
    assert [line.text.strip() for line in stream.lines[-2:]] == ["y = 2", "z"]


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(st.lists(sentence, min_size=30, max_size=50).map(" ".join), st.integers(150, 400))
def test_streamed_long_paragraph_equals_the_whole(source: str, step: int) -> None:
    stream = MarkdownStream(STYLES, WIDTH)
    for start in range(0, len(source), step):
        stream.append(source[start : start + step])
        whole = MarkdownStream(STYLES, WIDTH)
        whole.append(source[: start + step])
        assert _text(whole.lines) == _text(stream.lines)
    stream.finish()
    assert stream.lines == render_markdown(source, STYLES, WIDTH)
