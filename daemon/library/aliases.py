"""Names that clients have built in, such as `gpt-4o`, and the local models that answer to them."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from ingle.models.catalog import HUB_HOST, Catalog
from ingle.models.errors import ModelNotFound
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.store.model_store import ModelStore

from ..settings.alias_rules import is_pattern, normal_name

_LONGEST = 512
"""Characters of a name that patterns are tried on; no client's is longer."""

_SHOWN_MODELS = 8


class AliasTable:
    """Finds the model for any name a client may use.

    A model's own name comes before an alias, a full alias before a pattern, and of the patterns
    the one with the most characters that are not wildcards. A pattern is only for what a client
    says: aliases that lead to other aliases lead to full ones.
    """

    def __init__(
        self,
        aliases: Iterable[tuple[str, str]] = (),
        unknown_model: str = "",
        stand_in: Callable[[str], str | None] = lambda name: None,
    ) -> None:
        """`unknown_model` answers to names that nobody knows, where it is not empty.

        `stand_in` knows names that are no model's, and the model that answers to them here.
        """
        self._stand_in = stand_in
        exact: dict[str, str] = {}
        patterns: list[tuple[str, str]] = []
        for alias, target in aliases:
            if is_pattern(alias):
                patterns.append((normal_name(alias), target))
            else:
                exact[normal_name(alias)] = target
        self._exact: Mapping[str, str] = MappingProxyType(exact)
        patterns.sort(
            key=lambda row: (len(re.sub(r"[*?]", "", row[0])), -len(row[0])), reverse=True
        )
        self._patterns = tuple((_compile(pattern), target) for pattern, target in patterns)
        self._unknown_model = unknown_model

    def resolve(self, reference: str, store: ModelStore) -> StoredModel:
        """The model that `reference` means; blocking, since it reads the store.

        Raises what `ModelStore.resolve` raises.
        """
        reference = self._stand_in(reference) or reference
        try:
            return store.resolve(reference)
        except ModelNotFound as error:
            target = self.target(reference)
            if target is None and self._unknown_model and not _is_known(reference, store.catalog):
                target = self._final(self._unknown_model)
            if target is None:
                raise self._explained(error, reference, store) from None
        try:
            return store.resolve(self._stand_in(target) or target)
        except ModelNotFound as error:
            raise ModelNotFound(
                f"{reference!r} stands for {target!r} in the configuration, and there is no model "
                "of that name here.",
                hint=error.hint,
            ) from None

    def target(self, name: str) -> str | None:
        """The name that an alias or a pattern puts in the place of `name`."""
        wanted = normal_name(name)
        if wanted in self._exact:
            return self._final(wanted)
        if len(wanted) <= _LONGEST and not _is_path(wanted):
            for pattern, target in self._patterns:
                if pattern.match(wanted):
                    return self._final(target)
        return None

    def final(self, name: str) -> str:
        """`name`, or where it is a full alias, the name at its end."""
        return self._final(name)

    def entries(self) -> list[tuple[str, str]]:
        """Every full alias with the name at its end, in the order of the configuration."""
        return [(alias, self._final(alias)) for alias in self._exact]

    def _final(self, name: str) -> str:
        # The configuration was checked: there are no cycles.
        while (target := self._exact.get(normal_name(name))) is not None:
            name = target
        return name

    def _explained(self, error: ModelNotFound, reference: str, store: ModelStore) -> ModelNotFound:
        """The store's error, and where nobody knows the name, what there is in its place."""
        if _is_known(reference, store.catalog):
            return error
        installed = [model.name for model in store.list()]
        # Comparing takes time with the square of the length.
        said = normal_name(reference[:_LONGEST])
        near = difflib.get_close_matches(said, self._exact, n=1)
        names = [*near, *installed[:_SHOWN_MODELS]]
        more = len(installed) - _SHOWN_MODELS
        listed = ", ".join(f"`{name}`" for name in names) + (
            f" and {more} more" if more > 0 else ""
        )
        there_is = f"Here are {listed}." if names else "No model is installed yet."
        hint = (
            f"{error.hint} {there_is}" if error.hint and "Did you mean" in error.hint else there_is
        )
        return ModelNotFound(
            error.message,
            hint=f"{hint} An alias, or `unknown_model` in the configuration, makes a model answer "
            "to other names.",
        )


def _compile(pattern: str) -> re.Pattern[str]:
    # The library's translation takes linear time, whatever a client sends.
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]")))


def _is_path(name: str) -> bool:
    return name.startswith(("/", ".", "~", "\\"))


def _is_known(reference: str, catalog: Catalog) -> bool:
    """Whether it says which model it means, although that is not here: then no other will do."""
    name = reference.strip()
    hub = name.lower().startswith((f"{HUB_HOST}/", "https://", "huggingface.co/"))
    return hub or _is_path(name) or catalog.find(name) is not None
