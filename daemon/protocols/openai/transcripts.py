"""The formats of a transcript: JSON, text and subtitles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from ...speech.speech_protocol import Segment, TranscribedSegment, Word

TranscriptFormat = Literal["json", "text", "srt", "verbose_json", "vtt"]


class AudioUsage(msgspec.Struct, frozen=True, tag="duration", tag_field="type"):
    """The length of the audio."""

    seconds: float


class Transcription(msgspec.Struct, frozen=True, kw_only=True):
    """The text, in `verbose_json` with its parts; `language` is a code, such as "en"."""

    text: str
    usage: AudioUsage
    task: Literal["transcribe", "translate"] | UnsetType = UNSET
    language: str | UnsetType = UNSET
    duration: float | UnsetType = UNSET
    segments: list[TranscribedSegment] | UnsetType = UNSET
    words: list[Word] | UnsetType = UNSET


@dataclass(frozen=True)
class SpeechTranscript:
    """What was recognised in an audio file of so many `seconds`."""

    task: Literal["transcribe", "translate"]
    language: str
    seconds: float
    segments: Sequence[Segment]

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(segment.part.text for segment in self.segments).strip()

    def short(self) -> Transcription:
        """Return the answer in the format `json`."""
        return Transcription(text=self.text, usage=AudioUsage(self.seconds))

    def verbose(self, granularities: Sequence[str]) -> Transcription:
        """Return the answer with these parts; without any, with segments."""
        segments = [segment.part for segment in self.segments]
        words = [word for segment in self.segments for word in segment.words]
        return Transcription(
            task=self.task,
            language=self.language,
            duration=self.seconds,
            text=self.text,
            segments=segments if "segment" in granularities or not granularities else UNSET,
            words=words if "word" in granularities else UNSET,
            usage=AudioUsage(self.seconds),
        )

    def as_text(self, form: TranscriptFormat) -> str:
        """Return the text, or subtitles in the format `srt` or `vtt`."""
        if form not in ("srt", "vtt"):
            return f"{self.text}\n"
        mark = "," if form == "srt" else "."
        cues = ["WEBVTT\n"] if form == "vtt" else []
        for number, part in enumerate((each.part for each in self.segments), 1):
            # An arrow within a text would be read as times.
            text = part.text.strip().replace("-->", "->")
            times = f"{_clock(part.start, mark)} --> {_clock(part.end, mark)}"
            number_line = f"{number}\n" if form == "srt" else ""
            cues.append(f"{number_line}{times}\n{text}\n")
        return "\n".join(cues)


def _clock(seconds: float, mark: str) -> str:
    whole = round(seconds * 1000)
    minutes, left = divmod(whole // 1000, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{left:02}{mark}{whole % 1000:03}"
