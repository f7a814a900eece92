"""What can go wrong while running a model.

BackendError
├── LoadFailed            the worker could not make the model ready
│   └── OutOfMemory       … for lack of memory
├── WorkerDied            the model's process ended while it was needed
└── RequestRejected       this one request cannot be served
    └── ContextExceeded   … because its prompt does not fit
"""

from __future__ import annotations


class BackendError(Exception):
    """A failure with a sentence for people, a stable code, and where possible what to do next."""

    code = "backend_error"

    def __init__(self, message: str, *, hint: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if code is not None:
            self.code = code


class LoadFailed(BackendError):
    """The model could not be loaded; trying again with the same file and settings will not help."""

    code = "load_failed"


class OutOfMemory(LoadFailed):
    """The model does not fit into the memory that is free now."""

    code = "out_of_memory"


class WorkerDied(BackendError):
    """The worker process ended unexpectedly; `stderr_tail` holds its last lines."""

    code = "worker_died"

    def __init__(self, message: str, *, hint: str | None = None, stderr_tail: str = "") -> None:
        super().__init__(message, hint=hint)
        self.stderr_tail = stderr_tail


class RequestRejected(BackendError):
    """The request is wrong in itself; `param` names the field at fault."""

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


class ContextExceeded(RequestRejected):
    """The prompt has more tokens than the model's context holds."""

    code = "context_length_exceeded"

    def __init__(self, prompt_tokens: int, context: int, *, exact: bool = True) -> None:
        """A prompt far too long is not counted to its end: `exact` is False then."""
        at_least = "" if exact else "at least "
        super().__init__(
            f"The prompt is {at_least}{prompt_tokens} tokens long, "
            f"{at_least}{prompt_tokens - context + 1} too many: "
            f"the context holds {context}, and the answer needs room for one more.",
            hint="Shorten the prompt, or load the model with a larger context.",
            param="messages",
        )
        self.prompt_tokens = prompt_tokens
        self.context = context
        self.exact = exact
