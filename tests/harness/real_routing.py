"""The daemon's real routing, for a fake daemon: it inspects, and never sends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ingle.backends.base.backend import RequestBackend
from ingle.backends.base.conversation import ChatMessage
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.remote.clearance import Clearance
from ingle.backends.remote.providers import Provider, ProviderKind
from ingle.daemon.protocols.ingle_options import RequestOrigin, routing_preference_of
from ingle.daemon.protocols.native.requests import generation_request
from ingle.daemon.protocols.native.types import ExplainRequest, WordsRequest
from ingle.daemon.routing.policy.conversation_taint import TaintStore
from ingle.daemon.routing.policy.mask_edits import MaskEdits
from ingle.daemon.routing.policy.route_resolver import PolicySource, RouteResolver
from ingle.daemon.routing.policy.taught_words import teach
from ingle.daemon.routing.router import Router
from ingle.daemon.routing.routing_explanation import explain

Json = dict[str, Any]


class _Egress:
    """The provider acme with its model big, or none."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def providers(self) -> list[Provider]:
        return [
            Provider(
                name=name, kind=ProviderKind.OPENAI, base_url="http://127.0.0.1:9", models=("big",)
            )
            for name in self._names
        ]

    def trouble(self, provider: Provider) -> str:
        return ""

    async def backend(
        self, clearance: Clearance, request: GenerateRequest, *, retried: bool = True
    ) -> RequestBackend:
        raise AssertionError("nothing is sent")


class RealRouting:
    """Explains bodies of requests with the policy in a folder."""

    def __init__(self, folder: Path, providers: Sequence[str]) -> None:
        self.policy = PolicySource(folder / "policy.toml")
        self.router = Router(
            policy=self.policy,
            names=RouteResolver(self.policy, "smollm2:135m"),
            egress=_Egress(providers),
            taint=TaintStore(folder / "taint.db"),
        )

    async def explain(self, content: Json) -> Json:
        body = msgspec.json.decode(msgspec.json.encode(content), type=ExplainRequest)
        origin = RequestOrigin(conversation=body.conversation or "")
        edits = None
        if body.hide is not None or body.show is not None:
            edits = MaskEdits(body.hide or (), body.show or ())
        asked = (
            GenerateRequest(id="gen-1", messages=[ChatMessage("user", body.text)])
            if body.text is not None
            else generation_request(body, origin)
        )
        said = await explain(
            self.router,
            body.model or "auto",
            asked,
            preference=routing_preference_of(body),
            override=body.override is not None,
            edits=edits,
        )
        return msgspec.to_builtins(said)

    def teach(self, content: Json) -> None:
        words = msgspec.convert(content, WordsRequest)
        teach(self.policy.path, words=words.words, public=words.public)
