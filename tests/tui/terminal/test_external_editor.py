"""Editing a draft in the user's editor."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from ingle.tui.terminal.external_editor import EditorFailed, edit_text, editor_command

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the editors are shell scripts")


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, which the tests inspect."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def editor(folder: Path, script: str) -> dict[str, str]:
    program = folder / "my editor"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"VISUAL": f"'{program}' --wait", "EDITOR": "never-asked"}


def test_edited_text_is_returned(tmp_path: Path, temporary_folder: Path) -> None:
    env = editor(tmp_path, f'cp "$2" {tmp_path}/seen; stat -c %a "$2" > {tmp_path}/mode; '
                 'printf "new\\ntext\\n" > "$2"')  # fmt: skip
    assert edit_text("old\ntext", env) == "new\ntext"
    assert (tmp_path / "seen").read_text() == "old\ntext\n"
    assert (tmp_path / "mode").read_text().strip() == "600"
    assert list(temporary_folder.iterdir()) == []


def test_failing_editor_leaves_no_files(tmp_path: Path, temporary_folder: Path) -> None:
    env = editor(tmp_path, 'echo changed > "$2"; exit 3')
    with pytest.raises(EditorFailed, match="ended with status 3; the text is unchanged"):
        edit_text("text", env)
    assert list(temporary_folder.iterdir()) == []


def test_editor_that_deletes_the_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(EditorFailed, match="No such file"):
        edit_text("text", editor(tmp_path, 'rm "$2"'))


def test_missing_editor_is_reported() -> None:
    with pytest.raises(EditorFailed, match=r"\$EDITOR is 'no-such-editor -x'"):
        editor_command({"EDITOR": "no-such-editor -x"})


def test_no_editor_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EditorFailed, match=r"Set \$EDITOR"):
        editor_command({})
