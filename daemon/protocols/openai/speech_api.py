"""OpenAI's `/v1/audio/speech`: text as sound, in a voice of this machine."""

from __future__ import annotations

from base64 import b64encode
from contextlib import aclosing
from functools import partial
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from ingle.models.errors import ModelNotFound

from ...access.permission import current_permission
from ...errors import InvalidBody
from ...http.bodies import OPENAI, encode_event, note_ignored, run_until_disconnect
from ...http.field_policy import FieldPolicy, IgnoredField
from ...http.route_access import INFERENCE
from ...http.route_spec import GENERATION_ERRORS, StreamSpec, route
from ...http.sse_writer import EventStream, EventWriter, StreamStyle
from ...speech.voice_protocol import SoundFormat, Speak
from ..field_policies import SPEECH_FIELDS
from ..services_api import ServicesApi

VOICE = "heart"
"""The only one; American English."""
_THEIR_VOICES = frozenset(
    {
        *("alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx"),
        *("sage", "shimmer", "verse"),
    }
)
"""OpenAI's, of which clients must send one: they mean ours."""
MODEL = "hibari"
_MODELS = frozenset((MODEL, "tts-1", "tts-1-hd", "gpt-4o-mini-tts", "gpt-4o-mini-tts-2025-12-15"))
"""The only one, and OpenAI's names, which mean it."""
_MEDIA_TYPES: dict[SoundFormat, str] = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}


class VoiceId(msgspec.Struct, frozen=True):
    """A voice by its id."""

    id: str


class SpeechRequest(msgspec.Struct, kw_only=True):
    """The body of `POST /v1/audio/speech`."""

    field_policy: ClassVar[FieldPolicy] = SPEECH_FIELDS
    input: Annotated[str, Meta(min_length=1, max_length=4096)]
    model: str = MODEL
    voice: str | VoiceId = VOICE
    response_format: SoundFormat = "mp3"
    speed: Annotated[float, Meta(ge=0.5, le=2)] = 1.0
    stream_format: Literal["audio", "sse"] = "audio"


class SoundDelta(msgspec.Struct, frozen=True, tag="speech.audio.delta", tag_field="type"):
    """The next bytes of the file, in base64."""

    audio: str


class SoundDone(msgspec.Struct, frozen=True, tag="speech.audio.done", tag_field="type"):
    """The end of the file."""


class SpeechApi(ServicesApi):
    """`/v1/audio/speech`."""

    @route(
        "POST",
        "/v1/audio/speech",
        access=INFERENCE,
        error_format=OPENAI,
        response=bytes,
        stream=StreamSpec({"": SoundDelta | SoundDone}, only_if="`stream_format` is `sse`"),
        errors=GENERATION_ERRORS,
    )
    async def speak(self, request: Request, body: SpeechRequest) -> Response:
        """Speak an English text."""
        self._check(request, body)
        speed, threads = body.speed, self._services.config.threads
        task = Speak(body.input, speed, body.response_format, threads)
        if body.stream_format == "sse":
            style = StreamStyle(on_error=OPENAI.frame)
            return EventStream(partial(self._stream, task), style=style)
        # In one piece: it takes a hundredth of its length, and a failure keeps its status.
        sound = await run_until_disconnect(request.receive, self._whole(task))
        return Response(sound, media_type=_MEDIA_TYPES[body.response_format])

    def _check(self, request: Request, body: SpeechRequest) -> None:
        current_permission().check_model(MODEL)
        if body.model not in _MODELS:
            raise ModelNotFound(
                f"No model that speaks is called '{body.model[:80]}'.",
                hint="Leave 'model' out, or send tts-1.",
            )
        voice = body.voice if isinstance(body.voice, str) else body.voice.id
        if voice in _THEIR_VOICES:
            note_ignored(request, [IgnoredField("voice", "voice")])
        elif voice != VOICE:
            raise InvalidBody(
                f"There is no voice '{voice[:80]}'.",
                hint=f"Send '{VOICE}', or one of OpenAI's names, which mean it.",
                param="voice",
            )

    async def _whole(self, task: Speak) -> bytes:
        async with aclosing(self._services.manager.voice.speak(task)) as parts:
            return b"".join([part.data async for part in parts])

    async def _stream(self, task: Speak, out: EventWriter) -> None:
        async with aclosing(self._services.manager.voice.speak(task)) as parts:
            async for part in parts:
                if part.data:
                    delta = SoundDelta(b64encode(part.data).decode())
                    await out.send(encode_event(msgspec.json.encode(delta)))
        await out.send(encode_event(msgspec.json.encode(SoundDone())))
