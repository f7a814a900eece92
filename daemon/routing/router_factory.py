"""The router of a daemon, by its settings."""

from __future__ import annotations

from ..settings.config import Config
from .egress.egress_gateway import Exits, NoExits
from .egress.provider_egress import Egress
from .policy.conversation_taint import TaintStore
from .policy.policy_file import FILE_NAME
from .policy.route_resolver import PolicySource, RouteNames
from .router import Router


def make_router(config: Config, exits: Exits | None = None) -> Router:
    """A router; without `exits`, those that the owner set up, and none where ingle is offline."""
    policy = PolicySource(config.paths.config / FILE_NAME)
    return Router(
        policy=policy,
        names=RouteNames(policy, config.default_model),
        exits=exits or _exits(config),
        taint=TaintStore(config.paths.state / "routing" / "taint.db"),
    )


def _exits(config: Config) -> Exits:
    return NoExits() if config.offline else Egress(config)
