"""Token prices of providers, from a file that the user can edit."""

from __future__ import annotations

import datetime
import re
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from ingle.backends.remote.providers import Provider
from ingle.backends.remote.receipt import TokenUsage
from ingle.models.struct_preparation import prepared

from .provider_errors import ProviderError

_MILLION = 1_000_000
_DATED = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|\d{4}|latest)$")
"""Version suffixes of model names, which share the model's price."""

Amount = Annotated[float, Meta(ge=0, le=1e6)]


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Price per million tokens; `cached` prompt tokens cost as much as others if None."""

    input: Amount
    output: Amount
    cached: Amount | None = None

    @property
    def is_free(self) -> bool:
        """Whether tokens cost nothing."""
        return not (self.input or self.output or self.cached)

    def of(self, usage: TokenUsage) -> float:
        """Return the cost of that many tokens, rounded to a billionth."""
        cached = min(usage.cached, usage.prompt)
        rate = self.input if self.cached is None else self.cached
        money = (usage.prompt - cached) * self.input + cached * rate
        return round((money + usage.completion * self.output) / _MILLION, 9)


class PriceList(msgspec.Struct, frozen=True, kw_only=True):
    """All prices of one file, by host and model."""

    dated: datetime.date
    currency: str
    hosts: dict[str, dict[str, Price]]

    def find(self, provider: Provider, model: str) -> Price | None:
        """Return the price of a model; None if it is not listed.

        The user's own servers cost nothing unless listed.
        """
        models = self.hosts.get(urlsplit(provider.base_url).hostname or "", {})
        price = models.get(model) or models.get(_DATED.sub("", model))
        if price is None and provider.own:
            return Price(0.0, 0.0)
        return price


def load_prices(path: Path | None) -> PriceList:
    """Return the prices of the file, or the built-in ones; raises `ProviderError`."""
    import tomllib

    try:
        if path is None:
            folder = resources.files("ingle.daemon.routing.providers")
            text = (folder / "prices.toml").read_text("utf-8")
        else:
            text = path.read_text("utf-8")
        values: dict[str, Any] = tomllib.loads(text)
        dated, currency = values.pop("dated", None), values.pop("currency", None)
        if type(dated) is not datetime.date or not isinstance(currency, str):
            raise ValueError('it needs `dated` (a day) and `currency` (such as "USD")')
        hosts = msgspec.convert(cast("object", values), prepared(dict[str, dict[str, Price]]))
        return PriceList(dated=dated, currency=currency, hosts=hosts)
    except OSError as error:
        raise ProviderError(
            f"The prices in {path} cannot be read: {error.strerror}.",
            hint="Name another file at `prices` in providers.toml, or remove that line.",
        ) from error
    except (ValueError, msgspec.ValidationError) as error:
        raise ProviderError(
            f"The prices in {path} are invalid: {error}.",
            hint='A host is a table of models: "gpt-5" = { input = 1.25, output = 10.0 }.',
        ) from error
