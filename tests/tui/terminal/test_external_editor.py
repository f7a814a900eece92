from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from ingle.tui.terminal.external_editor import EditorFailed, edit_text, editor_command

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the editors are shell scripts")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Temporary files go to a folder that a test can look at."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def editor(folder: Path, script: str) -> dict[str, str]:
    program = folder / "my editor"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"VISUAL": f"'{program}' --wait", "EDITOR": "never-asked"}


def test_the_text_comes_back_as_it_was_left(tmp_path: Path, own_folder: Path) -> None:
    env = editor(tmp_path, f'cp "$2" {tmp_path}/seen; stat -c %a "$2" > {tmp_path}/mode; '
                 'printf "new\\ntext\\n" > "$2"')  # fmt: skip
    assert edit_text("old\ntext", env) == "new\ntext"
    assert (tmp_path / "seen").read_text() == "old\ntext\n"
    assert (tmp_path / "mode").read_text().strip() == "600"
    assert list(own_folder.iterdir()) == []


def test_an_editor_that_fails_leaves_nothing_behind(tmp_path: Path, own_folder: Path) -> None:
    env = editor(tmp_path, 'echo changed > "$2"; exit 3')
    with pytest.raises(EditorFailed, match="ended with status 3; the text is unchanged"):
        edit_text("text", env)
    assert list(own_folder.iterdir()) == []


def test_an_editor_that_deletes_the_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(EditorFailed, match="No such file"):
        edit_text("text", editor(tmp_path, 'rm "$2"'))


def test_an_editor_that_is_not_there_is_told() -> None:
    with pytest.raises(EditorFailed, match=r"\$EDITOR is 'no-such-editor -x'"):
        editor_command({"EDITOR": "no-such-editor -x"})


def test_no_editor_at_all_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EditorFailed, match=r"Set \$EDITOR"):
        editor_command({})
