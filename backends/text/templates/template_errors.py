"""Errors of chat templates, worded for the user whose request failed."""

from __future__ import annotations

from ...base.errors import RequestRejected
from .template_protocol import RenderFailed

BROKEN_HINT = (
    "The template comes from the model file, which may be damaged or hostile. "
    "Try another file of this model, or send a prompt of your own to /v1/completions."
)


class TemplateError(RequestRejected):
    """The model's chat template is broken or exceeded a limit."""

    code = "template_failed"

    def __init__(self, message: str, *, hint: str | None = BROKEN_HINT) -> None:
        super().__init__(message, hint=hint)


class LimitExceeded(TemplateError):
    """The template exceeded its limit of time, memory, depth or output."""


class TemplateRefused(RequestRejected):
    """The template reports that it cannot express these messages."""

    code = "template_refused"

    def __init__(self, words: str) -> None:
        super().__init__(
            f"The model's chat template refuses these messages: {printable(words)}",
            hint="Change the order or the roles of the messages to what this model was trained on.",
            param="messages",
        )


class HelperDied(Exception):
    """The helper process ended for a reason other than the limits that the parent watches."""


def failure_error(answer: RenderFailed, memory: int) -> RequestRejected:
    """Return the error for a helper's failure; `memory` is its limit in bytes."""
    match answer.kind:
        case "refused":
            return TemplateRefused(answer.message)
        case "syntax" | "error":
            what = "failed" if answer.kind == "error" else "cannot be compiled"
            return TemplateError(f"The model's chat template {what}: {printable(answer.message)}")
        case "memory":
            return memory_error(memory)
        case "recursion":
            return LimitExceeded("The model's chat template recurses without end.")
        case "output":
            return LimitExceeded("The model's chat template wrote far more text than it was given.")


def memory_error(memory: int) -> LimitExceeded:
    """Return the error for exceeding `memory` bytes."""
    return LimitExceeded(
        f"The model's chat template wanted more than {memory // 2**20} MiB of memory."
    )


def printable(text: str) -> str:
    """Return the text without characters that could control a terminal or forge log lines."""
    return "".join(c if c.isprintable() else " " for c in text)
