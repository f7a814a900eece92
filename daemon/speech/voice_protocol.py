"""Messages between `VoiceChild` and its process, framed as the worker protocol.

The process answers `Speak` with the first `Sound`, and `NextSound` with the one after the last, or
with `EndOfSound`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

SoundFormat = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]
"""Files of these kinds; `opus` is in Ogg, `pcm` is 16 bits at `RATE`, mono, little-endian."""
RATE = 24000
"""Samples a second."""


class Speak(msgspec.Struct, frozen=True, tag=True):
    """A text; what another `Speak` began is dropped."""

    text: str
    speed: float
    format: SoundFormat
    threads: int
    """To compute with, 0 for one a fast core; those of the first text count."""


class NextSound(msgspec.Struct, frozen=True, tag=True):
    """The part after the last one."""


class Sound(msgspec.Struct, frozen=True, tag=True):
    """The next bytes of the file, which may be none, and the seconds of speech in this part."""

    data: bytes
    seconds: float


class EndOfSound(msgspec.Struct, frozen=True, tag=True):
    """There are no more parts."""


class VoiceFailed(msgspec.Struct, frozen=True, tag=True):
    """A clause says why, and `fault` where it lies."""

    reason: str
    fault: Literal["voice", "packages", "text"] = "voice"


VoiceMessage = Speak | NextSound
VoiceReply = Sound | EndOfSound | VoiceFailed
