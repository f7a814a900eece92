"""Keep-alive and pinning rules that the configuration sets for models by name."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ingle.models.errors import ModelError
from ingle.models.metadata.stored_model import StoredModel

from ..settings.alias_rules import normal_name
from ..settings.config import Config


class KeepAliveRule(msgspec.Struct, frozen=True):
    """`keep_alive` in seconds, -1 for ever, None for the default."""

    keep_alive: float | None = None
    pinned: bool = False


NO_RULE = KeepAliveRule()


def find_rule(
    config: Config, resolve: Callable[[str], StoredModel], reference: str, model: StoredModel
) -> KeepAliveRule:
    """Return the rule for `model`, requested as `reference`; reads the store if there are rules.

    `resolve` returns the model of a name. A rule for the name that was requested takes precedence
    over one for another name of the model.
    """
    if not config.keep_alives and not config.pinned:
        return NO_RULE
    requested = normal_name(reference)

    def means_model(name: str) -> bool:
        if normal_name(name) == normal_name(model.name):
            return True
        try:
            return resolve(name).path == model.path
        except ModelError:
            return False  # a rule for a model that is not installed

    exact = [seconds for name, seconds in config.keep_alives if normal_name(name) == requested]
    same = [seconds for name, seconds in config.keep_alives if not exact and means_model(name)]
    pinned = any(normal_name(name) == requested or means_model(name) for name in config.pinned)
    return KeepAliveRule(next(iter(exact or same), None), pinned)
