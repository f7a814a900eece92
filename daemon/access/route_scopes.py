"""Which scope of a key each route needs, by method and path alone."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .permission import Permission, Scope

ANY = frozenset(Scope)
READ = frozenset({Scope.READ})
INFERENCE = frozenset({Scope.INFERENCE})
MODELS = frozenset({Scope.MODELS})
FILES = frozenset({Scope.FILES})
ADMIN = frozenset({Scope.ADMIN})
LISTS = frozenset({Scope.INFERENCE, Scope.READ, Scope.MODELS})
"""Whoever asks or changes models has to know which there are."""


@dataclass(frozen=True)
class RouteScopeRule:
    """What the routes below one path need; `unrestricted` ones name no model to check."""

    methods: frozenset[str]
    path: re.Pattern[str]
    needs: frozenset[Scope]
    unrestricted: bool = False


def _rule(
    methods: str, path: str, needs: frozenset[Scope], *, unrestricted: bool = False
) -> RouteScopeRule:
    return RouteScopeRule(frozenset(methods.split()), re.compile(path), needs, unrestricted)


_GET = "GET HEAD"
# The first rule that fits decides.
RULES = (
    _rule(_GET, r"/(health|api/version|openapi\.json)?", ANY),
    _rule(_GET, r"/health/ready", INFERENCE),
    _rule(_GET, r"/(v1|api/v0|api/v1|ingle/v1)/models(/.*)?", LISTS),
    _rule(_GET, r"/(models|props|lora-adapters|api/tags|api/ps|ingle/v1/fit)", LISTS),
    _rule("POST", r"/api/show", LISTS),
    _rule(_GET, r"/(metrics|slots|models/sse)", READ),
    _rule(_GET, r"/ingle/v1/(status|events|doctor|routing|ledger(/.*)?)", READ),
    _rule("POST", r"/ingle/v1/routing/explain", INFERENCE),
    _rule("POST", r"/(v1|api/v0)/(chat/completions|completions|embeddings)", INFERENCE),
    _rule("POST", r"/v1/(messages(/count_tokens)?|rerank|reranking)", INFERENCE),
    _rule("GET HEAD POST DELETE", r"/v1/responses(/.*)?", INFERENCE),
    _rule("POST", r"/(infill|completions?|embeddings?|rerank|reranking)", INFERENCE),
    _rule("POST", r"/(tokenize|detokenize|apply-template)", INFERENCE),
    _rule("POST", r"/api/(chat|generate|embed|embeddings)", INFERENCE),
    _rule("GET HEAD POST", r"/ingle/v1/(generations(/.*)?|tokens)", INFERENCE),
    _rule("POST", r"/(models|ingle/v1|api/v1/models)/(load|unload)", MODELS),
    _rule("POST", r"/(ingle/v1/pull(/cancel)?|api/pull)", MODELS),
    _rule("DELETE", r"/(ingle/v1/models/.*|api/delete)", MODELS),
    # These make models out of others, or of any file.
    _rule("POST", r"/(ingle/v1/models|api/(copy|create|push))", MODELS, unrestricted=True),
    _rule("GET HEAD POST", r"/api/blobs/.*", MODELS, unrestricted=True),
    _rule("GET HEAD DELETE", r"/v1/(files|batches)(/.*)?", FILES),
    _rule("POST", r"/v1/files", FILES),
    # What a batch asks is in its file, and runs long after the request.
    _rule("POST", r"/v1/batches(/.*)?", FILES, unrestricted=True),
)
_UNLISTED = RouteScopeRule(frozenset(), re.compile(""), ADMIN)


def rule_of(method: str, path: str) -> RouteScopeRule:
    """The rule for a request; a route that nobody listed is for admins."""
    fitting = (rule for rule in RULES if method in rule.methods and rule.path.fullmatch(path))
    return next(fitting, _UNLISTED)


def check_route(permission: Permission, method: str, path: str) -> None:
    """Pass where the sender may use the route at all; raises `KeyNotAllowed`."""
    rule = rule_of(method, path)
    permission.check_scope(rule.needs)
    if rule.unrestricted:
        permission.check_unrestricted()
