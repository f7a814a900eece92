"""`providers.toml`: the configured remote providers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from ingle.backends.remote.providers import NAME, RESERVED_NAMES, Provider
from ingle.models.file_stamp import FileStamp
from ingle.models.struct_preparation import prepared

from ...config_editing.document_path import CannotEdit
from ...config_editing.toml_document import TOMLDocument
from ...stores.atomic_file import write_atomically
from .provider_errors import ProviderError, UnknownProvider
from .token_prices import PriceList, load_prices

_HEADER = re.compile(r"^\s*\[")


class ProviderStore:
    """The file, reloaded when it has changed, and edited without losing its comments."""

    def __init__(self, config: Path) -> None:
        """`config` is the folder of settings."""
        self.path = config / "providers.toml"
        self._own_prices = config / "prices.toml"
        self._stamp: FileStamp | None = None
        self._providers: list[Provider] = []

    def providers(self) -> list[Provider]:
        """Return all providers, in the file's order; raises `ProviderError` for an invalid file."""
        stamp = FileStamp.find(self.path)
        if stamp != self._stamp or stamp is None:
            self._providers = _read(self.path)
            self._stamp = stamp
        return list(self._providers)

    def find(self, name: str) -> Provider:
        """Return the provider of that name; raises `UnknownProvider`."""
        providers = self.providers()
        for provider in providers:
            if provider.name == name:
                return provider
        known = ", ".join(provider.name for provider in providers)
        raise UnknownProvider(
            f"There is no provider '{name}'.",
            hint=f"Providers: {known}." if known else "`ingle provider add` adds one.",
        )

    def add(self, provider: Provider) -> None:
        """Append a new provider; raises `ProviderError`."""
        if any(known.name == provider.name for known in self.providers()):
            raise ProviderError(
                f"A provider '{provider.name}' already exists.",
                hint=f"Change it in {self.path}, or `ingle provider remove {provider.name}`.",
            )
        text = self._text()
        gap = "\n" if text and not text.endswith("\n\n") else ""
        self._write(text + gap + _table(provider))

    def keep_models(self, name: str, models: Sequence[str], context: int | None) -> None:
        """Write the models of a provider, and their context in tokens if it is known.

        Raises `ProviderError`, with the file unchanged.
        """
        values = {"models": list(models)} | ({"context": context} if context else {})
        text = self._text()
        try:
            for key, value in values.items():
                text = TOMLDocument(text).changed((name, key), value)
        except CannotEdit as error:
            raise ProviderError(
                f"{self.path} was not changed: {error}", hint="Write `models` into it by hand."
            ) from None
        _parse(text, self.path)
        self._write(text)

    def remove(self, name: str) -> None:
        """Remove a provider from the file; raises `UnknownProvider` and `ProviderError`."""
        self.find(name)
        kept: list[str] = []
        inside = False
        for line in self._text().splitlines(keepends=True):
            if _HEADER.match(line):
                inside = line.split("#")[0].strip() in (f"[{name}]", f'["{name}"]')
            if not inside:
                kept.append(line)
        self._write("".join(kept))

    def prices(self, provider: Provider) -> PriceList:
        """Return the prices: of the provider's file, else the user's, else the built-in ones."""
        if provider.prices:
            return load_prices((self.path.parent / provider.prices).expanduser())
        return load_prices(self._own_prices if self._own_prices.exists() else None)

    def currency(self) -> str:
        """Return the currency of the user's price list, or of the built-in one; "" if it cannot be
        read.
        """
        try:
            return load_prices(self._own_prices if self._own_prices.exists() else None).currency
        except ProviderError:
            return ""

    def _text(self) -> str:
        try:
            return self.path.read_text("utf-8")
        except FileNotFoundError:
            return ""

    def _write(self, text: str) -> None:
        try:
            write_atomically(self.path, text.encode())
        except OSError as error:
            raise ProviderError(
                f"{self.path} cannot be written: {error.strerror}.",
                hint="The file is unchanged. Free space there, or change its permissions.",
            ) from error


def _read(path: Path) -> list[Provider]:
    try:
        return _parse(path.read_bytes().decode(), path)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ProviderError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise _not_toml(path, error) from error


def _parse(text: str, path: Path) -> list[Provider]:
    import tomllib

    try:
        tables = tomllib.loads(text)
    except ValueError as error:
        raise _not_toml(path, error) from error
    return [read_provider(name, table, path) for name, table in tables.items()]


def _not_toml(path: Path, error: ValueError) -> ProviderError:
    return ProviderError(
        f"{path} is not a TOML file: {error}.", hint="Each provider is a table: [groq]."
    )


def read_provider(name: str, table: object, origin: Path | str) -> Provider:
    """Return the provider that a table describes; raises `ProviderError`, which names the key."""
    if not isinstance(table, dict):
        raise ProviderError(
            f"'{name}' in {origin} does not belong to a provider.",
            hint="Each provider is a table, with its keys below its name: [groq].",
        )
    values = cast("dict[str, Any]", table)
    if not NAME.fullmatch(name) or name in RESERVED_NAMES:
        raise ProviderError(
            f"{name[:60]!r} in {origin} cannot be the name of a provider.",
            hint="Use up to 40 lower-case letters, digits, dots, dashes and underscores; "
            f"{', '.join(sorted(RESERVED_NAMES))} are reserved.",
        )
    if "name" in values or any("key" in key for key in values):
        raise ProviderError(
            f"[{name}] in {origin} has a key that does not belong there.",
            hint=f"API keys are not settings: remove it, and run `ingle provider key {name}`.",
        )
    try:
        return msgspec.convert({**values, "name": name}, prepared(Provider))
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$.")
        where = f"'{place.rstrip('`')}' of " if place else ""
        raise ProviderError(
            f"{where}[{name}] in {origin} cannot be used: {message}.",
            hint="docs/providers.md lists all keys.",
        ) from None


def _table(provider: Provider) -> str:
    """Return the provider as a table: what differs from the defaults."""
    lines = [f"[{provider.name}]" if "." not in provider.name else f'["{provider.name}"]']
    defaults = Provider(kind=provider.kind, base_url="https://localhost")
    for field in Provider.__struct_fields__:
        value = getattr(provider, field)
        if field == "name" or (field not in _ALWAYS and value == getattr(defaults, field)):
            continue
        # JSON literals for strings, numbers, lists and booleans are valid TOML as well.
        written = list(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value
        lines.append(f"{field} = {json.dumps(written, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"


_ALWAYS = frozenset({"kind", "base_url", "models"})


_OWN: Mapping[str, Any] = {
    "kind": "openai",
    "base_url": "http://127.0.0.1:8000/v1",
    "own": True,
    "json_schema": True,
    "extra_sampling": True,
}
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "openai": {
        "kind": "responses",
        "base_url": "https://api.openai.com/v1",
        "json_schema": True,
    },
    "anthropic": {"kind": "anthropic", "base_url": "https://api.anthropic.com/v1"},
    "openrouter": {"kind": "openai", "base_url": "https://openrouter.ai/api/v1"},
    "groq": {"kind": "openai", "base_url": "https://api.groq.com/openai/v1"},
    "mistral": {"kind": "openai", "base_url": "https://api.mistral.ai/v1", "json_schema": True},
    "own": _OWN,
    "vllm": _OWN,
}
"""Keys of `providers.toml` by the preset's name."""
