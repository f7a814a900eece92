"""What can go wrong with a chat template, said to the person whose request it stopped."""

from __future__ import annotations

from ...base.errors import RequestRejected
from .template_protocol import Failed

BROKEN_HINT = (
    "The template comes from the model file, which may be damaged or hostile. "
    "Try another file of this model, or send a prompt of your own to /v1/completions."
)


class TemplateError(RequestRejected):
    """The model's chat template is wrong in itself, or wanted more than it may have."""

    code = "template_failed"

    def __init__(self, message: str, *, hint: str | None = BROKEN_HINT) -> None:
        super().__init__(message, hint=hint)


class LimitExceeded(TemplateError):
    """The template wanted more time, memory, depth or output than it may have."""


class TemplateRefused(RequestRejected):
    """The template says that it cannot express these messages."""

    code = "template_refused"

    def __init__(self, words: str) -> None:
        super().__init__(
            f"The model's chat template refuses these messages: {printable(words)}",
            hint="Change the order or the roles of the messages to what this model was trained on.",
            param="messages",
        )


class HelperDied(Exception):
    """The helper process ended, and not because of a limit that the parent watches."""


def failure_error(answer: Failed, memory: int) -> RequestRejected:
    """The error for a helper's answer; `memory` is the limit it had, in bytes."""
    words = printable(answer.message)
    match answer.kind:
        case "refused":
            return TemplateRefused(answer.message)
        case "syntax":
            return TemplateError(f"The model's chat template cannot be compiled: {words}")
        case "error":
            return TemplateError(f"The model's chat template failed: {words}")
        case "memory":
            return memory_error(memory)
        case "recursion":
            return LimitExceeded("The model's chat template calls itself without end.")
        case "output":
            return LimitExceeded("The model's chat template wrote far more text than it was given.")


def memory_error(memory: int) -> LimitExceeded:
    """The template wanted more than `memory` bytes."""
    return LimitExceeded(
        f"The model's chat template wanted more than {memory // 2**20} MiB of memory."
    )


def printable(text: str) -> str:
    """The text without what could steer a terminal or forge a line of a log."""
    return "".join(c if c.isprintable() else " " for c in text)
