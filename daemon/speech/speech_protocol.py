"""Messages between `Transcriber` and its process, framed as the worker protocol.

The process answers each message with one: `OpenSpeechModel` with `SpeechModelOpened`, `Recognise`
with `Recognised`, and `NextSegment` with `Segment`, or `EndOfSpeech` behind the last one.
"""

from __future__ import annotations

import msgspec


class OpenSpeechModel(msgspec.Struct, frozen=True, tag=True):
    """The folder of the model, and the threads to compute with, 0 for one a fast core.

    The first message.
    """

    folder: str
    threads: int


class Recognise(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An audio file; what another `Recognise` began is dropped.

    Without a `language` it is detected. At `temperature` 0, higher ones are tried where the text
    is improbable. `translate` writes English. `skip_silence` leaves out what is no speech. `words`
    wants the times of words.
    """

    data: bytes
    language: str | None = None
    prompt: str | None = None
    temperature: float = 0.0
    translate: bool = False
    skip_silence: bool = False
    words: bool = False


class NextSegment(msgspec.Struct, frozen=True, tag=True):
    """The segment after the last one."""


class SpeechModelOpened(msgspec.Struct, frozen=True, tag=True):
    """The model is loaded."""


class Recognised(msgspec.Struct, frozen=True, tag=True):
    """The language's code, and the length of the audio in seconds."""

    language: str
    seconds: float


class Word(msgspec.Struct, frozen=True):
    """A word and its place in seconds."""

    word: str
    start: float
    end: float


class TranscribedSegment(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the text with its place, in seconds, and how probable it is."""

    id: int
    seek: int
    start: float
    end: float
    text: str
    tokens: list[int]
    temperature: float
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float


class Segment(msgspec.Struct, frozen=True, tag=True):
    """A part of the text, and its words if they were wanted."""

    part: TranscribedSegment
    words: list[Word]


class EndOfSpeech(msgspec.Struct, frozen=True, tag=True):
    """There are no more segments."""


class SpeechFailed(msgspec.Struct, frozen=True, tag=True):
    """A clause says why; `param` is the field at fault, "" if it is the model."""

    reason: str
    param: str = "file"


SpeechMessage = OpenSpeechModel | Recognise | NextSegment
SpeechReply = SpeechModelOpened | Recognised | Segment | EndOfSpeech | SpeechFailed
