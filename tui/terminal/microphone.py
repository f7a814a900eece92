"""Records from the microphone by a program that is here."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import wave
from collections.abc import Callable
from io import BufferedReader, BytesIO
from typing import cast

MOST_SECONDS = 600
"""A recording ends by itself then."""
PATIENCE = 2.0
"""Seconds that the program has to end."""
_RATE = 16000
_BYTES = 2
_PROGRAMS: dict[str, tuple[str, ...]] = {
    "parec": ("--raw", "--format=s16le", f"--rate={_RATE}", "--channels=1"),
    "pw-record": ("--raw", "--format=s16", f"--rate={_RATE}", "--channels=1", "-"),
    "arecord": ("-q", "-t", "raw", "-f", "S16_LE", "-r", str(_RATE), "-c", "1"),
    "rec": ("-q", "-t", "raw", "-e", "signed", "-b", "16", "-r", str(_RATE), "-c", "1", "-"),
}
_ON_A_MAC = ("-loglevel", "error", "-f", "avfoundation", "-i", ":default")
_RAW = ("-ac", "1", "-ar", str(_RATE), "-f", "s16le", "-")


def recorder(which: Callable[[str], str | None] = shutil.which) -> tuple[str, ...]:
    """Return the command that writes 16-bit samples to its output; empty without a program."""
    found = next(((name, *_PROGRAMS[name]) for name in _PROGRAMS if which(name)), ())
    if not found and sys.platform == "darwin" and which("ffmpeg"):
        return ("ffmpeg", *_ON_A_MAC, *_RAW)
    return found


def how_to_get_one() -> str:
    """Return a sentence for a machine without a program."""
    if sys.platform == "darwin":
        return "Install one with `brew install ffmpeg`."
    return "Install one with `sudo apt install pulseaudio-utils` (or alsa-utils, or sox)."


class MicrophoneRecording:
    """A running recording, kept in memory; raises OSError if the program cannot start."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # it would be drawn over the chat
            start_new_session=True,  # Ctrl-C is for the chat
        )
        self._samples = bytearray()
        # A thread: a full pipe would stop the program, and the plain chat waits for a line.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def stop(self) -> bytes:
        """End it, and return a WAV file, b"" if nothing was recorded; blocks for a moment."""
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(PATIENCE)  # a child of the program may have its output
        whole = bytes(self._samples[: len(self._samples) // _BYTES * _BYTES])
        if not whole:
            return b""
        file = BytesIO()
        with wave.open(file, "wb") as sound:
            sound.setnchannels(1)
            sound.setsampwidth(_BYTES)
            sound.setframerate(_RATE)
            sound.writeframes(whole)
        return file.getvalue()

    def _read(self) -> None:
        with cast(BufferedReader, self._process.stdout) as output:
            while len(self._samples) < MOST_SECONDS * _RATE * _BYTES:
                chunk = output.read1(4096)
                if not chunk:
                    return
                self._samples += chunk
        self._process.terminate()
