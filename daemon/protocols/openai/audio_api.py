"""OpenAI's transcriptions and translations of audio files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Annotated, ClassVar, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from ingle.backends.base.errors import WrongTask
from ingle.models.errors import ModelNotFound
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.model_task import ModelTask
from ingle.models.struct_preparation import prepared

from ...errors import BodyTooLarge, InvalidBody
from ...http.bodies import (
    OPENAI,
    JSONResponse,
    encode_event,
    note_ignored,
    run_until_disconnect,
)
from ...http.field_policy import FieldPolicy, IgnoredField, decided_fields, ignored_fields
from ...http.request_stack import request_stack
from ...http.route_access import INFERENCE
from ...http.route_spec import StreamSpec, route
from ...http.sse_writer import EventStream, EventWriter, StreamStyle
from ...services import Services
from ...speech.speech_protocol import Recognise, Recognised, Segment
from ...speech.transcriber import MOST_BYTES
from ..field_policies import TRANSCRIPTION_FIELDS
from ..services_api import ServicesApi
from .multipart import read_form
from .transcripts import SpeechTranscript, TranscriptFormat, Transcription

_OTHER_FIELDS = 2**20
_THEIRS = ("whisper-1", "gpt-4o-transcribe", "gpt-4o-mini-transcribe")
"""OpenAI's names, which clients send by default: they mean the usual model."""
_GRANULARITIES = "timestamp_granularities[]"
_EXAMPLE = "hf.co/Systran/faster-whisper-base"


class TranslationForm(msgspec.Struct, kw_only=True):
    """The form of `POST /v1/audio/translations`."""

    field_policy: ClassVar[FieldPolicy] = FieldPolicy()
    file: Annotated[str, Meta(extra_json_schema={"format": "binary"})] = ""
    model: str | None = None
    prompt: str | None = None
    response_format: TranscriptFormat = "json"
    temperature: Annotated[float, Meta(ge=0, le=1)] = 0.0


class TranscriptionForm(TranslationForm, kw_only=True):
    """The form of `POST /v1/audio/transcriptions`.

    With any `chunking_strategy`, parts without speech are left out.
    """

    field_policy: ClassVar[FieldPolicy] = TRANSCRIPTION_FIELDS
    language: str | None = None
    granularities: list[Literal["word", "segment"]] = msgspec.field(
        default_factory=list[Literal["word", "segment"]], name=_GRANULARITIES
    )
    stream: bool = False
    chunking_strategy: str | UnsetType = UNSET

    @property
    def streams_in_json(self) -> bool:
        """Whether it asks for a format that a stream does not have."""
        return self.stream and self.response_format not in ("json", "text")

    def check(self) -> None:
        """Raise `InvalidBody` for times that the answer has no place for."""
        if self.granularities and (self.stream or self.response_format in ("json", "text")):
            raise InvalidBody(
                f"'{_GRANULARITIES}' needs the response format `verbose_json`"
                f"{' without `stream`' if self.stream else ''}.",
                hint="Text and events have no times.",
                param=_GRANULARITIES.removesuffix("[]"),
            )


F = TypeVar("F", bound=TranslationForm)


class TranscriptDelta(msgspec.Struct, frozen=True, tag="transcript.text.delta", tag_field="type"):
    """The text of a segment."""

    delta: str


class TranscriptDone(msgspec.Struct, frozen=True, tag="transcript.text.done", tag_field="type"):
    """The whole text."""

    text: str


class _AudioFile:
    """An audio file in memory: it is nowhere on a disk."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.write = self.content.extend
        self.discard = self.content.clear


_STREAM = StreamSpec({"": TranscriptDelta | TranscriptDone}, only_if="`stream` is true")
_route = partial(
    route,
    "POST",
    access=INFERENCE,
    error_format=OPENAI,
    upload=True,
    request_media="multipart/form-data",
    response=Transcription,
    errors=(404, 408, 413, 422, 429, 500),
)


class AudioApi(ServicesApi):
    """`/v1/audio/transcriptions` and `/v1/audio/translations`."""

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._limit = min(MOST_BYTES + _OTHER_FIELDS, services.config.max_upload_bytes)

    @_route("/v1/audio/transcriptions", request=TranscriptionForm, stream=_STREAM)
    async def transcribe(self, request: Request) -> Response:
        """Recognise speech: a form with an audio file."""
        form, content = await self._read(request, TranscriptionForm)
        form.check()
        task = Recognise(
            data=content,
            language=form.language or None,
            prompt=form.prompt,
            temperature=form.temperature,
            skip_silence=form.chunking_strategy is not UNSET,
            words="word" in form.granularities,
        )
        if form.stream:
            produce = partial(self._stream, form, task)
            return EventStream(produce, style=StreamStyle(on_error=OPENAI.frame))
        return await self._whole(request, form, task)

    @_route("/v1/audio/translations", request=TranslationForm)
    async def translate(self, request: Request) -> Response:
        """Recognise speech and write it in English."""
        form, content = await self._read(request, TranslationForm)
        prompt, temperature = form.prompt, form.temperature
        task = Recognise(data=content, prompt=prompt, temperature=temperature, translate=True)
        return await self._whole(request, form, task)

    async def _read(self, request: Request, kind: type[F]) -> tuple[F, bytes]:
        """Read the form into memory, in a place that the request holds to its end."""
        request_stack(request).enter_context(self._services.manager.speech.place())
        too_large = BodyTooLarge(
            f"The audio file has more than {MOST_BYTES // 2**20} MiB.",
            hint="Send parts of it, or a compressed format.",
            param="file",
        )
        try:
            read = await read_form(request, self._limit, _AudioFile)
        except BodyTooLarge:
            if self._limit <= MOST_BYTES:
                raise  # a setting says so
            raise too_large from None
        if read.file is None:
            raise InvalidBody("The form has no file.", param="file")
        if len(read.file.content) > MOST_BYTES:
            raise too_large
        fields = _named(read.fields, kind)
        form = _typed(fields, kind)
        ignored = ignored_fields(msgspec.json.encode(fields), kind)
        if isinstance(form, TranscriptionForm) and form.streams_in_json:
            ignored.append(IgnoredField("response_format", "response_format"))
        note_ignored(request, ignored)
        return form, bytes(read.file.content)

    async def _whole(self, request: Request, form: TranslationForm, task: Recognise) -> Response:
        transcript = await run_until_disconnect(request.receive, self._collect(form, task))
        if form.response_format == "json":
            return JSONResponse(transcript.short())
        if form.response_format == "verbose_json":
            asked = form.granularities if isinstance(form, TranscriptionForm) else []
            return JSONResponse(transcript.verbose(asked))
        return PlainTextResponse(transcript.as_text(form.response_format))

    async def _collect(self, form: TranslationForm, task: Recognise) -> SpeechTranscript:
        segments: list[Segment] = []
        async with aclosing(self._recognised(form, task)) as parts:
            first = await anext(parts)
            assert isinstance(first, Recognised)
            async for part in parts:
                assert isinstance(part, Segment)
                segments.append(part)
        name = "translate" if task.translate else "transcribe"
        return SpeechTranscript(name, first.language, first.seconds, segments)

    async def _stream(self, form: TranslationForm, task: Recognise, out: EventWriter) -> None:
        text = ""
        async with aclosing(self._recognised(form, task)) as parts:
            async for part in parts:
                if isinstance(part, Segment):
                    delta = part.part.text if text else part.part.text.lstrip()
                    text += delta
                    await out.send(encode_event(msgspec.json.encode(TranscriptDelta(delta))))
        await out.send(encode_event(msgspec.json.encode(TranscriptDone(text.rstrip()))))

    async def _recognised(
        self, form: TranslationForm, task: Recognise
    ) -> AsyncGenerator[Recognised | Segment]:
        model = await asyncio.to_thread(self._model, form.model)
        async with aclosing(self._services.manager.speech.recognise(model, task)) as parts:
            async for part in parts:
                yield part

    def _model(self, name: str | None) -> StoredModel:
        """Return the model of this name, or the usual one; blocks."""
        services = self._services
        if not name or (name in _THEIRS and services.aliases.target(name) is None):
            name = services.config.speech_model
        if name:
            model = services.resolve(name)
            if model.task is not ModelTask.TRANSCRIBE:
                raise WrongTask(model.task, ModelTask.TRANSCRIBE, name=model.name)
            return model
        known = [model for model in services.models() if model.task is ModelTask.TRANSCRIBE]
        if not known:
            raise ModelNotFound(
                "No model that recognises speech is on this machine.",
                hint=f"`ingle pull {_EXAMPLE}` fetches one (150 MB); or set `speech_model` in "
                "config.toml to a folder with one.",
            )
        return min(known, key=lambda model: model.size)


def _named(fields: Mapping[str, str], kind: type[TranslationForm]) -> dict[str, str]:
    """Return the fields by the names of the form's type: a list's may end in `[]` or not."""
    known = decided_fields(kind)

    def known_name(name: str) -> str:
        bare = name.removesuffix("[]")
        return next((each for each in (name, bare, f"{bare}[]") if each in known), name)

    return {known_name(name): value for name, value in fields.items()}


def _typed(fields: Mapping[str, str], kind: type[F]) -> F:
    """Return the fields of a form; raises `InvalidBody`."""
    values: dict[str, object] = {**fields}
    if _GRANULARITIES in fields:
        values[_GRANULARITIES] = fields[_GRANULARITIES].split(",")
    try:
        return msgspec.convert(values, prepared(kind), strict=False)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$.")
        field = where.rstrip("`").partition("[")[0]
        raise InvalidBody(
            f"'{field}' is wrong: {what[:1].lower()}{what[1:]}.", param=field
        ) from None
