"""`ingle say`: a text is played by a program that is here, or written to a file."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingle.tui.terminal.sound_player import parts_of

Run = Callable[..., subprocess.CompletedProcess[str]]
SPEECH = "/v1/audio/speech"


@pytest.fixture
def player(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that a program writes what it plays to."""
    played, program = tmp_path / "played", tmp_path / "pacat"
    program.write_text(f'#!/bin/sh\nexec /bin/cat > "{played}"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return played


def test_text_is_played_and_written(daemon: Any, ingle: Run, player: Path, tmp_path: Path) -> None:
    done = ingle("say", "Good", "morning.", "--speed", "1.5")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert player.read_text() == '"Good morning.\\n"'
    file = tmp_path / "a.MP3"
    assert ingle("say", "-o", str(file), "Good night.").returncode == 0
    assert file.read_text() == '"Good night."'
    first, second = daemon.requests_to("POST", SPEECH)
    assert (first["response_format"], first["speed"]) == ("pcm", 1.5)
    assert second == {"input": "Good night.", "response_format": "mp3", "speed": 1.0}


def test_wrong_commands_say_what_to_do(daemon: Any, ingle: Run, player: Path) -> None:
    for arguments, what in (
        (("--speed", "3", "a"), "--speed is not between"),
        ((" ",), "There is no text."),
        (("-o", "a.txt", "a"), "does not end in .mp3"),
        (("-o", "a.mp3", "a" * 4097), "more than 4,096"),
    ):
        done = ingle("say", *arguments)
        assert done.returncode == 2
        assert what in done.stderr
    player.with_name("pacat").unlink()
    done = ingle("say", "Good morning.")
    assert done.returncode == 1
    assert "No program that plays sound is here." in done.stderr
    assert daemon.requests_to("POST", SPEECH) == []


@pytest.mark.quick
@pytest.mark.parametrize("text", ["One. " * 3000, "a" * 9000, "b" * 4095 + ". c", "d\n\n" * 4096])
def test_long_texts_are_sent_in_parts_without_loss(text: str) -> None:
    parts = list(parts_of(text))
    assert all(part.strip() and len(part) <= 4096 for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())
