"""Errors that keep a provider from being used, before anything is sent.

`ProviderError` is the base: a setting, a file or a key is invalid.
"""

from __future__ import annotations

from ingle.backends.remote.errors import RemoteError


class ProviderError(RemoteError):
    """Nothing is sent to this provider until the described problem is fixed."""

    code = "provider_trouble"


class UnknownProvider(ProviderError):
    """There is no provider of that name."""

    code = "unknown_provider"


class NoKey(ProviderError):
    """The provider needs a key, and has none."""

    code = "no_provider_key"


class BudgetExceeded(ProviderError):
    """The request could cost more than is left of this month's budget."""

    code = "budget_exceeded"


class LedgerUnwritable(ProviderError):
    """The ledger cannot be written, and without an entry nothing leaves."""

    code = "ledger_unwritable"
