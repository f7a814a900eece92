"""Searches in folders of documents, small copies of pictures, and speech in audio files."""

from __future__ import annotations

import os
from typing import Literal, NamedTuple

import msgspec

from .answer import Answer

PROMPT_CHARACTERS = 9600
"""Of the passages in a prompt: some 2,500 tokens."""
PROMPT_PASSAGES = 40
"""Passages that are asked for to fill a prompt."""
Unit = Literal["line", "page", "paragraph"]
CITE = "Name file and lines after each statement. Say so if these passages do not answer it."
"""Follows a question that passages were found for."""


class FoundPassage(Answer, frozen=True, kw_only=True):
    """A part of a file: its lines, pages or paragraphs `first` to `last`, counted from 1.

    `file` is relative to the folder, `title` the headings above.
    """

    file: str
    first: int
    last: int
    unit: Unit = "line"
    title: str = ""
    text: str

    @property
    def place(self) -> str:
        """Return the citation: `docs/a.md:3-9`, or `b.pdf:page 2`."""
        unit = "" if self.unit == "line" else f"{self.unit} "
        last = f"-{self.last}" if self.last != self.first else ""
        return f"{self.file}:{unit}{self.first}{last}"


class FoundPassages(Answer, frozen=True, kw_only=True):
    """The best passages first, and what was searched.

    Of `files` that were read `unreadable` ones hold no text; `waiting` ones are read in the
    background. `model` embedded the question; if it is empty, only words were compared.
    """

    passages: list[FoundPassage]
    files: int
    waiting: int = 0
    unreadable: int = 0
    model: str = ""

    def for_prompt(self) -> FoundPassages:
        """Return the best passages, one at least, that together fit into a prompt."""
        count = room = 0
        for passage in self.passages:
            room += len(passage.text)
            if room > PROMPT_CHARACTERS and count:
                break
            count += 1
        return msgspec.structs.replace(self, passages=self.passages[:count])

    @property
    def summary(self) -> str:
        """Return what was searched and how, in a sentence."""
        by = f"by words and by meaning ({self.model})" if self.model else "by words"
        count, files = len(self.passages), self.files
        found = f"{count} passage{'' if count == 1 else 's'}"
        waiting = f"; {self.waiting:,} more are still being read" if self.waiting else ""
        return f"{found} of {files:,} file{'' if files == 1 else 's'}, found {by}{waiting}."


class Thumbnail(Answer, frozen=True, kw_only=True):
    """A picture in `width` × `height` pixels: `rgb` is base64 of 3 bytes a pixel, row by row."""

    width: int
    height: int
    rgb: str


TRANSCRIPTIONS = "/v1/audio/transcriptions"
TRANSLATIONS = "/v1/audio/translations"
SPEECH = "/v1/audio/speech"
PATIENCE = 3700.0
"""Seconds: the daemon stops after an hour."""


class FormBody(NamedTuple):
    """The body of a request that is no JSON."""

    content: bytes
    content_type: str


class HeardText(Answer, frozen=True):
    """The text that was recognised."""

    text: str


def audio_form(audio: bytes, **fields: str | None) -> FormBody:
    """Return a form of a file and the fields that are not None."""
    boundary = os.urandom(16).hex()
    parts: list[bytes] = []
    for name, value in fields.items():
        if value is not None:
            head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'
            parts.append(f"{head}{value}\r\n".encode())
    file = 'Content-Disposition: form-data; name="file"; filename="audio"'
    parts.append(f"--{boundary}\r\n{file}\r\n\r\n".encode())
    parts += [audio, f"\r\n--{boundary}--\r\n".encode()]
    return FormBody(b"".join(parts), f"multipart/form-data; boundary={boundary}")
