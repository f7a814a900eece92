"""What keeps a provider from being used, before anything is sent.

ProviderTrouble           a setting, a file or a key is not as it must be
├── UnknownProvider       there is none of that name
├── NoKey                 it wants a key, and there is none
├── BudgetExceeded        the month's money or tokens are spent
└── LedgerUnwritable      nobody could write down what leaves, so that nothing does
"""

from __future__ import annotations

from ingle.backends.remote.errors import RemoteError


class ProviderError(RemoteError):
    """Nothing leaves for this provider until somebody mends what the sentence says."""

    code = "provider_trouble"


class UnknownProvider(ProviderError):
    """There is no provider of that name."""

    code = "unknown_provider"


class NoKey(ProviderError):
    """The provider wants a key, and there is none."""

    code = "no_provider_key"


class BudgetExceeded(ProviderError):
    """What was asked for could cost more than is left of this month's budget."""

    code = "budget_exceeded"


class LedgerUnwritable(ProviderError):
    """The ledger cannot be written, and without an entry nothing leaves."""

    code = "ledger_unwritable"
