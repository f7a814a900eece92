"""Commands of the plain chat: branches, attachments, templates, models, help."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.tui.commands.command_table import COMMANDS

from .test_plain_session import needs_terminal

if TYPE_CHECKING:
    from ..conftest import FakeDaemon, OpenTerminal
    from .conftest import Piped


async def test_edited_prompt_starts_a_branch(piped: Piped, fake_daemon: FakeDaemon) -> None:
    for text in ("First.", "Second.", "Third."):
        fake_daemon.script(text)
    lines = ["One?", "/edit Two?", "/previous", "/next", "And?"]
    status, out, errors = await piped("\n".join(lines))
    assert (status, errors) == (0, "")
    assert "Version 1 of 2.\nYou: One?\nModel: First.\n" in out
    assert "Version 2 of 2.\nYou: Two?\nModel: Second.\n" in out
    assert [m["content"] for m in fake_daemon.prompts[-1]] == ["Two?", "Second.", "And?"]


async def test_rewind_edits_an_earlier_prompt(piped: Piped, fake_daemon: FakeDaemon) -> None:
    lines = ["One?", "Two?", "/rewind", "1", "One, please?"]
    _, out, errors = await piped("\n".join(lines))
    assert errors == ""
    assert "1. One?\n2. Two?\n" in out
    assert [m["content"] for m in fake_daemon.prompts[-1]] == ["One, please?"]


async def test_continue_and_branch_commands(piped: Piped, fake_daemon: FakeDaemon) -> None:
    fake_daemon.script("Once upon")
    fake_daemon.script(" a time.")
    lines = ["Tell", "/continue", "/branch", "And?", "/open"]
    _, out, errors = await piped("\n".join(lines))
    assert errors == ""
    asked = [r.body for r in fake_daemon.requests if r.target == "/ingle/v1/generations"]
    assert asked[1]["continues"] is True
    contents = ["Tell", "Once upon a time.", "And?"]
    assert [m["content"] for m in fake_daemon.prompts[-1]] == contents
    assert "1. Tell (branch), 4 messages" in out
    assert "2. Tell, 3 messages" in out


async def test_files_are_attached(piped: Piped, fake_daemon: FakeDaemon, tmp_path: Path) -> None:
    (tmp_path / "two words.txt").write_text("inside")
    (tmp_path / "data.bin").write_bytes(b"\0\1")
    lines = [
        "/attach two words.txt",
        "What is it? @data.bin",
        "/attach nothing",
        "/attach data.bin",
    ]
    _, out, errors = await piped("\n".join(lines))
    assert "Attached: two words.txt, 6 B." in out
    content = fake_daemon.prompts[0][0]["content"]
    assert content == '<file name="two words.txt">\ninside\n</file>\n\nWhat is it? @data.bin'
    assert "data.bin is binary" in errors
    assert "nothing" in errors


async def test_templates_ask_for_their_places(
    piped: Piped, fake_daemon: FakeDaemon, tmp_path: Path
) -> None:
    (tmp_path / "config" / "prompts").mkdir(parents=True)
    (tmp_path / "config" / "prompts" / "translate.md").write_text("Say {{what}} in {{language}}.")
    _, out, errors = await piped("/template translate\nhello\nFrench\n/template\n")
    assert errors == ""
    assert fake_daemon.prompts[0][-1]["content"] == "Say hello in French."
    assert "Templates: translate." in out


async def test_model_is_saved_with_the_chat(piped: Piped, fake_daemon: FakeDaemon) -> None:
    fake_daemon.add_model("qwen:1b")
    await piped("Hi\n/model qwen\n/new\n/model smollm2\nBye\n")
    await piped("/open Hi\n1\nMore\n")
    asked = [r.body["model"] for r in fake_daemon.requests if r.target.endswith("/generations")]
    assert asked == ["smollm2:135m", "smollm2:135m", "qwen:1b"]


async def test_help_lists_every_command(piped: Piped) -> None:
    _, out, errors = await piped("/help\n/kv\n")
    for command in COMMANDS:
        if command.slash is not None and command.is_listed:
            assert command.usage.partition(" ")[0] in out
    assert "In the full-screen chat only: " in out
    assert errors == "Error: /kv works in the full-screen chat only.\n"


async def test_doctor_why_sent_and_redact_commands(piped: Piped, fake_daemon: FakeDaemon) -> None:
    fake_daemon.route_for_real()
    fake_daemon.status = {"version": "0.1.0", "pid": 4242, "socket": "/run/ingle.sock"}
    lines = ["/doctor", "/why", "/sent", "/redact My card is 4539 5787 6362 1486", "/copy"]
    _, out, errors = await piped("\n".join(["Hi", *lines]))
    assert "process 4242" in out
    assert "The model runs on this machine" in out
    assert "Nothing of this chat left this machine: 1 answer, all generated here." in out
    assert "My card is [CARD_1]" in out
    assert errors == ""


async def test_unload_and_ctx_commands(piped: Piped, fake_daemon: FakeDaemon) -> None:
    fake_daemon.loaded_context = 8192
    _, out, errors = await piped("Hi\n/unload\n/ctx 16384\n/ctx many\n")
    assert "smollm2:135m is unloaded." in out
    assert "smollm2:135m has 8 192 tokens of context, not the 16 384 asked for." in out
    assert errors == "Error: /ctx takes a number of tokens, as in /ctx 16384.\n"


@needs_terminal
async def test_edit_prefills_the_input_line(
    arguments: list[str], fake_daemon: FakeDaemon, open_terminal: OpenTerminal, tmp_path: Path
) -> None:
    def drive() -> None:
        with open_terminal(arguments, HOME=str(tmp_path)) as terminal:
            terminal.until(lambda screen: screen.rstrip().endswith("You:"))
            terminal.type("Why is it so?\n")
            terminal.until(lambda screen: "Model: Hello there.\n" in screen)
            terminal.type("/edit\n")
            terminal.until(lambda screen: "You, edited: Why is it so?" in screen)
            terminal.type("\x7f now?\n")
            terminal.until(lambda screen: screen.count("Model: Hello there.") == 2)
            terminal.type(f"Look at @{tmp_path}/missing and @config\n")
            terminal.until(lambda screen: screen.count("Model: Hello there.") == 3)
            terminal.until(lambda screen: screen.rstrip().endswith("You:"))
            terminal.type("\x04")
            assert terminal.wait() == 0

    await asyncio.to_thread(drive)
    assert fake_daemon.prompts[1] == [{"role": "user", "content": "Why is it so now?"}]


@pytest.mark.slow
async def test_persona_is_saved_and_used(
    piped: Piped, fake_daemon: FakeDaemon, tmp_path: Path
) -> None:
    fake_daemon.add_model("qwen:1b")
    lines = ["/model qwen:1b", "/system Be brief.", "/sampling temperature=0.2"]
    _, out, errors = await piped("\n".join([*lines, "/persona save terse", "/persona"]))
    assert errors == ""
    assert "Personas: terse. /persona NAME uses one." in out
    _, _, errors = await piped("/persona terse\nHi\n/persona none\n")
    assert errors == "Error: There is no persona none. There are: terse.\n"
    config = tmp_path / "config" / "chat.toml"
    config.write_text('persona = "terse"')
    await piped("Hello\n")
    await piped("/persona delete terse\n/persona\n")
    asked = [r.body for r in fake_daemon.requests if r.target == "/ingle/v1/generations"]
    assert [body["model"] for body in asked] == ["qwen:1b"] * 2
    assert [body["sampling"] for body in asked] == [{"temperature": 0.2}] * 2
    assert [body["messages"][0]["content"] for body in asked] == ["Be brief."] * 2
    assert not list((tmp_path / "config" / "personas").iterdir())


async def test_prompt_is_asked_again_of_another_model(
    piped: Piped, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.add_model("qwen:1b")
    fake_daemon.script("One.")
    fake_daemon.script("Two.")
    _, out, errors = await piped("Hi\n/again qwen\n/previous\n")
    assert errors == ""
    assert "Version 1 of 2." in out
    asked = [r.body for r in fake_daemon.requests if r.target == "/ingle/v1/generations"]
    assert [body["model"] for body in asked] == ["smollm2:135m", "qwen:1b"]
    assert asked[0]["messages"] == asked[1]["messages"]


async def test_shared_chat_is_one_page(piped: Piped, tmp_path: Path) -> None:
    _, out, errors = await piped("Why <b>so</b>?\n/share page.html\n")
    assert errors == ""
    assert "page.html. It has the system prompt" in out
    page = (tmp_path / "page.html").read_text()
    assert "Why &lt;b&gt;so&lt;/b&gt;?" in page
    assert "Hello there." in page


async def test_ask_files_sends_passages_with_their_places(
    piped: Piped, fake_daemon: FakeDaemon, tmp_path: Path
) -> None:
    (tmp_path / "two words").mkdir()
    lines = {"file": "a.md", "first": 3, "last": 5, "text": "Masts."}
    pages = {"file": "b.pdf", "first": 2, "last": 2, "unit": "page", "text": "Anchors."}
    fake_daemon.documents = {"passages": [lines, pages], "files": 7, "waiting": 2}
    _, out, errors = await piped('/ask-files "two words" Which masts?\n/ask-files docs Why?')
    assert "2 passages of 7 files, found by words; 2 more are still being read." in out
    assert "There is no folder docs." in errors
    (sent,) = [message["content"] for message in fake_daemon.prompts[-1]]
    assert '<file name="two words/a.md:3-5">\nMasts.\n</file>' in sent
    assert '<file name="two words/b.pdf:page 2">\nAnchors.\n</file>' in sent
    assert "Which masts?" in sent
    (asked,) = [each.body for each in fake_daemon.requests if each.target.endswith("/search")]
    assert (asked["folder"], asked["question"]) == (str(tmp_path / "two words"), "Which masts?")


async def test_picture_is_described(piped: Piped, fake_daemon: FakeDaemon, tmp_path: Path) -> None:
    (tmp_path / "cat.gif").write_bytes(b"GIF89a")
    (tmp_path / "cat.txt").write_text("a cat")
    _, _, errors = await piped("/describe cat.gif\n/describe cat.txt\n/describe dog.png")
    (sent,) = fake_daemon.prompts[-1]
    assert sent["images"] == ["data:image/gif;base64,R0lGODlh"]
    assert "Describe this picture" in sent["content"]
    assert "Name a picture: /describe FILE" in errors
    assert "There is no file dog.png." in errors
