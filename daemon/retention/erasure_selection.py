"""Selects what to erase, by id or by time."""

from __future__ import annotations

import msgspec


class ErasureSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Selects the items `ids`; without ids all last used from `since` on and before `before`.

    Times are Unix seconds, None is no bound. `at_latest` includes what was last used since then: KV
    that a model writes only when it is unloaded has no earlier time.
    """

    ids: frozenset[str] = frozenset()
    since: float | None = None
    before: float | None = None
    at_latest: float | None = None
    but: frozenset[str] = frozenset()

    def covers(self, name: str, used: float) -> bool:
        """Whether the item of this name, last used at this time, is selected."""
        if name in self.but:
            return False
        if self.ids:
            return name in self.ids
        if self.at_latest is not None and used >= self.at_latest:
            return True
        return (self.since is None or used >= self.since) and (
            self.before is None or used < self.before
        )

    @property
    def is_all(self) -> bool:
        """Whether everything is selected."""
        return not self.ids and self.since is None and self.before is None
