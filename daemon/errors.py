"""Errors of requests, and the bodies that report them in each API.

RequestError
├── InvalidBody           the body is not the JSON that the route expects
│   └── UnsupportedField  … because of a field that is known but not supported
├── Unauthorized          the user is unknown, or the key is invalid
├── Forbidden             its user, host or web page is not allowed
│   └── RouteRefused      … because the policy keeps it on this machine
├── NotFound              no such route or resource
├── MethodNotAllowed      the path exists, the method does not
├── BodyTimeout           the body did not arrive
├── Conflict              impossible in the current state
├── BodyTooLarge          more bytes than `max_body_bytes`
├── UnsupportedMediaType  the body is not labelled as JSON, or compressed
├── TooManyGenerations    the daemon keeps no more generations
├── QueueFull             the model's queue is full
├── ShuttingDown          the daemon is shutting down
├── ModelStopped          the model was unloaded while the request waited for it
├── ModelQuarantined      the model's process crashed too often
├── MemoryBusy            the model fits once a busy one is unloaded
├── StorageFull           the disk is full
├── IndexUnusable         the index of a folder of documents cannot be read or written
└── MemoryExhausted       the model does not fit into this machine
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from .client.client_errors import UserError
from .client.error_types import ErrorDetail, NativeError


class RequestError(UserError):
    """A failed request: HTTP status, stable code, message and, if possible, a hint."""

    status = 400
    code = "invalid_request"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(message, hint)
        self.param = param
        self.headers = headers
        if code is not None:
            self.code = code


class InvalidBody(RequestError):
    """The body or the query is invalid; `param` names the field at fault."""


class UnsupportedField(InvalidBody):
    """A field that would change the answer is not supported."""

    code = "unsupported_field"


class Unauthorized(RequestError):
    """The daemon cannot tell which user the request is from."""

    status = 401
    code = "unauthorized"


class Forbidden(RequestError):
    """The request comes from a user, a host name or a web page that is not allowed."""

    status = 403
    code = "forbidden"


class RouteRefused(Forbidden):
    """A provider's model was requested for content that the policy keeps on this machine."""

    code = "route_refused"


class NotFound(RequestError):
    """No such route or resource."""

    status = 404
    code = "not_found"


class MethodNotAllowed(RequestError):
    """The path exists, the method does not."""

    status = 405
    code = "method_not_allowed"


class BodyTimeout(RequestError):
    """The body did not arrive in time."""

    status = 408
    code = "body_timeout"


class Conflict(RequestError):
    """The request cannot be served in the current state."""

    status = 409
    code = "conflict"


class BodyTooLarge(RequestError):
    """The body has more bytes than `max_body_bytes`."""

    status = 413
    code = "body_too_large"

    @classmethod
    def above(cls, limit: int, setting: str = "max_body_bytes") -> BodyTooLarge:
        """The error for a body of more than `limit` bytes, the value of `setting`."""
        return cls(
            f"The request's body is larger than the {limit} bytes that are allowed.",
            hint=f"Send less, or raise `{setting}`.",
        )


class UnsupportedMediaType(RequestError):
    """The body is not labelled as JSON, or compressed."""

    status = 415
    code = "unsupported_media_type"


class WebSocketRefused(RequestError):
    """The path answers HTTP only."""

    status = 426
    code = "no_web_socket"


class TooManyGenerations(RequestError):
    """The daemon keeps no more generations at once."""

    status = 429
    code = "too_many_generations"


class QueueFull(RequestError):
    """The model's queue is full; `headers` say when to retry."""

    status = 429
    code = "queue_full"


class ShuttingDown(RequestError):
    """The daemon is shutting down and accepts no new requests."""

    status = 503
    code = "shutting_down"


class ModelStopped(RequestError):
    """The model was unloaded while this request waited for it."""

    status = 503
    code = "model_stopped"


class ModelQuarantined(RequestError):
    """The model's process crashed so often that it is not started again for a while."""

    status = 503
    code = "model_quarantined"


class MemoryBusy(RequestError):
    """The model fits only after another one, which is in use, has been unloaded."""

    status = 503
    code = "memory_busy"


class StorageFull(RequestError):
    """The disk is full."""

    status = 507
    code = "disk_full"


class IndexUnusable(RequestError):
    """The index of a folder of documents cannot be read or written now."""

    status = 500
    code = "index_unusable"


class StorageUnusable(RequestError):
    """A folder of the daemon cannot be written, for another reason than a full disk."""

    status = 507
    code = "storage_unusable"


class MemoryExhausted(RequestError):
    """The model needs more memory than this machine can free."""

    status = 507
    code = "insufficient_memory"


class OpenAIErrorDetail(msgspec.Struct, frozen=True):
    """OpenAI's error: `param` is the field at fault, `code` is stable."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(msgspec.Struct, frozen=True):
    """The body of every error under `/v1/`."""

    error: OpenAIErrorDetail


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A failure, independent of the protocol that reports it."""

    status: int
    code: str
    message: str
    hint: str | None = None
    param: str | None = None
    headers: dict[str, str] = {}
    prompt_tokens: int | None = None
    """The length of a prompt that exceeds the `context`."""

    context: int | None = None

    @property
    def type(self) -> str:
        """OpenAI's type of the error: too many requests, the client's or the server's."""
        if self.status == 429:
            return "rate_limit_error"
        return "invalid_request_error" if self.status < 500 else "server_error"

    @property
    def sentence(self) -> str:
        """The message and the hint, for protocols that have one field for both."""
        return self.message if self.hint is None else f"{self.message} {self.hint}"

    def native(self) -> NativeError:
        """The body of errors in the native API."""
        return NativeError(ErrorDetail(self.code, self.message, self.hint))

    def openai(self) -> OpenAIError:
        """The body in OpenAI's format, which has no field for the hint."""
        return OpenAIError(OpenAIErrorDetail(self.sentence, self.type, self.param, self.code))


class AnthropicErrorDetail(msgspec.Struct, frozen=True):
    """Anthropic's type of the error, and a message."""

    type: str
    message: str


class AnthropicError(msgspec.Struct, frozen=True, kw_only=True):
    """The body of every error under `/v1/messages`."""

    type: Literal["error"] = "error"
    error: AnthropicErrorDetail
    request_id: str

    @classmethod
    def of(cls, problem: Problem) -> AnthropicError:
        """Return the body in Anthropic's format, https://docs.anthropic.com/en/api/errors.

        Clients recognise a prompt that is too long by this message, and read its numbers.
        """
        other = "invalid_request_error" if problem.status < 500 else "api_error"
        kind = _ANTHROPIC_KINDS.get(problem.status, other)
        sentence = problem.sentence
        if problem.prompt_tokens is not None:
            sentence = (
                f"prompt is too long: {problem.prompt_tokens} tokens > {problem.context} maximum"
            )
        return cls(
            error=AnthropicErrorDetail(kind, sentence), request_id=f"req_{secrets.token_hex(12)}"
        )


class OllamaError(msgspec.Struct, frozen=True):
    """The body of every error under `/api/`."""

    error: str

    @classmethod
    def of(cls, problem: Problem) -> OllamaError:
        """Return the body in Ollama's format."""
        return cls(problem.sentence)


class LlamaCppErrorDetail(msgspec.Struct, frozen=True):
    """llama-server's error: `code` is the status."""

    code: int
    message: str
    type: str
    n_prompt_tokens: int | UnsetType = UNSET
    n_ctx: int | UnsetType = UNSET


class LlamaCppError(msgspec.Struct, frozen=True):
    """The body of every error at llama-server's own paths."""

    error: LlamaCppErrorDetail

    @classmethod
    def of(cls, problem: Problem) -> LlamaCppError:
        """Return the body in llama-server's format."""
        status, sentence, tokens = problem.status, problem.sentence, problem.prompt_tokens
        if tokens is None or problem.context is None:
            kind = _LLAMA_CPP_KINDS.get(status, problem.type)
            return cls(LlamaCppErrorDetail(status, sentence, kind))
        kind = "exceed_context_size_error"
        return cls(LlamaCppErrorDetail(status, sentence, kind, tokens, problem.context))


_ANTHROPIC_KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}

_LLAMA_CPP_KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    501: "not_supported_error",
    503: "unavailable_error",
}
