"""Plays sound by a program that is here."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator

LONGEST = 4096
"""Characters of a text that is spoken in one piece."""
_RATE = 24000
_BREAK = re.compile(r"(?<=[.!?])\s+|\n\s*\n")
_SHAPE = (f"--rate={_RATE}", "--channels=1")
_SOX = ("-q", "-t", "raw", "-e", "signed", "-b", "16", "-r", str(_RATE), "-c", "1", "-")
_PROGRAMS: dict[str, tuple[str, ...]] = {
    "pacat": ("--playback", "--raw", "--format=s16le", *_SHAPE),
    "pw-play": ("--raw", "--format=s16", *_SHAPE, "-"),
    "aplay": ("-q", "-t", "raw", "-f", "S16_LE", "-r", str(_RATE), "-c", "1"),
    "play": _SOX,
    "ffplay": (
        *("-loglevel", "error", "-nodisp", "-autoexit"),
        *("-f", "s16le", "-ar", str(_RATE), "-ch_layout", "mono", "-i", "-"),
    ),
}


def player(which: Callable[[str], str | None] = shutil.which) -> tuple[str, ...]:
    """Return the command that plays 16-bit samples at 24 kHz; empty without a program."""
    return next(((name, *_PROGRAMS[name]) for name in _PROGRAMS if which(name)), ())


def how_to_get_one() -> str:
    """Return a sentence for a machine without a program."""
    if sys.platform == "darwin":
        return "Install one with `brew install sox`."
    return "Install one with `sudo apt install pulseaudio-utils` (or alsa-utils, or sox)."


def play(command: tuple[str, ...], parts: Iterable[bytes]) -> bool:
    """Play samples as they come; return whether all were heard. Raises OSError."""
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        try:
            for part in parts:
                process.stdin.write(part)
            process.stdin.close()
        except BrokenPipeError:
            return False
        except BaseException:
            process.kill()
            raise
    return process.returncode == 0


async def play_as_it_comes(command: tuple[str, ...], parts: AsyncIterator[bytes]) -> bool:
    """Play samples as they come; return whether all were heard. Raises OSError.

    Cancelling it ends the sound.
    """
    import asyncio  # `ingle say` does without

    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,  # it would be drawn over the chat
        start_new_session=True,  # Ctrl-C is for the chat
    )
    assert process.stdin is not None
    try:
        async for part in parts:
            process.stdin.write(part)
            await process.stdin.drain()
        process.stdin.close()
        return await process.wait() == 0
    except (BrokenPipeError, ConnectionResetError):
        return False
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def parts_of(text: str, longest: int = LONGEST) -> Iterator[str]:
    """Yield parts that a request can have, cut behind sentences where they have any."""
    part = ""
    for sentence in _BREAK.split(text):
        while len(sentence) >= longest:
            at = sentence.rfind(" ", 1, longest) + 1 or longest
            yield from (each for each in (part, sentence[:at]) if each.strip())
            part, sentence = "", sentence[at:]
        if part.strip() and len(part) + len(sentence) >= longest:
            yield part
            part = ""
        part += f"{sentence}\n"
    if part.strip():
        yield part
