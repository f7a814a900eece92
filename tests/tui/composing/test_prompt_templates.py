"""Prompt templates and their places."""

from __future__ import annotations

from pathlib import Path

from ingle.tui.composing.prompt_templates import Template, load_templates, next_place


def test_templates_are_loaded_from_the_folder(tmp_path: Path) -> None:
    (tmp_path / "review.md").write_text("# Review\n\nLook at {{ file }} for {{goal}}, {{file}}.\n")
    (tmp_path / "broken.md").write_bytes(b"\xff\xfe\xff")
    (tmp_path / "no name.md").write_text("x")
    (tmp_path / "other.txt").write_text("x")
    (template,) = load_templates(tmp_path)
    assert template.name == "review"
    assert template.description == "Review"
    assert template.places == ["file", "goal"]
    assert template.text.endswith("{{file}}.")


def test_missing_folder_has_no_templates(tmp_path: Path) -> None:
    assert load_templates(tmp_path / "none") == []
    assert Template("empty", "").description == ""


def test_next_place_wraps_around() -> None:
    text = "{{a}} and {{b}}"
    assert next_place(text, 0) == (0, 5)
    assert next_place(text, 5) == (10, 15)
    assert next_place(text, 15) == (0, 5)
    assert next_place("none {{", 0) is None
