"""Composing in the chat: attachments, templates, the external editor, paste, and the draft."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from textual import events

from ingle.tui.settings.chat_folders import ChatFolders
from ingle.tui.text.spoken_text import CODE, spoken_text
from ingle.tui.widgets.composer.composer import Composer
from ingle.tui.widgets.welcome import Welcome

if TYPE_CHECKING:
    from ...conftest import FakeDaemon, OpenChat


@pytest.fixture
def folders(tmp_path: Path) -> ChatFolders:
    """The chat's folders, with a prompt template."""
    folders = ChatFolders(tmp_path / "chats", tmp_path / "config")
    (folders.config / "prompts").mkdir(parents=True)
    (folders.config / "prompts" / "review.md").write_text("Look at {{file}} for {{goal}}.\n")
    return folders


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a b.txt").write_text("inside")
    monkeypatch.chdir(folder)
    return folder


async def test_attached_file_is_sent_with_the_prompt(
    open_chat: OpenChat, fake_daemon: FakeDaemon, work: Path
) -> None:
    async with open_chat() as chat:
        await chat.until_shown("on disk")
        await chat.send("/attach a b.txt")
        await chat.until(lambda: chat.draft == '@"a b.txt" ')
        await chat.pilot.press("enter")
        await chat.until_shown("Hello there.")
    assert '<file name="a b.txt">\ninside\n</file>' in fake_daemon.prompts[0][-1]["content"]


async def test_attaching_a_missing_file_is_reported(open_chat: OpenChat, work: Path) -> None:
    async with open_chat() as chat:
        await chat.send("/attach none.txt")
        await chat.until_shown("There is no file none.txt.")


async def test_attach_without_argument_completes_files(open_chat: OpenChat, work: Path) -> None:
    async with open_chat() as chat:
        await chat.until_shown("on disk")
        await chat.send("/attach")
        await chat.until(lambda: chat.draft == "@")
        await chat.until_shown("▌ a b.txt")


@pytest.mark.slow
async def test_template_is_inserted_and_filled_in(
    open_chat: OpenChat, folders: ChatFolders
) -> None:
    async with open_chat(folders=folders) as chat:
        await chat.send("/template review")
        await chat.until(lambda: chat.draft == "Look at {{file}} for {{goal}}.")
        await chat.pilot.press(*"x.py", "tab", *"speed")
        assert chat.draft == "Look at x.py for speed."


@pytest.mark.slow
async def test_templates_are_listed(open_chat: OpenChat, folders: ChatFolders) -> None:
    async with open_chat(size=(100, 30), folders=folders) as chat:
        await chat.send("/template")
        await chat.until_shown("Templates: review.")
        await chat.send("/template other")
        await chat.until_shown("There is no template other. Templates: review.")


@pytest.mark.skipif(sys.platform == "win32", reason="the editor is a shell script")
async def test_draft_is_edited_in_the_external_editor(
    open_chat: OpenChat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "%s, edited\\n" "$(cat "$1")" > "$1.new"\n'
                      'mv "$1.new" "$1"\n')  # fmt: skip
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    async with open_chat() as chat:
        await chat.pilot.press(*"draft", "ctrl+x")
        await chat.until(lambda: chat.draft == "draft, edited")
        await chat.pilot.press("ctrl+underscore")
        assert chat.draft == "draft"


async def test_missing_editor_is_reported(
    open_chat: OpenChat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", "no-such-editor")
    async with open_chat(size=(100, 30)) as chat:
        await chat.pilot.press(*"draft", "ctrl+x")
        await chat.until_shown("$VISUAL is 'no-such-editor'")
        assert chat.draft == "draft"


async def test_paste_command_inserts_the_clipboard(
    open_chat: OpenChat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "xclip"
    program.write_text("#!/bin/sh\nprintf 'from outside'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("DISPLAY", ":9")
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    async with open_chat() as chat:
        await chat.send("/paste")
        await chat.until(lambda: chat.draft == "from outside")


async def test_picture_in_the_clipboard_is_attached(
    open_chat: OpenChat, fake_daemon: FakeDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "xclip"
    program.write_text('#!/bin/sh\ncase "$*" in *image/png*) printf abc;; *) exit 1;; esac\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("DISPLAY", ":9")
    for name in ("SSH_CONNECTION", "WAYLAND_DISPLAY", "TMUX"):
        monkeypatch.delenv(name, raising=False)
    async with open_chat() as chat:
        await chat.until_shown("on disk")
        await chat.send("/paste")
        await chat.until(lambda: "@clipboard-1.png" in chat.draft)
        await chat.until_shown("+ clipboard-1.png (19 B)")
        await chat.pilot.press("enter")
        await chat.until(lambda: bool(fake_daemon.prompts))
        assert fake_daemon.prompts[-1][-1]["images"] == ["data:image/png;base64,YWJj"]
        await chat.until_shown("▀▀")
        program.write_text("#!/bin/sh\nexit 1\n")
        await chat.send("/paste")
        await chat.until_shown("neither text nor a picture")


async def test_spoken_text_comes_into_the_draft(
    open_chat: OpenChat, fake_daemon: FakeDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "parec"
    program.write_text(f"#!/bin/sh\nprintf sound; touch {tmp_path}/heard; exec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    async with open_chat() as chat:
        await chat.until_shown("on disk")
        await chat.send("/speak")
        await chat.until_shown("parec is recording")
        await chat.until((tmp_path / "heard").exists)
        await chat.pilot.press("enter")
        await chat.until(lambda: chat.draft == "What is a mast?")
        (asked,) = [
            each for each in fake_daemon.requests if each.target.endswith("/transcriptions")
        ]
        assert b"WAVEfmt " in asked.raw
        assert b"data\4\0\0\0soun" in asked.raw  # whole samples
        await chat.send("/speak")
        await chat.until_shown("parec is recording")
        await chat.pilot.press("escape")
        await chat.until_shown("The recording is discarded.")
        program.write_text("#!/bin/sh\nexit 1\n")
        await chat.send("/speak")
        await chat.until_shown("parec is recording")
        await chat.pilot.press("enter")
        await chat.until_shown("parec recorded nothing.")
        program.unlink()
        await chat.send("/speak")
        await chat.until_shown("No program here records from the microphone.")


async def test_last_answer_is_read_aloud(
    open_chat: OpenChat, fake_daemon: FakeDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, played = tmp_path / "pacat", tmp_path / "played"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    async with open_chat() as chat:
        await chat.until_shown("on disk")
        await chat.send("/say")
        await chat.until_shown("There is no answer to read yet.")
        await chat.send("hello")
        await chat.until_shown("Hello there.")
        await chat.until(lambda: not chat.screen.is_answering)
        await chat.send("/say")
        await chat.until_shown("No program here plays sound.")
        program.write_text(f'#!/bin/sh\nexec cat > "{played}"\n')
        program.chmod(0o755)
        await chat.send("/say")
        await chat.until(lambda: played.exists() and "Hello there." in played.read_text())
        program.write_text("#!/bin/sh\nexec sleep 600\n")
        await chat.send("/say")
        await chat.until_shown("Reading aloud")
        await chat.pilot.press("escape")
        await chat.until_shown("The reading is stopped.")
        program.write_text("#!/bin/sh\nexit 1\n")
        await chat.send("/say")
        await chat.until_shown("pacat did not play the sound.")


@pytest.mark.quick
def test_markdown_is_read_without_marks_and_code() -> None:
    text = (
        "# Boats\n\nA **mast** of [spruce](https://fabrikam.org/x),\nnot `iron`:\n\n"
        "```c\nx = 1;\n```\n- one\n"
    )
    assert spoken_text(text).split("\n\n") == [
        "Boats.",
        "A mast of spruce, not iron:",
        CODE,
        "one.",
    ]


async def test_escape_twice_clears_the_draft(open_chat: OpenChat) -> None:
    async with open_chat() as chat:
        await chat.until_shown("on disk")
        await chat.pilot.press(*"draft", "escape")
        assert chat.draft == "draft"
        await chat.pilot.press("escape")
        await chat.until(lambda: not chat.draft)
        await chat.pilot.press("up")
        await chat.until(lambda: chat.draft == "draft")


@pytest.mark.slow
async def test_draft_tokens_are_counted_when_the_model_is_loaded(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    async with open_chat() as chat:
        await chat.until_shown("on disk")
        fake_daemon.broadcast("model", {"name": "smollm2:135m", "state": "ready"})
        await chat.until_shown("ready")
        await chat.pilot.press(*"hi")
        await chat.until_shown("≈ 1 tok")
        await chat.until(lambda: "/ingle/v1/tokens" in {r.target for r in fake_daemon.requests})
        await chat.until(lambda: " tok" in chat.screen_text and "≈" not in chat.screen_text)


async def test_up_recalls_prompts_of_other_chats(open_chat: OpenChat, folders: ChatFolders) -> None:
    async with open_chat(folders=folders) as chat:
        await chat.until_shown("on disk")
        await chat.send("how do I bake bread?")
        await chat.until_shown("Hello there.")
        assert chat.screen.store is not None
        chat.screen.store.flush()
    async with open_chat(folders=folders) as chat:
        await chat.until_shown("on disk")
        await chat.pilot.press(*"BREAD", "up")
        await chat.until(lambda: chat.draft == "how do I bake bread?")


@pytest.mark.slow
async def test_answer_of_another_chat_is_attached(
    open_chat: OpenChat, folders: ChatFolders, fake_daemon: FakeDaemon
) -> None:
    async with open_chat(folders=folders) as chat:
        await chat.until_shown("on disk")
        await chat.send("Kyoto with parents")
        await chat.until_shown("Hello there.")
        await chat.send("/new")
        await chat.until(lambda: "Hello there." not in chat.screen_text)
        await chat.pilot.press(*"#kyo")
        await chat.until_shown("2 messages")
        await chat.pilot.press("tab")
        await chat.until(lambda: chat.draft == "[Kyoto with parents] ")
        await chat.pilot.press("enter")
        await chat.until(lambda: len(fake_daemon.prompts) == 2)
    assert "Hello there." in fake_daemon.prompts[1][-1]["content"]


async def test_type_ahead_after_a_command_is_kept(open_chat: OpenChat) -> None:
    async with open_chat() as chat:
        await chat.until_shown("on disk")
        composer = chat.app.query_one(Composer)
        composer.replace_text("/temp")
        for key in ("enter", "h", "i"):  # at once, as terminals deliver type-ahead
            composer.post_message(events.Key(key, key if len(key) == 1 else None))
        await chat.until(lambda: chat.draft == "hi")


async def test_letters_go_to_the_draft_regardless_of_focus(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.models = []
    fake_daemon.add_model("smollm2:135m", installed=False, state="available")
    fake_daemon.add_model("qwen2.5-coder:0.5b", installed=False, state="available")
    async with open_chat(size=(100, 30)) as chat:
        await chat.until_shown("enter downloads")
        chat.app.screen.set_focus(None)
        await chat.pilot.press(*"one")
        await chat.until(lambda: chat.draft == "one")
        chat.app.screen.set_focus(chat.app.query_one(Welcome))
        await chat.pilot.press("space", *"two")
        await chat.until(lambda: chat.draft == "one two")
