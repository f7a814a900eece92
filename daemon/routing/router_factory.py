"""The router of a daemon, by its settings."""

from __future__ import annotations

from ..settings.config import Config
from .egress.egress_gateway import EgressGateway, NoEgress
from .egress.provider_egress import ProviderEgress
from .policy.conversation_taint import TaintStore
from .policy.policy_file import FILE_NAME
from .policy.route_resolver import PolicySource, RouteResolver
from .router import Router


def make_router(config: Config, exits: EgressGateway | None = None) -> Router:
    """A router; without `exits`, those that the owner set up, and none where ingle is offline."""
    policy = PolicySource(config.paths.config / FILE_NAME)
    return Router(
        policy=policy,
        names=RouteResolver(policy, config.default_model),
        exits=exits or _exits(config),
        taint=TaintStore(config.paths.state / "routing" / "taint.db"),
    )


def _exits(config: Config) -> EgressGateway:
    return NoEgress() if config.offline else ProviderEgress(config)
