"""Parsing and writing `@path` mentions."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingle.tui.composing.file_mentions import as_mention, find_mentions, resolve, shown_path


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("explain @src/app.py.", ["src/app.py"]),
        ("(@a.py, @b.py)", ["a.py", "b.py"]),
        ('see @"two words.txt" now', ["two words.txt"]),
        ("mail me@example.org", []),
        ("all of @src/**/*.py", ["src/**/*.py"]),
        ("@~/notes.md\n@/etc/hosts", ["~/notes.md", "/etc/hosts"]),
        ("@", []),
        ("a @ b", []),
        ("@.gitignore", [".gitignore"]),
    ],
)
def test_mentions_are_parsed(text: str, paths: list[str]) -> None:
    mentions = find_mentions(text)
    assert [mention.path for mention in mentions] == paths
    for mention in mentions:
        assert text[mention.start : mention.end].strip('@"') == mention.path


@pytest.mark.parametrize("path", ["a.py", "two words.txt", "list[1].py", "odd,", "src/ä.py"])
def test_mention_of_a_path_round_trips(path: str) -> None:
    assert [mention.path for mention in find_mentions(as_mention(path))] == [path]


def test_path_with_glob_characters_is_quoted() -> None:
    assert as_mention("a*b") == '@"a*b"'
    assert as_mention("plain.py") == "@plain.py"


def test_shown_path_resolves_to_the_same_file(tmp_path: Path) -> None:
    for path in (tmp_path / "a" / "b.py", Path.home() / "x.md", Path("/etc/hosts")):
        assert resolve(shown_path(path, tmp_path), tmp_path) == path
    assert shown_path(tmp_path / "a" / "b.py", tmp_path) == "a/b.py"
