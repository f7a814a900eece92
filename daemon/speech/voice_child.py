"""The daemon's side of the process that turns text into sound."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from ingle.backends.base.errors import BackendError, RequestRejected
from ingle.backends.base.framed_child import ChildDied, FramedChild, start_child

from ..errors import NotFound
from .voice_protocol import EndOfSound, NextSound, Sound, Speak, VoiceFailed, VoiceReply

PROCESS = "ingle.daemon.speech.voice_process"
_STEP_SECONDS = 120.0
"""For a sentence, which takes less than one."""
_WHOLE_SECONDS = 600.0


class VoiceChild(FramedChild):
    """Its memory is bounded, and what takes too long ends it; blocking, one caller at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._deadline = 0.0

    def begin(self, task: Speak, import_path: Sequence[str]) -> Sound | None:
        """Return the first part, None without any; raises `NotFound`, and what `next` may."""
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = start_child(PROCESS, import_path)
        self._deadline = time.monotonic() + _WHOLE_SECONDS
        return self._next(task)

    def next(self) -> Sound | None:
        """Return the part after the last one, None behind them.

        Raises `RequestRejected` for a text that cannot be read, and `BackendError`.
        """
        return self._next(NextSound())

    def _next(self, message: Speak | NextSound) -> Sound | None:
        if self._process is None:
            raise _failed("its process was ended")
        left = self._deadline - time.monotonic()
        try:
            seconds = max(1.0, min(_STEP_SECONDS, left))
            body = self._ask(self._process, msgspec.msgpack.encode(message), seconds)
            reply = msgspec.msgpack.decode(body, type=VoiceReply)
        except TimeoutError:
            raise _failed("it took too long") from None
        except (ChildDied, msgspec.MsgspecError):
            raise _failed("its process ended") from None
        if isinstance(reply, VoiceFailed):
            raise _error(reply)
        return None if isinstance(reply, EndOfSound) else reply


def voice_missing() -> NotFound:
    """Return the error for an engine that is not installed, or has no voice yet."""
    return NotFound(
        "No voice is installed.",
        hint="`ingle engine install speech` fetches one (90 MB, with speech recognition).",
        code="engine_missing",
    )


def _error(reply: VoiceFailed) -> Exception:
    if reply.fault == "packages":
        return voice_missing()
    if reply.fault == "text":
        return RequestRejected(
            f"The voice cannot read this text ({reply.reason}).",
            hint="Leave out what no person would read aloud, such as very long numbers.",
            param="input",
        )
    return _failed(reply.reason)


def _failed(reason: str) -> BackendError:
    return BackendError(
        f"The text was not spoken to its end: {reason}.",
        hint="Send it again, or in shorter parts.",
        code="speech_failed",
    )
