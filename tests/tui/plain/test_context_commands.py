"""Context commands of the plain chat: compaction, trim, pins, statistics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ingle.tui.compaction.summary_notes import HEADINGS

if TYPE_CHECKING:
    from ..conftest import FakeDaemon
    from .conftest import Piped

FILLER = "That is worth a thought, and there are several good ways to go about it from here. " * 6
NOTES = "\n".join(
    f"{heading}:\n- {'the gate has a code' if heading == 'Facts' else 'none'}"
    for heading in HEADINGS
)
TURNS = ["The gate code is 4417.", "Tell me of tulips.", "What now?"]


def script_turns(daemon: FakeDaemon) -> None:
    for _ in TURNS:
        daemon.script(FILLER)


async def test_compact_and_undo(piped: Piped, fake_daemon: FakeDaemon) -> None:
    script_turns(fake_daemon)
    fake_daemon.script(NOTES)
    lines = [*TURNS, "/compact the gate", "/summary", "And?", "/undo", "Once more?"]
    fake_daemon.script("")  # the request that prefills the new context
    status, out, errors = await piped("\n".join(lines))
    assert (status, errors) == (0, "")
    assert "2 turns summarised: " in out
    assert "the gate has a code" in out
    asked = {prompt[-1]["content"]: prompt for prompt in fake_daemon.prompts}
    instruction = next(text for text in asked if "the gate" in text and "headings" in text)
    assert [m["content"] for m in asked[instruction][:-1:2]] == TURNS
    assert "- The gate code is 4417." in asked["And?"][0]["content"]
    assert asked["And?"][1]["content"] == TURNS[-1]
    assert [m["content"] for m in asked["Once more?"][::2]] == [*TURNS, "And?", "Once more?"]
    warm_up = [r.body for r in fake_daemon.requests if r.body.get("priority") == "batch"]
    assert [body["max_tokens"] for body in warm_up] == [0]


async def test_question_of_compact_is_sent_after_the_summary(
    piped: Piped, fake_daemon: FakeDaemon
) -> None:
    script_turns(fake_daemon)
    fake_daemon.script(NOTES)
    status, _, errors = await piped("\n".join([*TURNS, "/compact then What is the code?"]))
    assert (status, errors) == (0, "")
    assert fake_daemon.prompts[-1][-1]["content"] == "What is the code?"
    assert "4417" in fake_daemon.prompts[-1][0]["content"]


async def test_refused_commands_are_reported(piped: Piped, fake_daemon: FakeDaemon) -> None:
    fake_daemon.script("Yes.")
    lines = ["/summary", "/undo", "/trim", "/context", "/stats", "/pins", "Hi", "/compact"]
    status, out, errors = await piped("\n".join([*lines, "/compact then"]))
    assert status == 1
    assert errors.splitlines() == [
        "Error: There is no summary in this chat yet. /compact makes one.",
        "Error: There is no compaction here to undo.",
        "Error: There is nothing to trim: no attachment, no long text and no long result of a tool "
        "is sent.",
        "Error: Nothing is sent yet: the chat is empty.",
        "Error: There are no figures before the first answer.",
        "Error: There is nothing to compact yet: that takes at least two turns.",
        "Error: Type the question: /compact then QUESTION.",
    ]
    assert "Nothing is pinned." in out


async def test_trim_leaves_out_long_texts(piped: Piped, fake_daemon: FakeDaemon) -> None:
    long = "word " * 800
    lines = [long, "Short.", "/trim", "Next?", "/context"]
    _, out, errors = await piped("\n".join(lines))
    assert errors == ""
    assert "1 turn trimmed: " in out
    assert "[left out: " in fake_daemon.prompts[-1][0]["content"]
    assert "The largest:" in out


async def test_pins(piped: Piped, fake_daemon: FakeDaemon) -> None:
    for _ in range(6):
        fake_daemon.script(FILLER)
    fake_daemon.script(NOTES)
    lines = [TURNS[0], "/pin", "/pins", *TURNS[1:], *"ABC", "/compact", "And?"]
    _, out, errors = await piped("\n".join(lines))
    assert errors == ""
    assert "Pinned: every summary keeps it verbatim." in out
    assert FILLER.strip() in fake_daemon.prompts[-1][0]["content"]


async def test_full_context_is_compacted_before_the_next_prompt(
    piped: Piped, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.context = 21
    for text in (FILLER, FILLER, NOTES):
        fake_daemon.script(text)
    _, out, errors = await piped("\n".join(TURNS))
    assert errors == ""
    assert "100 % of the context is full. The next prompt summarises" in out
    assert "1 turn summarised: " in out
    assert "4417" in fake_daemon.prompts[-1][0]["content"]


async def test_nearly_full_context_is_reported(
    piped: Piped, fake_daemon: FakeDaemon, tmp_path: Path
) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "chat.toml").write_text("auto_compact = false")
    fake_daemon.context = 27
    _, out, _ = await piped("\n".join(TURNS[:2]))
    assert "81 % of the context is full. /compact summarises" in out
