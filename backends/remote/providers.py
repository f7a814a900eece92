"""A provider entry of `providers.toml`: address, protocol, models, limits."""

from __future__ import annotations

import ipaddress
import re
from enum import StrEnum
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,38}[a-z0-9])?")
RESERVED_NAMES = frozenset({"auto", "local", "ask", "cloud", "ingle"})
"""Reserved routing words; a provider with such a name would be ambiguous."""

_LONGEST_MODEL = 200
_VISIBLE = re.compile(r"[\x21-\x7e]+")

Seconds = Annotated[float, Meta(gt=0, le=3600)]
Tokens = Annotated[int, Meta(ge=0, le=2**53)]


class ProviderKind(StrEnum):
    """The protocol of a provider."""

    OPENAI = "openai"
    RESPONSES = "responses"
    ANTHROPIC = "anthropic"


class Provider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An address that serves models; times in seconds, budgets per calendar month (UTC).

    `own` marks the owner's server: only such a server, or one on this machine, may use `http://`.
    `max_tokens` bounds an answer if the request does not. `context` is the longest conversation in
    tokens. `budget_money` is in the currency of the price file. `ca_file` adds trusted
    certificates. `name` is the name of the table, not a key in it.
    """

    kind: ProviderKind
    base_url: str
    name: str = ""
    models: tuple[str, ...] = ()
    own: bool = False
    connect_timeout: Seconds = 10.0
    first_byte_timeout: Seconds = 120.0
    idle_timeout: Seconds = 60.0
    total_timeout: Seconds = 1800.0
    retries: Annotated[int, Meta(ge=0, le=5)] = 2
    max_tokens: Annotated[int, Meta(ge=1, le=2**20)] = 4096
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    context: Annotated[int, Meta(ge=256, le=2**24)] = 128_000
    json_schema: bool = False
    extra_sampling: bool = False
    """Whether it accepts `top_k`, `min_p` and `repetition_penalty`, as vLLM and SGLang do."""

    budget_money: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    budget_tokens: Tokens | None = None
    prices: str = ""
    ca_file: str = ""

    def __post_init__(self) -> None:
        if self.name and (not NAME.fullmatch(self.name) or self.name in RESERVED_NAMES):
            raise ValueError(
                "a provider's name is up to 40 small letters, digits, dots, dashes and "
                f"underscores, and none of {', '.join(sorted(RESERVED_NAMES))}"
            )
        check_address(self.base_url, own=self.own)
        for model in self.models:
            if not 0 < len(model) <= _LONGEST_MODEL or not _VISIBLE.fullmatch(model):
                raise ValueError(f"{model[:40]!r} cannot be the name of a model")

    @property
    def needs_key(self) -> bool:
        """Return whether requests without a key are pointless; the owner's server may need none."""
        return not self.own

    @property
    def protocol_name(self) -> str:
        """Return the name of the protocol for people."""
        return _WORDS[self.kind]


_WORDS = {
    ProviderKind.OPENAI: "OpenAI's chat completions",
    ProviderKind.RESPONSES: "OpenAI's Responses",
    ProviderKind.ANTHROPIC: "Anthropic's messages",
}


def check_address(url: str, *, own: bool) -> None:
    """Raise `ValueError` unless requests may go to this address."""
    example = 'write it as "https://api.example.com/v1"'
    if not _VISIBLE.fullmatch(url):
        raise ValueError(f"base_url has characters that no address has: {example}")
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        raise ValueError(f"base_url has no usable port: {example}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError(f"base_url is not the address of a server: {example}")
    if parts.username is not None or parts.password is not None:
        raise ValueError("base_url holds a name or a password: `ingle provider key` keeps keys")
    if parts.query or parts.fragment:
        raise ValueError(f"base_url has a query or a fragment: {example}")
    if parts.scheme == "http" and not (own or is_loopback(parts.hostname)):
        raise ValueError(
            "base_url is http://, which anyone on the network path can read: use https://, or say "
            "own = true where the server and the network to it are yours"
        )


def is_loopback(host: str) -> bool:
    """Return whether the name or address means this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
