"""Which requests get a diet, by the settings."""

from __future__ import annotations

from collections.abc import Sequence

from ..settings.alias_rules import normal_name
from ..settings.config import Config

_KEY = "key:"


def diet_of(config: Config, names: Sequence[str], key: str | None) -> str:
    """Return the diet for a request by this API key to a model of these names, the requested first.

    A rule for the key takes precedence over one for the model.
    """
    rules = {normal_name(name): diet for name, diet in config.agent_diets}
    wanted = [*([f"{_KEY}{key}"] if key else []), *names]
    found = (rules[name] for name in map(normal_name, wanted) if name in rules)
    return next(found, config.agent_diet)
