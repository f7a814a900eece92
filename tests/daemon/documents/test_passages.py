"""Passages of texts, and the words by which they are found."""

from __future__ import annotations

from pathlib import Path

from ingle.daemon.documents.document_index import DocumentIndex, IndexedFile
from ingle.daemon.documents.index_words import MOST_WORDS, match_expression
from ingle.daemon.documents.page_text import page_text
from ingle.daemon.documents.passages import LONGEST, cut_pages, cut_text


def test_every_line_is_in_the_passage_that_names_it() -> None:
    lines = [f"line {n} " + "x" * (n % 90) if n % 7 else "" for n in range(1, 400)]
    lines[200] = "long " * 1000
    passages = list(cut_text("a.txt", "\n".join(lines)))
    assert all(len(passage.text) <= LONGEST + 1 for passage in passages)
    for number, line in enumerate(lines, 1):
        if line and number != 201:
            (passage,) = [each for each in passages if each.first <= number <= each.last]
            assert passage.text.split("\n")[number - passage.first] == line
    long = [each for each in passages if (each.first, each.last) == (201, 201)]
    assert "".join(passage.text for passage in long).count("long") > 900


def test_headings_of_markdown_but_not_of_code_in_it() -> None:
    text = "# A\n\none\n\n## B\n\n```sh\n# no heading\n```\n\n# C\n\ntwo\n"
    titles = [(each.title, each.first, each.last) for each in cut_text("a.md", text)]
    assert titles == [("A", 1, 3), ("A › B", 5, 9), ("C", 11, 13)]


def test_pages_are_numbered() -> None:
    pages = list(cut_pages("[page 1]\n\n\n[page 2]\na\n\nb\n\n[page 3]\nc"))
    assert [(each.first, each.last, each.text) for each in pages] == [(2, 2, "a\n\nb"), (3, 3, "c")]


def test_words_of_a_page_stay_in_their_lines() -> None:
    source = "<title>T</title>\n<!-- a\nb --><p>one\n<script>\nx\n</script>two <b>three</b>\n"
    assert page_text(source, keeps_lines=True).split("\n") == [
        "T",
        "",
        "one",
        "",
        "",
        "two three",
        "",
    ]


def test_questions_are_no_syntax(tmp_path: Path) -> None:
    index = DocumentIndex(tmp_path / "a.db")
    file = IndexedFile(1, 1, b"", "line")
    index.keep("a.txt", file, cut_text("a.txt", "naïve café keepAlive 我喜欢数据库"))
    for question in ("cafe", "NAIVE?", "keep_alive", "alive", "数据", "keeping"):
        assert index.find(question, 5)[0], question
    for question in (
        "",
        "***",
        '"',
        "the of and",
        "NEAR(",
        "title:zzz",
        "x" * 100_000,
        "no " * 9999,
    ):
        assert not index.find(question, 5)[0], question[:20]
    assert match_expression("a1 " * 5) == '"a1"'
    assert match_expression(" ".join(f"w{n}" for n in range(500))).count(" OR ") == MOST_WORDS - 1
    index.remove("a.txt")
    assert not index.find("cafe", 5)[0]
    index.close()
