"""Where a remote model can be asked, and how: one provider of `providers.toml`."""

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
"""Words that say where a request may go; a provider called so would be taken for one of them."""

_LONGEST_MODEL = 200
_VISIBLE = re.compile(r"[\x21-\x7e]+")

Seconds = Annotated[float, Meta(gt=0, le=3600)]
Tokens = Annotated[int, Meta(ge=0, le=2**53)]


class ProviderKind(StrEnum):
    """The protocol that a provider speaks."""

    OPENAI = "openai"
    RESPONSES = "responses"
    ANTHROPIC = "anthropic"


class Provider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An address that runs models for us; times in seconds, budgets a calendar month (UTC).

    `own` says that the server is the owner's: only then, or on this machine, may the address be
    `http://`. `max_tokens` bounds an answer where the request does not. `context` is what a
    conversation may hold. `budget_money` is in the currency of the price file. `ca_file` adds
    certificates to those that are trusted anyway. `name` is the table's, not a key in it.
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
    """Whether it takes `top_k`, `min_p` and `repetition_penalty`, as vLLM and SGLang do."""

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
        """Whether asking without a key is pointless: one's own server may want none."""
        return not self.own

    @property
    def speaks(self) -> str:
        """The protocol in words."""
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
        raise ValueError(f"base_url is no address of a server: {example}")
    if parts.username is not None or parts.password is not None:
        raise ValueError("base_url holds a name or a password: `ingle provider key` keeps keys")
    if parts.query or parts.fragment:
        raise ValueError(f"base_url has a part behind ? or #: {example}")
    if parts.scheme == "http" and not (own or is_loopback(parts.hostname)):
        raise ValueError(
            "base_url is http://, which anybody on the way can read: use https://, or say "
            "own = true where the server and the network to it are yours"
        )


def is_loopback(host: str) -> bool:
    """Whether the name or the number means this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
