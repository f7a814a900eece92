"""Errors of loading and running models.

BackendError
├── LoadFailed            the model could not be loaded
│   ├── OutOfMemory       … for lack of memory
│   ├── FileRejected      … since the engine finds its file damaged
│   └── EngineFault       … since the engine computes wrongly here, or not at all
├── WorkerDied            the model's process ended unexpectedly
├── UnsupportedSampling   the engine's sampler does not implement an option
└── RequestRejected       the request is invalid, or this model cannot serve it
    ├── InputTooLong      … because a text exceeds the context
    ├── WrongTask         … because the model is for another task
    └── ContextExceeded   … because the prompt exceeds the context
"""

from __future__ import annotations

from collections.abc import Iterable

from ingle.models.model_task import ModelTask


class BackendError(Exception):
    """A failure with a message for the user, a stable code and, if possible, a hint."""

    code = "backend_error"

    def __init__(self, message: str, *, hint: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if code is not None:
            self.code = code


class LoadFailed(BackendError):
    """The model could not be loaded; a retry with the same file and settings will not help."""

    code = "load_failed"


class OutOfMemory(LoadFailed):
    """The model does not fit into the free memory."""

    code = "out_of_memory"


class FileRejected(LoadFailed):
    """The engine finds the file damaged, though its header is sound."""

    code = "invalid_model"


class EngineFault(LoadFailed):
    """The engine's check of itself failed, or the device did: another engine may run the model."""

    code = "engine_fault"


class WorkerDied(BackendError):
    """The worker process ended unexpectedly; `stderr_tail` holds its last lines.

    `is_fault`: it failed or hung by itself, rather than being ended from outside.
    """

    code = "worker_died"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        stderr_tail: str = "",
        is_fault: bool = False,
    ) -> None:
        super().__init__(message, hint=hint)
        self.stderr_tail = stderr_tail
        self.is_fault = is_fault


class UnsupportedSampling(BackendError):
    """The sampler does not support an active option; raised before sampling."""

    code = "unsupported_sampling"

    def __init__(self, options: Iterable[str]) -> None:
        super().__init__(
            f"The engine cannot sample with {', '.join(sorted(options))}.",
            hint="Leave the option out, or load the model with another engine.",
        )


class RequestRejected(BackendError):
    """The request is invalid; `param` names the field at fault."""

    code = "invalid_request"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        code: str | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint, code=code)
        self.param = param


class InputTooLong(RequestRejected):
    """A text to embed or to rank is longer than the model's context."""

    code = "context_length_exceeded"

    def __init__(self, what: str, tokens: int, context: int, *, param: str) -> None:
        """`what` names the text, at the beginning of a sentence."""
        super().__init__(
            f"{what} is {tokens} tokens long, {tokens - context} too many: "
            f"the model reads {context} at once.",
            hint="Split the text, or send 'truncate': true to have its end cut off.",
            param=param,
        )


_PURPOSES = {
    ModelTask.GENERATE: ("writes text", "Ask it through /v1/chat/completions or /v1/completions"),
    ModelTask.EMBED: ("turns texts into vectors", "Ask it through /v1/embeddings"),
    ModelTask.RERANK: ("ranks documents for a query", "Ask it through /v1/rerank"),
    ModelTask.TRANSCRIBE: ("recognises speech", "Ask it through /v1/audio/transcriptions"),
}
_WANTED = {
    ModelTask.GENERATE: ("cannot chat or complete text", "a model that chats"),
    ModelTask.EMBED: ("makes no embeddings", "an embedding model such as all-minilm"),
    ModelTask.RERANK: ("cannot rank documents", "a reranking model"),
    ModelTask.TRANSCRIBE: ("cannot recognise speech", "a Whisper model"),
}


class WrongTask(RequestRejected):
    """The model is for another task than the request."""

    code = "wrong_task"

    def __init__(self, has: ModelTask, wanted: ModelTask, *, name: str | None = None) -> None:
        purpose, door = _PURPOSES[has]
        lack, other = _WANTED[wanted]
        subject = f"The model '{name}'" if name else "This model"
        super().__init__(
            f"{subject} {purpose} and {lack}.", hint=f"{door}, or choose {other}.", param="model"
        )


class ContextExceeded(RequestRejected):
    """The prompt is longer than the model's context.

    Clients, LiteLLM among them, recognise it by "maximum context length is N tokens".
    """

    code = "context_length_exceeded"

    def __init__(self, prompt_tokens: int, context: int, *, exact: bool = True) -> None:
        """`exact` is False if the prompt is far too long and was not counted to its end."""
        at_least = "" if exact else "at least "
        super().__init__(
            f"The prompt is {at_least}{prompt_tokens} tokens long, "
            f"{at_least}{prompt_tokens - context + 1} too many: this model's maximum context "
            f"length is {context} tokens, and the answer needs room for one.",
            hint="Shorten the prompt.",
            param="messages",
        )
        self.prompt_tokens = prompt_tokens
        self.context = context
        self.exact = exact
