"""Parsing of search queries: terms, phrases, filters, and dates."""

from __future__ import annotations

import sqlite3
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingle.tui.history.database.text_index import index_text
from ingle.tui.history.search_query import Term, parse_date, parse_query

NOW = datetime(2026, 3, 5, 12).astimezone()


def stamp(*date: int) -> float:
    year, month, day = date
    return datetime(year, month, day).astimezone().timestamp()


def test_query_with_words_phrases_and_filters() -> None:
    query = parse_query(
        'tides "full moon" model:qwen folder:"my work" is:pinned before:2026-01-01 after:2025-06',
        NOW,
    )
    assert query.terms == [Term("tides", True), Term("full moon", False)]
    assert (query.model, query.folder, query.pinned) == ("qwen", "my work", True)
    assert (query.before, query.after) == (stamp(2026, 1, 1), stamp(2025, 6, 1))


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("k", [Term("k", False)]),
        ("ky", [Term("ky", True)]),
        ("ky ", [Term("ky", False)]),
        ("kyoto w", [Term("kyoto", True)]),
        ("kyoto w ", [Term("kyoto", True), Term("w", False)]),
        ("京都", [Term("京都", False)]),
        ("kyoto 京", [Term("kyoto", True), Term("京", False)]),
        ('"open phrase', [Term("open phrase", False)]),
        ("is:open", [Term("is:open", True)]),
        ("before:soon", [Term("before:soon", True)]),
        ("model:", []),
        ("https://x.org", [Term("https://x.org", True)]),
        ("--- '' ()", []),
    ],
)
def test_incomplete_query_is_parsed(text: str, terms: list[Term]) -> None:
    assert parse_query(text, NOW).terms == terms


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("2026", (2026, 1, 1)),
        ("2026-02", (2026, 2, 1)),
        ("2026-2-3", (2026, 2, 3)),
        ("today", (2026, 3, 5)),
        ("yesterday", (2026, 3, 4)),
        ("2026-13", None),
        ("0000", None),
        ("tomorrow", None),
    ],
)
def test_dates_are_parsed(text: str, date: tuple[int, int, int] | None) -> None:
    found = parse_date(text, NOW)
    assert (found and found.timestamp()) == (date and stamp(*date))


@pytest.fixture(scope="module")
def index() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute(
        "CREATE VIRTUAL TABLE words USING fts5(text, content='', prefix='2 3',"
        " tokenize='unicode61 remove_diacritics 2')"
    )
    connection.execute("INSERT INTO words(text) VALUES (?)", (index_text("one 京都 café"),))
    return connection


@given(
    st.one_of(
        st.text(max_size=60),
        st.text(alphabet="\"'*^()-+:{}ANDORNT near\0 a京\n", max_size=60),
    )
)
def test_any_text_is_a_valid_query(index: sqlite3.Connection, text: str) -> None:
    match = parse_query(text, NOW).match()
    if match:
        index.execute("SELECT count(*) FROM words WHERE words MATCH ?", (match,)).fetchone()


@pytest.mark.parametrize("text", ["京都", "京", "都", "cafe", "CAFÉ", "caf", "one 京"])
def test_query_matches_without_case_and_diacritics(index: sqlite3.Connection, text: str) -> None:
    match = parse_query(text, NOW).match()
    found = index.execute("SELECT count(*) FROM words WHERE words MATCH ?", (match,)).fetchone()
    assert found == (1,)
