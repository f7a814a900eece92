"""Aliases: names built into clients, such as `gpt-4o`, mapped to local models."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Callable, Iterable

from ingle.models.catalog import HUB_HOST, Catalog
from ingle.models.errors import ModelNotFound
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.store.model_store import ModelStore

from ..settings.alias_rules import is_pattern, normal_name

_LONGEST = 512
"""Characters of a name that patterns are matched against; no client uses longer names."""

_SHOWN_MODELS = 8


class AliasTable:
    """Resolves any name that a client may use to a model.

    A model's own name takes precedence over an alias, a full alias over a pattern, and the pattern
    with the most non-wildcard characters over other patterns. Patterns match only names from
    clients: an alias may point to a full alias, not to a pattern.
    """

    def __init__(
        self,
        aliases: Iterable[tuple[str, str]] = (),
        unknown_model: str = "",
        stand_in: Callable[[str], str | None] = lambda name: None,
    ) -> None:
        """`unknown_model` answers to unknown names, if it is not empty.

        `stand_in` returns the local model for a name that is not a model's, or None.
        """
        self._stand_in = stand_in
        rows = [(normal_name(alias), target) for alias, target in aliases]
        self._exact = {alias: target for alias, target in rows if not is_pattern(alias)}
        patterns = [row for row in rows if is_pattern(row[0])]
        patterns.sort(
            key=lambda row: (len(re.sub(r"[*?]", "", row[0])), -len(row[0])), reverse=True
        )
        self._patterns = tuple((_compile(pattern), target) for pattern, target in patterns)
        self._unknown_model = unknown_model

    def resolve(self, reference: str, store: ModelStore) -> StoredModel:
        """Return the model for `reference`; blocking, since it reads the store.

        Raises what `ModelStore.resolve` raises.
        """
        reference = self._stand_in(reference) or reference
        try:
            return store.resolve(reference)
        except ModelNotFound as error:
            target = self.target(reference)
            if target is None and self._unknown_model and not _is_known(reference, store.catalog):
                target = self.final(self._unknown_model)
            if target is None:
                raise self._explained(error, reference, store) from None
        try:
            return store.resolve(self._stand_in(target) or target)
        except ModelNotFound as error:
            raise ModelNotFound(
                f"{reference!r} is an alias of {target!r} in the configuration, but no model "
                "of that name is installed.",
                hint=error.hint,
            ) from None

    def target(self, name: str) -> str | None:
        """Return the target of the alias or pattern that matches `name`; None if none does."""
        wanted = normal_name(name)
        if wanted in self._exact:
            return self.final(wanted)
        if len(wanted) <= _LONGEST and not _is_path(wanted):
            for pattern, target in self._patterns:
                if pattern.match(wanted):
                    return self.final(target)
        return None

    def entries(self) -> list[tuple[str, str]]:
        """Return every full alias with its final target, in the order of the configuration."""
        return [(alias, self.final(alias)) for alias in self._exact]

    def final(self, name: str) -> str:
        """Return `name` with full aliases resolved."""
        # The configuration was validated: there are no cycles.
        while (target := self._exact.get(normal_name(name))) is not None:
            name = target
        return name

    def _explained(self, error: ModelNotFound, reference: str, store: ModelStore) -> ModelNotFound:
        """Return the store's error; if the name is unknown, with a hint that lists alternatives."""
        if _is_known(reference, store.catalog):
            return error
        installed = [model.name for model in store.list()]
        # The cost of comparing grows with the square of the length.
        said = normal_name(reference[:_LONGEST])
        near = difflib.get_close_matches(said, self._exact, n=1)
        names = [*near, *installed[:_SHOWN_MODELS]]
        more = len(installed) - _SHOWN_MODELS
        listed = ", ".join(f"`{name}`" for name in names) + (
            f" and {more} more" if more > 0 else ""
        )
        there_is = f"Installed models: {listed}." if names else "No model is installed yet."
        hint = (
            f"{error.hint} {there_is}" if error.hint and "Did you mean" in error.hint else there_is
        )
        return ModelNotFound(
            error.message,
            hint=f"{hint} To make a model answer to other names, define an alias or set "
            "`unknown_model` in the configuration.",
        )


def _compile(pattern: str) -> re.Pattern[str]:
    # `fnmatch.translate` yields patterns that match in linear time, whatever a client sends.
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]")))


def _is_path(name: str) -> bool:
    return name.startswith(("/", ".", "~", "\\"))


def _is_known(reference: str, catalog: Catalog) -> bool:
    """Whether it identifies a model, installed or not: then no other may answer for it."""
    name = reference.strip()
    hub = name.lower().startswith((f"{HUB_HOST}/", "https://", "huggingface.co/"))
    return hub or _is_path(name) or catalog.find(name) is not None
