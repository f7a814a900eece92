"""Builds the daemon's router from its settings, and selects the model that judges privacy."""

from __future__ import annotations

from ..lifecycle.model_manager import ModelManager
from ..settings.config import Config
from .egress.egress_gateway import EgressGateway, NoEgress
from .egress.provider_egress import ProviderEgress
from .inspection.privacy_judge import Generate
from .policy.conversation_taint import TaintStore
from .policy.policy_file import FILE_NAME
from .policy.route_resolver import PolicySource, RouteResolver
from .router import Router

LEAST_PARAMETERS = 1_000_000_000
"""Smaller models judge everything public (docs/privacy.md has the figures)."""


def make_router(config: Config, egress: EgressGateway | None = None) -> Router:
    """Return a router; by default with the configured providers, and none if ingle is offline."""
    policy = PolicySource(config.paths.config / FILE_NAME)
    return Router(
        policy=policy,
        names=RouteResolver(policy, config.default_model),
        egress=egress or _egress(config),
        taint=TaintStore(config.paths.state / "routing" / "taint.db"),
    )


def _egress(config: Config) -> EgressGateway:
    return NoEgress() if config.offline else ProviderEgress(config)


def loaded_judge(manager: ModelManager) -> Generate | None:
    """Return the largest loaded chat model; None if none is large enough."""
    best, most = None, LEAST_PARAMETERS - 1
    for model in manager.models():
        run = manager.find(model)
        if run is None or run.backend is None or run.info is None or not run.accepts:
            continue
        if run.info.has_chat_template and run.info.parameters > most:
            best, most = run.backend, run.info.parameters
    return None if best is None else best.generate
