"""The chat app end to end against the scripted daemon: prompts, streaming, errors, downloads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from textual.color import Color
from textual.css.stylesheet import Stylesheet
from textual.events import Key
from textual.geometry import Offset
from textual.selection import Selection

from ingle.tui.settings.themes import EMBER, THEMES

if TYPE_CHECKING:
    from ..conftest import FakeDaemon, OpenChat


async def test_composer_has_focus_on_start(open_chat: OpenChat) -> None:
    async with open_chat() as chat:
        await chat.pilot.press("h", "i")
        assert chat.draft == "hi"
        await chat.until_shown("smollm2:135m on disk")
        assert "nothing leaves this machine" in chat.screen_text


async def test_style_sheet_is_parsed_anew_only_for_another_theme(
    open_chat: OpenChat, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[Stylesheet] = []
    reparse = Stylesheet.reparse

    def count(sheet: Stylesheet) -> None:
        parsed.append(sheet)
        reparse(sheet)

    monkeypatch.setattr(Stylesheet, "reparse", count)
    async with open_chat() as chat:
        await chat.until_shown("smollm2:135m on disk")
        assert chat.app.theme == EMBER.name
        assert chat.app.screen.styles.background == Color.parse(EMBER.background or "")
        assert parsed == []
        other = next(theme for theme in THEMES if theme.background != EMBER.background)
        chat.app.theme = other.name
        await chat.pilot.pause()
        assert chat.app.screen.styles.background == Color.parse(other.background or "")
        assert len(parsed) == 1


@pytest.mark.slow
async def test_answer_streams_and_shows_statistics(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script("The capital ", "is **Par", "is**.", gate_before=2)
    async with open_chat(size=(100, 30)) as chat:
        await chat.until_shown("smollm2:135m on disk")
        await chat.send("What is the capital of France?")
        await chat.until_shown("The capital is Par▍")
        assert "esc stops" in chat.screen_text
        fake_daemon.gate.set()
        await chat.until_shown("The capital is Paris.")
        await chat.until_shown("30 tok/s")
        assert "23 / 8" in chat.screen_text
        assert "first token" in chat.screen_text
        assert "ingle  What is the capital of France?" in chat.screen_text
    assert fake_daemon.prompts == [[{"role": "user", "content": "What is the capital of France?"}]]


async def test_model_picker_shows_measured_speed(open_chat: OpenChat) -> None:
    async with open_chat() as chat:
        await chat.send("hi")
        await chat.until_shown("Hello there.")
        await chat.pilot.press("ctrl+o")
        await chat.until_shown("20 tok/s measured here")


async def test_next_prompt_includes_the_conversation(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script("One.")
    fake_daemon.script("Two.")
    async with open_chat() as chat:
        await chat.send("first")
        await chat.until_shown("One.")
        await chat.send("second")
        await chat.until_shown("Two.")
    assert [message["content"] for message in fake_daemon.prompts[1]] == ["first", "One.", "second"]


@pytest.mark.slow
async def test_escape_stops_answer_and_keeps_partial_text(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script("Some ", "words ", "never shown", gate_before=2)
    fake_daemon.script("Again.")
    async with open_chat() as chat:
        await chat.send("talk")
        await chat.until_shown("Some words")
        await chat.pilot.press("escape")
        assert "■ stopped" in chat.screen_text
        await chat.until(lambda: len(fake_daemon.cancelled) == 1)
        await chat.send("and now?")
        await chat.until_shown("Again.")
        assert "never shown" not in chat.screen_text
    assert fake_daemon.prompts[1][1] == {"role": "assistant", "content": "Some words "}


async def test_prompt_sent_during_an_answer_is_queued(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script("First answer.", gate_before=0)
    fake_daemon.script("Second answer.")
    async with open_chat() as chat:
        await chat.send("one")
        await chat.until_shown("esc stops")
        await chat.send("two")
        await chat.until_shown("↳ next  two")
        assert len(fake_daemon.prompts) == 1
        fake_daemon.gate.set()
        await chat.until_shown("Second answer.")
        assert "↳ next" not in chat.screen_text


@pytest.mark.slow
async def test_stopping_returns_queued_prompts_to_the_draft(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script("Part", "rest", gate_before=1)
    async with open_chat() as chat:
        await chat.send("one")
        await chat.until_shown("Part")
        await chat.send("two")
        await chat.pilot.press("d", "r", "a", "f", "t")
        await chat.pilot.press("escape")
        assert chat.draft == "two\n\ndraft"
    assert len(fake_daemon.prompts) == 1


@pytest.mark.slow
async def test_up_recalls_queued_and_sent_prompts(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script("Part", "rest", gate_before=1)
    async with open_chat() as chat:
        await chat.send("one")
        await chat.until_shown("Part")
        await chat.send("two")
        await chat.pilot.press("up")
        assert chat.draft == "two"
        await chat.send("")
        await chat.pilot.press("up")
        await chat.pilot.press("up")
        assert chat.draft == "one"
        await chat.pilot.press("down", "down")
        assert chat.draft == ""


async def test_newline_keys_insert_a_newline(open_chat: OpenChat) -> None:
    async with open_chat() as chat:
        await chat.pilot.press("a", "ctrl+j", "b", "shift+enter", "c")
        assert chat.draft == "a\nb\nc"


@pytest.mark.parametrize(
    ("code", "next_step"),
    [
        ("context_length_exceeded", "ctrl+n starts a new chat"),
        ("no_vision", "/edit, to ask without the picture"),
    ],
)
async def test_refused_prompt_has_a_next_step(
    open_chat: OpenChat, fake_daemon: FakeDaemon, code: str, next_step: str
) -> None:
    error = {
        "code": code,
        "message": "The prompt is 9000 tokens long, 809 too many.",
        "hint": "Shorten the prompt.",
    }
    fake_daemon.script(refuse=(400, error))
    async with open_chat() as chat:
        await chat.send("long")
        await chat.until_shown("✗ The prompt is 9000 tokens long, 809 too many.")
        assert "Shorten the prompt." in chat.screen_text
        assert next_step in chat.screen_text
        await chat.pilot.press("up")
        assert chat.draft == "long"


async def test_answer_that_is_stopped_before_its_first_word_can_be_asked_for_again(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script("Never shown.", gate_before=0)
    async with open_chat() as chat:
        await chat.send("go")
        await chat.until(lambda: chat.screen.turn is not None and chat.screen.turn.prompt_tokens)
        await chat.pilot.press("escape")
        await chat.until_notified("Stopped before the answer began. F5 asks again.")
        fake_daemon.gate.set()
        await chat.pilot.press("f5")
        await chat.until_shown("Hello there.")


async def test_error_during_an_answer_keeps_partial_text(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    error = {"code": "worker_died", "message": "The model's process died.", "hint": None}
    fake_daemon.script("Half an ", "answer", error=error, error_after=1)
    fake_daemon.script("Whole answer.")
    async with open_chat() as chat:
        await chat.send("go")
        await chat.until_shown("✗ The model's process died.")
        assert "Half an" in chat.screen_text
        assert "/continue goes on from there · F5 answers again" in chat.screen_text
        await chat.pilot.press("f5")
        await chat.until_shown("Whole answer.")
    assert fake_daemon.prompts[1] == [{"role": "user", "content": "go"}]


async def test_dropped_connection_is_resumed(open_chat: OpenChat, fake_daemon: FakeDaemon) -> None:
    fake_daemon.script("one ", "two ", "three", drop_after=2)
    async with open_chat() as chat:
        await chat.send("count")
        await chat.until_shown("one two three")
    resumed = [r.target for r in fake_daemon.requests if "after=" in r.target]
    (name,) = fake_daemon.generations
    assert resumed == [
        f"/ingle/v1/generations/{name}/events?after=0",
        f"/ingle/v1/generations/{name}/events?after=2",
    ]


@pytest.mark.slow
async def test_losing_the_daemon_keeps_chat_and_draft(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    starts: list[int] = []
    async with open_chat(start_daemon=lambda: starts.append(1)) as chat:
        await chat.send("hello")
        await chat.until_shown("Hello there.")
        await chat.pilot.press("d", "r", "a", "f", "t")
        await fake_daemon.stop()
        await chat.until_shown("daemon stopped")
        assert chat.draft == "draft"
        assert "Hello there." in chat.screen_text
        await fake_daemon.start()
        fake_daemon.script("Back again.")
        await chat.pilot.press("enter")
        await chat.until_shown("Back again.")
    assert fake_daemon.prompts[-1][-1]["content"] == "draft"


@pytest.mark.slow
async def test_daemon_crash_during_an_answer_keeps_partial_text(
    open_chat: OpenChat, fake_daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingle.daemon.client.generation_stream.RETRY_DELAYS", (0.0, 0.1))
    fake_daemon.script("The first half", "never", gate_before=1)
    async with open_chat() as chat:
        await chat.send("tell me")
        await chat.until_shown("The first half")
        await fake_daemon.stop()
        await chat.until_shown("✗ The daemon does not answer")
        assert "The first half" in chat.screen_text
        assert "■ interrupted; /continue resumes it" in chat.screen_text
        await chat.until(lambda: not chat.screen.state.connected)
        assert chat.screen_text.count("✗") == 1, chat.screen_text
        await fake_daemon.start()
        fake_daemon.script("The whole story.")
        await chat.pilot.press("f5")
        await chat.until_shown("The whole story.")
    assert fake_daemon.prompts[-1] == [{"role": "user", "content": "tell me"}]


@pytest.mark.slow
async def test_typing_preloads_the_model(open_chat: OpenChat, fake_daemon: FakeDaemon) -> None:
    async with open_chat() as chat:
        await chat.until_shown("smollm2:135m on disk")
        assert not [r for r in fake_daemon.requests if r.target == "/ingle/v1/load"]
        await chat.pilot.press("h", "i")
        await chat.until(lambda: [r for r in fake_daemon.requests if r.target == "/ingle/v1/load"])
        state = {"name": "smollm2:135m", "state": "starting", "fraction": 0.43}
        fake_daemon.broadcast("model", state)
        await chat.until_shown("starting 43 %")
        fake_daemon.broadcast("gauges", {"memory": {}, "models": [state | {"state": "ready"}]})
        await chat.until_shown("smollm2:135m ready")


@pytest.mark.slow
async def test_selection_is_copied_without_wrapping(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script("word " * 30 + "\n\n- item")
    async with open_chat(size=(60, 30)) as chat:
        await chat.send("write")
        await chat.until_shown("• item")
        chat.app.screen.selections = {chat.transcript: Selection(Offset(2, 4), Offset(80, 8))}
        await chat.pilot.press("ctrl+c")
        assert chat.app.clipboard == ("word " * 30).strip() + "\n\n• item"


async def test_daemon_start_failure_is_shown_and_retried(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    await fake_daemon.stop()

    class StartFailed(Exception):
        message = "The daemon did not start: the port is taken."
        hint = "Choose another port."

    attempts: list[int] = []

    def start() -> None:
        attempts.append(1)
        raise StartFailed

    async with open_chat(start_daemon=start) as chat:
        await chat.until_shown("the port is taken")
        await chat.until_shown("Choose another port.")
        await chat.send("are you there?")
        await chat.until(lambda: len(attempts) == 2)
        await chat.until(lambda: chat.draft == "are you there?")


async def test_first_run_downloads_the_model_on_enter(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.add_model("smollm2:135m", installed=False, state="available", path=None)
    async with open_chat() as chat:
        await chat.until_shown("enter downloads it and starts the chat")
        assert "98 MB · Apache-2.0" in chat.screen_text
        await chat.pilot.press("enter")
        await chat.until_shown("41 % · 40 MB of 98 MB · 12 MB/s · 4 s left")
        await chat.send("Hi")
        await chat.until_shown("↳ next  Hi")
        fake_daemon.pull_gate.set()
        await chat.until_shown("Hello there.")
    assert fake_daemon.pull_done == ["smollm2:135m"]


async def test_failed_download_can_be_retried(open_chat: OpenChat, fake_daemon: FakeDaemon) -> None:
    fake_daemon.add_model("smollm2:135m", installed=False, state="available", path=None)
    fake_daemon.pull_error = {"code": "disk_full", "message": "The disk is full."}
    fake_daemon.pull_error["hint"] = "Free some."
    fake_daemon.pull_gate.set()
    async with open_chat() as chat:
        await chat.until_shown("enter downloads")
        await chat.pilot.press("enter")
        await chat.until_shown("✗ smollm2:135m was not downloaded. The disk is full. Free some.")
        assert "enter downloads smollm2:135m" in chat.screen_text
        fake_daemon.pull_error = None
        await chat.pilot.press("enter")
        await chat.until_shown("smollm2:135m on disk")
    assert fake_daemon.pull_done == ["smollm2:135m"]


async def test_escape_leaves_the_download_running(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.add_model("smollm2:135m", installed=False, state="available", path=None)
    async with open_chat(size=(100, 30)) as chat:
        await chat.until_shown("enter downloads")
        await chat.pilot.press("enter")
        await chat.until_shown("41 %")
        await chat.pilot.press("escape")
        await chat.until_shown("keeps downloading")
        assert "41 %" not in chat.screen_text
    assert not [r for r in fake_daemon.requests if r.target.endswith("/pull/cancel")]


@pytest.mark.slow
async def test_model_picker_downloads_and_switches_models(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.add_model("qwen2.5:1.5b", installed=False, state="available", size=986_000_000)
    async with open_chat() as chat:
        await chat.until_shown("smollm2:135m on disk")
        await chat.pilot.press("ctrl+o")
        await chat.until_shown("qwen2.5:1.5b")
        assert "986 MB" in chat.screen_text
        await chat.pilot.press("down", "enter")
        await chat.until_shown("↓ qwen2.5:1.5b")
        fake_daemon.pull_gate.set()
        await chat.until(lambda: fake_daemon.pull_done == ["qwen2.5:1.5b"])
        await chat.send("hi")
        await chat.until_shown("Hello there.")
        assert "▌ qwen2.5:1.5b" in chat.screen_text
    generated = [r for r in fake_daemon.requests if r.target == "/ingle/v1/generations"]
    assert generated[-1].body["model"] == "qwen2.5:1.5b"


@pytest.mark.slow
async def test_embedding_model_cannot_be_chosen(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.add_model("minilm:l6", installed=False, state="available", task="embed")
    async with open_chat() as chat:
        await chat.until_shown("smollm2:135m on disk")
        await chat.pilot.press("ctrl+o")
        await chat.until_shown("cannot chat")
        await chat.pilot.press("down", "enter")
        await chat.until_shown("is for embeddings")
        await chat.send("hi")
        await chat.until_shown("Hello there.")
    assert not [r for r in fake_daemon.requests if r.target == "/ingle/v1/pull"]


@pytest.mark.slow
async def test_embedding_model_gets_no_prompt(open_chat: OpenChat, fake_daemon: FakeDaemon) -> None:
    fake_daemon.add_model("minilm:l6", task="embed")
    async with open_chat(model="minilm:l6") as chat:
        await chat.until_shown("minilm:l6 cannot chat")
        await chat.send("hi")
        await chat.until_shown("is for embeddings")
    assert not [r for r in fake_daemon.requests if r.target == "/ingle/v1/generations"]


@pytest.mark.slow
async def test_slash_commands(open_chat: OpenChat, fake_daemon: FakeDaemon) -> None:
    fake_daemon.add_model("other:1b")
    async with open_chat() as chat:
        await chat.until_shown("smollm2:135m on disk")
        await chat.send("/model other")
        await chat.until_shown("other:1b on disk")
        await chat.send("/help")
        await chat.until_shown("Writing")
        await chat.pilot.press("escape")
        await chat.send("/nonsense")
        await chat.until_shown("There is no command /nonsense")
        assert chat.draft == "/nonsense"
        await chat.send("hello")
        await chat.until_shown("Hello there.")
        await chat.send("/new")
        await chat.until(lambda: not chat.transcript.entries)
        await chat.send("/quit")
        await chat.until(lambda: not chat.app.is_running)


@pytest.mark.slow
async def test_command_palette_finds_commands(open_chat: OpenChat) -> None:
    async with open_chat(size=(100, 40)) as chat:
        await chat.pilot.press("ctrl+p")
        await chat.until_shown("Answer again")
        await chat.pilot.press(*"new")
        await chat.until_shown("New chat")


async def test_copy_reports_clipboard_method(open_chat: OpenChat) -> None:
    async with open_chat(size=(100, 30)) as chat:
        await chat.send("hello")
        await chat.until_shown("Hello there.")
        await chat.pilot.press("ctrl+y")
        await chat.until_shown("does not confirm")
        assert chat.app.clipboard == "Hello there."


@pytest.mark.slow
async def test_ctrl_c_twice_quits(open_chat: OpenChat) -> None:
    async with open_chat() as chat:
        await chat.pilot.press("ctrl+c")
        await chat.until_shown("ctrl+c again leaves")
        await chat.pilot.press("ctrl+c")
        await chat.until(lambda: not chat.app.is_running)


@pytest.mark.slow
async def test_scrolled_up_view_does_not_follow_the_answer(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    lines = [f"line {number}\n\n" for number in range(60)]
    fake_daemon.script(*lines, gate_before=40)
    async with open_chat() as chat:
        await chat.send("count")
        await chat.until_shown("line 39")
        await chat.pilot.press("pageup")
        before = chat.transcript.scroll_offset.y
        assert not chat.transcript.following
        await chat.pilot.press("x")
        fake_daemon.gate.set()
        await chat.until_shown("new lines · end")
        await chat.until(lambda: not chat.screen.is_answering)
        assert chat.transcript.scroll_offset.y == before
        await chat.pilot.press("end")
        await chat.until_shown("line 59")
        assert "new lines" not in chat.screen_text


@pytest.mark.slow
async def test_layout_fits_small_and_wide_screens(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    for size in ((40, 12), (80, 24), (160, 45)):
        fake_daemon.script("A **fine** answer.")
        async with open_chat(size=size) as chat:
            await chat.send("hello")
            await chat.until_shown("A fine answer.")
            await chat.pilot.press("t", "y", "p", "e", "d")
            assert "typed" in chat.screen_text
            assert "smollm2:135m" in chat.screen_text
            assert all(len(line) <= size[0] for line in chat.screen_text.split("\n"))


async def test_resizing_keeps_the_scroll_position(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script(*[f"paragraph {number} " + "word " * 40 + "\n\n" for number in range(40)])
    async with open_chat() as chat:
        await chat.send("write")
        await chat.until_shown("paragraph 39")
        await chat.pilot.resize_terminal(50, 20)
        await chat.until(lambda: chat.transcript.size.width == 50)
        assert chat.transcript.scroll_offset.y == chat.transcript.max_scroll_y
        assert chat.transcript.virtual_size.height == sum(
            len(entry.previous_lines) for entry in chat.transcript.entries
        )


async def test_control_sequences_do_not_reach_the_terminal(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script(
        "safe \x1b[31", "mred\x1b[0m \x1b]52;c;aGFjaw==", "\x07 \x1b]0;title\x1b\\ ",
        "\x9b2J &#27;[2J \u202eevil \r over \x08\x08 \ud800 <http://x/%1b]0;t%07> `\x1b[1m` end",
    )  # fmt: skip
    async with open_chat(size=(120, 30)) as chat:
        await chat.send("attack \x1b[31m me")
        await chat.until_shown("end")
        raw = "".join(
            segment.text
            for strip in chat.app.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage]
            for segment in strip
        )
        assert not {c for c in raw if ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202e\ud800"}
        assert "safe red" in chat.screen_text
        assert "aGFjaw" not in chat.screen_text


async def test_transcript_can_be_rebuilt_during_an_answer(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script("First.")
    fake_daemon.script("Some ", "words ", "more ", "and the end.", gate_before=2)
    async with open_chat() as chat:
        await chat.send("one")
        await chat.until_shown("First.")
        await chat.send("two")
        await chat.until_shown("Some words")
        chat.screen.run_command("system", "Be brief.")
        await chat.until_shown("Some words")
        fake_daemon.gate.set()
        await chat.until_shown("and the end.")
        await chat.until(lambda: chat.screen.turn is None)
        assert chat.screen_text.count("Some words") == 1


@pytest.mark.slow
async def test_answer_continues_while_another_branch_is_shown(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script("First.")
    fake_daemon.script("Some ", "words ", "and the end.", gate_before=2)
    async with open_chat() as chat:
        await chat.send("one")
        await chat.until_shown("First.")
        await chat.pilot.press("f5")
        await chat.until_shown("Some words")
        tree = chat.screen.chat
        first = next(message for message in tree.messages.values() if message.content == "First.")
        tree.choose(first)
        chat.screen.show_path()
        await chat.until_shown("First.")
        fake_daemon.gate.set()
        await chat.until(lambda: chat.screen.turn is None)
        other = next(m for m in tree.siblings(first) if m is not first)
        assert other.content == "Some words and the end."
        assert "words" not in chat.screen_text


async def test_text_typed_right_after_a_command_is_kept(open_chat: OpenChat) -> None:
    async with open_chat() as chat:
        await chat.until_shown("smollm2:135m on disk")
        composer = chat.screen.composer
        composer.replace_text("/system Be brief.")
        for key in ("enter", *"And"):
            composer.post_message(Key(key, key if len(key) == 1 else "\r"))
        await chat.until(lambda: chat.screen.chat.settings.system == "Be brief.")
        await chat.until(lambda: chat.draft == "And")


async def test_prompts_typed_in_one_burst_are_sent_apart(
    fake_daemon: FakeDaemon, open_chat: OpenChat
) -> None:
    async with open_chat() as chat:
        await chat.until_shown("smollm2:135m on disk")
        for key in "one\rtwo\rthree":
            name = "enter" if key == "\r" else key
            chat.screen.composer.post_message(Key(name, key))
        await chat.until(lambda: chat.draft == "three")
        await chat.until(lambda: len(fake_daemon.prompts) == 2 and chat.screen.turn is None)
        path = chat.screen.chat.path
        assert [m.content for m in path if m.role == "user"] == ["one", "two"]


async def test_letters_are_handled_after_earlier_editing_keys(open_chat: OpenChat) -> None:
    async with open_chat() as chat:
        await chat.pilot.press("a", "b")
        composer = chat.screen.composer
        for key, character in (("ctrl+u", "\x15"), ("c", "c"), ("left", None), ("d", "d")):
            composer.post_message(Key(key, character))
        await chat.until(lambda: chat.draft == "dc")
