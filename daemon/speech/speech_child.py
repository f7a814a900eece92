"""The daemon's side of the process that recognises speech."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from ingle.backends.base.errors import BackendError, LoadFailed, RequestRejected
from ingle.backends.base.framed_child import ChildDied, FramedChild, start_child

from .speech_protocol import (
    EndOfSpeech,
    NextSegment,
    OpenSpeechModel,
    Recognise,
    Recognised,
    Segment,
    SpeechFailed,
    SpeechMessage,
    SpeechModelOpened,
    SpeechReply,
)

PROCESS = "ingle.daemon.speech.speech_process"
_STEP_SECONDS = 300.0
"""For the decoding of a file, and for each segment, which takes seconds."""
_WHOLE_SECONDS = 3600.0


class SpeechChild(FramedChild):
    """Its memory is bounded, and what takes too long ends it; blocking, one caller at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._opened: OpenSpeechModel | None = None
        self._deadline = 0.0

    def open(self, model: OpenSpeechModel, import_path: Sequence[str]) -> None:
        """Have the process of this model run; raises `LoadFailed`."""
        process = self._process
        if process is not None and process.poll() is None and self._opened == model:
            return
        self.close()
        self._process, self._opened = start_child(PROCESS, import_path), model
        try:
            reply = self._exchange(model, _STEP_SECONDS)
        except (TimeoutError, ChildDied, msgspec.MsgspecError):
            reply = SpeechFailed("its process ended")
        if not isinstance(reply, SpeechModelOpened):
            self.close()
            reason = reply.reason if isinstance(reply, SpeechFailed) else "it answers wrongly"
            raise LoadFailed(
                f"The model {model.folder} cannot be loaded: {reason}.",
                hint="`ingle engine check speech` checks the engine; or pull the model again.",
            )

    def begin(self, task: Recognise) -> Recognised:
        """Decode a file and begin to recognise it; raises `RequestRejected`."""
        self._deadline = time.monotonic() + _WHOLE_SECONDS
        try:
            reply = self._exchange(task, _STEP_SECONDS)
        except TimeoutError:
            raise _unreadable("it takes too long") from None
        except (ChildDied, msgspec.MsgspecError):
            raise _unreadable("its file ended the process that reads it") from None
        if isinstance(reply, Recognised):
            return reply
        if isinstance(reply, SpeechFailed) and reply.param == "language":
            raise RequestRejected(
                f"The language {(task.language or '')[:40]!r} is unknown: {reply.reason}.",
                hint="Leave it out, so that it is detected.",
                param="language",
            )
        if isinstance(reply, SpeechFailed) and reply.param:
            raise _unreadable(reply.reason)
        raise _failed("it failed")

    def next(self) -> Segment | None:
        """Return the segment after the last one, None behind them; raises `BackendError`."""
        left = self._deadline - time.monotonic()
        try:
            reply = self._exchange(NextSegment(), max(1.0, min(_STEP_SECONDS, left)))
        except TimeoutError:
            raise _failed("it took too long") from None
        except (ChildDied, msgspec.MsgspecError):
            raise _failed("its process ended") from None
        if isinstance(reply, Segment):
            return reply
        if isinstance(reply, EndOfSpeech):
            return None
        raise _failed(reply.reason if isinstance(reply, SpeechFailed) else "it failed")

    def _exchange(self, message: SpeechMessage, seconds: float) -> SpeechReply:
        process = self._process
        if process is None:
            raise ChildDied
        answer = self._ask(process, msgspec.msgpack.encode(message), seconds)
        return msgspec.msgpack.decode(answer, type=SpeechReply)


def _unreadable(reason: str) -> RequestRejected:
    return RequestRejected(
        f"The audio cannot be read: {reason}.",
        hint="Send a WAV, MP3, FLAC, Ogg, M4A or WebM file of at most an hour.",
        code="invalid_audio",
        param="file",
    )


def _failed(reason: str) -> BackendError:
    return BackendError(
        f"The speech was not recognised to its end: {reason}.",
        hint="Send shorter parts, or use a smaller model.",
        code="speech_failed",
    )
