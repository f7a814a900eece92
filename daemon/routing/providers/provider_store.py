"""`providers.toml`: the owner's list of who may be asked beside this machine."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, cast

import msgspec

from ingle.backends.remote.providers import NAME, RESERVED_NAMES, Provider

from ...stores.atomic_file import write_atomically
from .provider_errors import ProviderError, UnknownProvider
from .token_prices import PriceList, load_prices

_HEADER = re.compile(r"^\s*\[")


class ProviderStore:
    """The file, read again when it has changed, and changed without losing its comments."""

    def __init__(self, config: Path) -> None:
        """`config` is the folder of settings."""
        self.path = config / "providers.toml"
        self._own_prices = config / "prices.toml"
        self._stamp: tuple[int, int, int] | None = None
        self._providers: list[Provider] = []

    def providers(self) -> list[Provider]:
        """All of them, in the file's order; raises `ProviderError` for a file that is wrong."""
        stamp = _stamp(self.path)
        if stamp != self._stamp or stamp is None:
            self._providers = _read(self.path)
            self._stamp = stamp
        return list(self._providers)

    def find(self, name: str) -> Provider:
        """The provider of that name; raises `UnknownProvider`."""
        providers = self.providers()
        for provider in providers:
            if provider.name == name:
                return provider
        known = ", ".join(provider.name for provider in providers)
        raise UnknownProvider(
            f"There is no provider '{name}'.",
            hint=f"Known are: {known}." if known else "`ingle provider add` makes one.",
        )

    def add(self, provider: Provider) -> None:
        """Write a new provider behind the others; raises `ProviderError`."""
        if any(known.name == provider.name for known in self.providers()):
            raise ProviderError(
                f"There is a provider '{provider.name}' already.",
                hint=f"Change it in {self.path}, or `ingle provider remove {provider.name}`.",
            )
        text = self._text()
        gap = "\n" if text and not text.endswith("\n\n") else ""
        self._write(text + gap + _table(provider))

    def remove(self, name: str) -> None:
        """Take a provider out of the file; raises `UnknownProvider` and `ProviderError`."""
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
        """What it asks for: the provider's file, else the owner's, else ours."""
        if provider.prices:
            return load_prices((self.path.parent / provider.prices).expanduser())
        return load_prices(self._own_prices if self._own_prices.exists() else None)

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
                hint="Nothing has changed. Make room there, or get the right to write.",
            ) from error


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ino, found.st_size)


def _read(path: Path) -> list[Provider]:
    import tomllib

    try:
        tables = tomllib.loads(path.read_bytes().decode())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ProviderError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise ProviderError(
            f"{path} is not a TOML file: {error}.", hint="Each provider is a table: [groq]."
        ) from error
    return [read_provider(name, table, path) for name, table in tables.items()]


def read_provider(name: str, table: object, origin: Path | str) -> Provider:
    """The provider that a table describes; raises `ProviderError`, which names the key."""
    if not isinstance(table, dict):
        raise ProviderError(
            f"'{name}' in {origin} belongs to no provider.",
            hint="Each provider is a table, and its keys stand below its name: [groq].",
        )
    values = cast("dict[str, Any]", table)
    if not NAME.fullmatch(name) or name in RESERVED_NAMES:
        raise ProviderError(
            f"{name[:60]!r} in {origin} cannot be the name of a provider.",
            hint="Use up to 40 small letters, digits, dots, dashes and underscores; "
            f"{', '.join(sorted(RESERVED_NAMES))} mean something else.",
        )
    if "name" in values or any("key" in key for key in values):
        raise ProviderError(
            f"[{name}] in {origin} has a key that does not belong there.",
            hint=f"Keys are no settings: take it out, and type `ingle provider key {name}`.",
        )
    try:
        return msgspec.convert({**values, "name": name}, Provider)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$.")
        where = f"'{place.rstrip('`')}' of " if place else ""
        raise ProviderError(
            f"{where}[{name}] in {origin} cannot be used: {message}.",
            hint="docs/providers.md has all keys.",
        ) from None


def _table(provider: Provider) -> str:
    """The provider as a table: what differs from the defaults."""
    lines = [f"[{provider.name}]" if "." not in provider.name else f'["{provider.name}"]']
    defaults = Provider(kind=provider.kind, base_url="https://localhost")
    for field in Provider.__struct_fields__:
        value = getattr(provider, field)
        if field == "name" or (field not in _ALWAYS and value == getattr(defaults, field)):
            continue
        # JSON's words for texts, numbers, lists and truth are TOML's as well.
        written = list(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value
        lines.append(f"{field} = {json.dumps(written, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"


_ALWAYS = frozenset({"kind", "base_url", "models"})
