"""The errors of requests, and the bodies that report them in each API.

RequestError
├── InvalidBody           the body is not the JSON that the route takes
│   └── UnsupportedField  … because of a field that is known but not served
├── Unauthorized          the request names no user that the daemon knows
├── Forbidden             its user or its address may not make it
│   └── RouteRefused      … because the policy keeps it on this machine
├── NotFound              no such route or resource
├── MethodNotAllowed      the path exists, the method does not
├── BodyTimeout           the body did not arrive
├── Conflict              it cannot be done in the present state
├── BodyTooLarge          more bytes than `max_body_bytes`
├── UnsupportedMediaType  the body is labelled as something else than JSON
├── TooManyGenerations    the daemon has enough to do
├── QueueFull             the model has enough to do
├── ShuttingDown          the daemon ends
├── ModelStopped          the model was unloaded while the request waited for it
├── ModelQuarantined      the model died too often
├── MemoryBusy            it will fit once a model that answers now is done
├── StorageFull           the disk has no room for what is to be kept
└── MemoryExhausted       it does not fit into this machine
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from .client.error_types import ErrorDetail, NativeError


class RequestError(Exception):
    """A request that gets no answer: status, stable code, sentence, and where possible a hint."""

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
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.param = param
        self.headers = headers
        if code is not None:
            self.code = code


class InvalidBody(RequestError):
    """The body or the query is not what the route takes; `param` names the field at fault."""


class UnsupportedField(InvalidBody):
    """The field would change the answer, and is not served."""

    code = "unsupported_field"


class Unauthorized(RequestError):
    """The daemon cannot tell which user the request is from."""

    status = 401
    code = "unauthorized"


class Forbidden(RequestError):
    """The request comes from a user, a host name or a web page that may not ask."""

    status = 403
    code = "forbidden"


class RouteRefused(Forbidden):
    """A provider's model was chosen by name for what the owner's policy keeps here."""

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
    """It cannot be done in the present state."""

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
    """The body is labelled as something else than JSON."""

    status = 415
    code = "unsupported_media_type"


class TooManyGenerations(RequestError):
    """More generations at once than the daemon keeps."""

    status = 429
    code = "too_many_generations"


class QueueFull(RequestError):
    """As many requests wait for the model as may; `headers` say when to try again."""

    status = 429
    code = "queue_full"


class ShuttingDown(RequestError):
    """The daemon ends and takes no new work."""

    status = 503
    code = "shutting_down"


class ModelStopped(RequestError):
    """The model was unloaded while this request waited for it."""

    status = 503
    code = "model_stopped"


class ModelQuarantined(RequestError):
    """The model's process died so often that it is left alone for a while."""

    status = 503
    code = "model_quarantined"


class MemoryBusy(RequestError):
    """The model fits only once another one, which answers now, has gone."""

    status = 503
    code = "memory_busy"


class StorageFull(RequestError):
    """The disk has no room for what is to be kept."""

    status = 507
    code = "disk_full"


class MemoryExhausted(RequestError):
    """The model needs more memory than this machine can free."""

    status = 507
    code = "insufficient_memory"


class OpenAIErrorDetail(msgspec.Struct, frozen=True):
    """OpenAI's error: `param` is the field at fault, `code` a stable word."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(msgspec.Struct, frozen=True):
    """The body of every error under `/v1/`."""

    error: OpenAIErrorDetail


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One failure as every protocol can tell it."""

    status: int
    code: str
    message: str
    hint: str | None = None
    param: str | None = None
    headers: dict[str, str] = {}
    prompt_tokens: int | None = None
    """Those of a prompt that the `context` does not hold."""

    context: int | None = None

    @property
    def type(self) -> str:
        """OpenAI's word for whose fault it is."""
        return "invalid_request_error" if self.status < 500 else "server_error"

    @property
    def sentence(self) -> str:
        """The message with its hint, for protocols that have one place for both."""
        return self.message if self.hint is None else f"{self.message} {self.hint}"

    def native(self) -> NativeError:
        """The shape outside `/v1/`."""
        return NativeError(ErrorDetail(self.code, self.message, self.hint))

    def openai(self) -> OpenAIError:
        """OpenAI's shape; it has no place for a hint, so the sentence carries it."""
        return OpenAIError(OpenAIErrorDetail(self.sentence, self.type, self.param, self.code))


class AnthropicErrorDetail(msgspec.Struct, frozen=True):
    """Anthropic's word for the kind of failure, and a sentence."""

    type: str
    message: str


class AnthropicError(msgspec.Struct, frozen=True, kw_only=True):
    """The body of every error under `/v1/messages`."""

    type: Literal["error"] = "error"
    error: AnthropicErrorDetail
    request_id: str

    @classmethod
    def of(cls, problem: Problem) -> AnthropicError:
        """The failure in Anthropic's words, https://docs.anthropic.com/en/api/errors.

        Clients know a prompt that is too long by the words, and shorten it by the numbers in them.
        """
        kind = _ANTHROPIC_KINDS.get(problem.status)
        if kind is None:
            kind = "invalid_request_error" if problem.status < 500 else "api_error"
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
        """The failure in Ollama's words."""
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
        """The failure in llama-server's words."""
        detail = LlamaCppErrorDetail(
            problem.status,
            problem.sentence,
            _LLAMA_CPP_KINDS.get(problem.status, problem.type),
        )
        if problem.prompt_tokens is None or problem.context is None:
            return cls(detail)
        return cls(
            msgspec.structs.replace(
                detail,
                type="exceed_context_size_error",
                n_prompt_tokens=problem.prompt_tokens,
                n_ctx=problem.context,
            )
        )


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
