"""`ingle transcribe`: writes down what is spoken in an audio file."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ...settings.config import load_config
from ...terminal.terminal_output import print_text
from ...terminal.unsafe_characters import without_unsafe
from ..command_errors import UsageError
from ..command_parser import CommandParser
from ..daemon_launcher import ensure_daemon
from ..model_reference import sendable_reference
from ..progress_report import ProgressReport

EXAMPLES = """\
  ingle transcribe interview.mp3
  ingle transcribe talk.m4a --language de --format srt > talk.srt
  ffmpeg -i film.mkv -f wav - | ingle transcribe -"""
_FORMATS = {"text": "text", "srt": "srt", "vtt": "vtt", "json": "verbose_json"}
_MOST = 64 * 2**20


def main(arguments: Sequence[str]) -> int:
    """Recognise the speech of a file; raises `CommandError`."""
    parser = CommandParser(
        "transcribe",
        "Write down what is spoken in an audio file, on this machine. It needs\n"
        "`ingle engine install speech` and a Whisper model (docs/speech.md).",
        examples=EXAMPLES,
        json=False,
    )
    parser.add_argument("file", metavar="FILE", help="the audio file; - is standard input")
    parser.add_argument("--language", metavar="CODE", help="such as en (default: it is detected)")
    parser.add_argument(
        "--format", choices=_FORMATS, default="text", help="text, srt, vtt or json (text)"
    )
    parser.add_argument("--model", metavar="NAME", help="the model (default: the configured one)")
    parser.add_argument("--prompt", metavar="TEXT", help="words and names that may occur")
    parser.add_flag("--translate", help="write it in English")
    options = parser.parse_args(arguments)
    if options.translate and options.language is not None:
        raise UsageError(
            "--language does not go with --translate: the language is detected then.",
            hint="Leave one of them out.",
        )
    audio = _read(options.file)
    from ...client.document_types import PATIENCE, TRANSCRIPTIONS, TRANSLATIONS, audio_form

    form = audio_form(
        audio,
        model=None if options.model is None else sendable_reference(options.model),
        language=options.language,
        prompt=options.prompt,
        response_format=_FORMATS[options.format],
    )
    client = ensure_daemon(load_config(os.environ))
    path = TRANSLATIONS if options.translate else TRANSCRIPTIONS
    with ProgressReport() as progress:
        progress.show_step("Recognising speech")
        text = client.post_form(path, form, timeout=PATIENCE)
    print_text(without_unsafe(text.rstrip("\n")))
    return 0


def _read(name: str) -> bytes:
    try:
        with sys.stdin.buffer if name == "-" else Path(name).expanduser().open("rb") as file:
            audio = file.read(_MOST + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{name} cannot be read: {reason}.", "Name an audio file.") from error
    if len(audio) > _MOST:
        raise UsageError(
            f"{name} has more than {_MOST // 2**20} MiB.", "Send parts of it, or compress it."
        )
    return audio
