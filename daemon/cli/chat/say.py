"""`ingle say`: speaks a text."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...settings.config import load_config
from ..command_errors import CommandError, UsageError
from ..command_parser import CommandParser
from ..daemon_launcher import ensure_daemon
from ..progress_report import ProgressReport

EXAMPLES = """\
  ingle say "The build is done."
  ingle run smollm2 "Tell me a story" | ingle say -
  ingle say --output story.mp3 - < story.txt"""
_SPEECH = "/v1/audio/speech"
_LONGEST = 4096
"""Characters of a file's text, as of a request."""
_PATIENCE = 700.0
_FORMATS = ("mp3", "opus", "aac", "flac", "wav")


def main(arguments: Sequence[str]) -> int:
    """Speak; raises `CommandError`."""
    parser = CommandParser(
        "say",
        "Speak an English text, on this machine. It needs `ingle engine install speech`\n"
        "(docs/speech.md).",
        examples=EXAMPLES,
        json=False,
    )
    parser.add_argument("text", metavar="TEXT", nargs="+", help="the text; - is standard input")
    parser.add_argument(
        "--output", "-o", metavar="FILE", help=f"write a file: .{', .'.join(_FORMATS)}"
    )
    parser.add_argument("--speed", type=float, default=1.0, help="0.5 to 2 (default: 1)")
    options = parser.parse_args(arguments)
    if not 0.5 <= options.speed <= 2:
        raise UsageError("--speed is not between 0.5 and 2.")
    text = sys.stdin.read() if options.text == ["-"] else " ".join(options.text)
    if not text.strip():
        raise UsageError("There is no text.", "Name one, or pipe it into `ingle say -`.")
    if options.output is not None:
        _write(Path(options.output).expanduser(), text, options.speed)
    else:
        _play(text, options.speed)
    return 0


def _write(file: Path, text: str, speed: float) -> None:
    form = file.suffix.lower().removeprefix(".")
    if form not in _FORMATS:
        raise UsageError(f"{file} does not end in .{', .'.join(_FORMATS)}.")
    if len(text) > _LONGEST:
        raise UsageError(f"The text has more than {_LONGEST:,} characters.", "Write several files.")
    client = ensure_daemon(load_config(os.environ))
    body = {"input": text, "response_format": form, "speed": speed}
    with ProgressReport() as progress:
        progress.show_step("Speaking")
        sound = client.post_for_bytes(_SPEECH, body, timeout=_PATIENCE)
    try:
        file.write_bytes(sound)
    except OSError as error:
        raise CommandError(f"{file} cannot be written: {error.strerror}.") from error


def _play(text: str, speed: float) -> None:
    from ingle.tui.terminal.sound_player import how_to_get_one, parts_of, play, player

    command = player()
    if not command:
        raise CommandError(
            "No program that plays sound is here.", f"{how_to_get_one()} Or name a file: --output."
        )
    client = ensure_daemon(load_config(os.environ))

    def sounds() -> Iterator[bytes]:
        for part in parts_of(text):
            body = {"input": part, "response_format": "pcm", "speed": speed}
            yield client.post_for_bytes(_SPEECH, body, timeout=_PATIENCE)

    if not play(command, sounds()):
        raise CommandError(
            f"{command[0]} did not play the sound.", "Name a file instead: --output."
        )
