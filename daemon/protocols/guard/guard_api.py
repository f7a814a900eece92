"""`/guard/`: what guarded programs send to their own providers, judged and masked."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base.errors import BackendError
from ingle.backends.remote.errors import RemoteForbidden
from ingle.backends.remote.providers import Provider
from ingle.backends.remote.receipt import Outcome

from ...client.guard_types import GuardRequest, GuardStarted, GuardSummary
from ...error_status import describe
from ...errors import Conflict, InvalidBody, NotFound, RequestError, WebSocketRefused
from ...http.bodies import ANTHROPIC, OPENAI, error_response, read_chunks, run_until_disconnect
from ...http.body_check import check_body, without_lone_surrogates
from ...http.off_loop import off_loop
from ...http.request_stack import request_stack
from ...http.route_access import ADMIN
from ...http.route_spec import route
from ...routing.egress.outbound_request import OutboundRequest
from ...routing.guard.guard_judge import guard_route, judge
from ...routing.guard.guard_runs import GuardRun, GuardRuns
from ...routing.guard.guarded_call import GuardedCall, guard_clearance
from ...routing.guard.guarded_request import CannotMask, GuardedRequest
from ...routing.guard.json_nodes import NotJson
from ...routing.policy.policy import Verdict
from ...routing.policy.policy_file import PolicyError
from ...routing.policy.route_resolver import RouteTarget
from ...routing.policy.routing_plan import RoutingPlan
from ...services import Services
from ..native.native_api import native_route
from ..services_api import ServicesApi
from .content_coding import decoded
from .guard_responses import AnsweredHere, PassedAnswer

_PATH = "/guard/{secret}/{upstream}/{path:path}"
_HERE = {
    "anthropic": {path: path for path in ("/v1/messages", "/v1/messages/count_tokens")},
    "openai": {path: f"/v1{path}" for path in ("/chat/completions", "/completions", "/responses")},
}
"""The paths that this daemon has for those of a provider."""

_guarded = partial(
    route,
    path=_PATH,
    access=ADMIN,
    error_format=OPENAI,
    response=bytes,
    errors=(404, 409, 413, 415, 426, 502, 504),
)


class Refused(RequestError):
    """A guarded program's request that stays here; 400, which programs do not repeat."""

    code = "guard_refused"


class GuardApi(ServicesApi):
    """Starts and ends guarded programs, and passes on what they send."""

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._runs = GuardRuns()

    @native_route("POST", "/ingle/v1/guard", access=ADMIN, errors=(409, 413, 422))
    async def start(self, body: GuardRequest) -> GuardStarted:
        """Begin to guard a program; the answer has the secret path for its requests."""
        secret = self._runs.start(
            body.upstreams, strict=body.strict, local=body.local, pid=body.pid
        )
        return GuardStarted(path=f"/guard/{secret}")

    @native_route("DELETE", "/ingle/v1/guard/{secret}", access=ADMIN, errors=(404,))
    async def end(self, secret: str) -> GuardSummary:
        """End the guard of a program, and return what left."""
        return self._runs.end(secret)

    @_guarded("GET")
    async def get(self, request: Request, secret: str, upstream: str) -> Response:
        """Ask a guarded program's provider, such as for its models."""
        return await self._pass_on(request, secret, upstream)

    @_guarded("DELETE")
    async def delete(self, request: Request, secret: str, upstream: str) -> Response:
        """Delete something at a guarded program's provider."""
        return await self._pass_on(request, secret, upstream)

    @_guarded("POST", request=bytes)
    async def post(self, request: Request, secret: str, upstream: str) -> Response:
        """Send a guarded program's request to its provider, masked."""
        return await self._pass_on(request, secret, upstream)

    async def _pass_on(self, request: Request, secret: str, upstream: str) -> Response:
        try:
            return await self._answer(request, self._runs.find(secret), upstream)
        except (RequestError, BackendError) as error:
            shape = ANTHROPIC if upstream == "anthropic" else OPENAI
            return error_response(describe(error), shape)

    async def _answer(self, request: Request, run: GuardRun, upstream: str) -> Response:
        if request.headers.get("upgrade", "").lower() == "websocket":
            raise WebSocketRefused(
                "What goes over a WebSocket cannot be judged here: use HTTP requests."
            )
        provider = _provider(run, upstream, request)
        if self._services.config.offline:
            raise RemoteForbidden("ingle is offline, so nothing leaves this machine.")
        raw, guarded = await self._read(request, run)
        host = urlsplit(provider.base_url).netloc
        plan, outbound = await self._judge(run, f"guard/{host}", guarded)
        headers, body = guarded.headers, guarded.body
        if outbound is not None and outbound.redaction is not None:
            try:
                headers, body = guarded.masked(outbound.redaction.changed)
            except CannotMask:
                outbound = None
        if outbound is None:
            return self._kept_here(request, run, upstream, plan, guarded)
        if raw is not None and body == guarded.body and headers == guarded.headers:
            content = raw
        else:
            content = body.encode()
            headers = [(name, value) for name, value in headers if name != "content-encoding"]
        redaction = outbound.redaction
        clearance = guard_clearance(outbound.clearance, run, guarded.target, content)
        call = GuardedCall(self._services.egress, run, provider, clearance, redaction)
        request_stack(request).push_async_callback(call.close, Outcome.CANCELLED)
        sending = call.send(request.method, guarded.target, headers, content)
        status, returned = await run_until_disconnect(request.receive, sending)
        run.sent += 1
        if redaction is not None and redaction.kinds:
            run.redacted += 1
            run.masked.update(redaction.kinds)
        return PassedAnswer(call, status, returned)

    async def _read(self, request: Request, run: GuardRun) -> tuple[bytes | None, GuardedRequest]:
        """Return the body as it was sent, and the request; raises `RequestError`.

        The body is None if it may not leave as it is, since it holds half a surrogate pair.
        """
        limit = self._services.config.max_body_bytes
        raw = b"".join([chunk async for chunk in read_chunks(request, limit)])
        body = decoded(raw, request.headers.get("content-encoding", ""), limit)
        headers = [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in request.scope["headers"]
        ]
        target = "/" + request.scope["raw_path"].decode("latin-1").split("/", 4)[4]
        if query := request.scope["query_string"].decode("latin-1"):
            target += f"?{query}"

        def read() -> tuple[bytes | None, GuardedRequest]:
            check_body(body)
            whole = without_lone_surrogates(body)
            guarded = GuardedRequest.read(run.name, target, headers, whole.decode(), run.received)
            return raw if whole == body else None, guarded

        try:
            return await off_loop(len(body), read)
        except NotJson as error:
            raise InvalidBody(
                f"The body is not JSON, so it cannot be judged and was not sent: {error}."
            ) from None

    async def _judge(
        self, run: GuardRun, provider: str, guarded: GuardedRequest
    ) -> tuple[RoutingPlan, OutboundRequest | None]:
        router = self._services.router
        try:
            route = guard_route(router.policy.current(), strict=run.strict)
            target = RouteTarget(
                route=route, local=run.local, provider=provider, model=guarded.model, named=True
            )
            return await judge(router, target, guarded.view, run.name)
        except PolicyError as error:
            raise Conflict(error.message, hint=error.hint, code="policy_is_wrong") from error

    def _kept_here(
        self,
        request: Request,
        run: GuardRun,
        upstream: str,
        plan: RoutingPlan,
        guarded: GuardedRequest,
    ) -> Response:
        """Answer a request here, or raise `Refused`."""
        path = _HERE.get(upstream, {}).get(guarded.target.partition("?")[0])
        if run.local and path is not None and guarded.model and request.method == "POST":
            run.answered_here += 1
            return AnsweredHere(path, guarded.for_model(run.local).encode())
        run.refused += 1
        reason = plan.reason
        if plan.considered is None or plan.considered.decision.verdict is Verdict.REDACT:
            reason = "It holds something that no placeholder can replace, so it stays here."
        run.reasons.append(reason)
        raise Refused(
            f"ingle did not send this request to {plan.target.provider.partition('/')[2]}. "
            f"{reason}",
            hint="Take it out of the conversation (such as by /rewind or /clear), or allow it in "
            "policy.toml under [routes.guard].",
        )


def _provider(run: GuardRun, upstream: str, request: Request) -> Provider:
    """Return the server of this name; raises `NotFound`."""
    # Codex sends the same requests elsewhere if it is logged in with an account of ChatGPT.
    chosen = "chatgpt" if upstream == "openai" and "chatgpt-account-id" in request.headers else ""
    provider = run.upstreams.get(chosen or upstream) or run.upstreams.get(upstream)
    if provider is None:
        raise NotFound(f"The guard of this program has no server '{upstream[:20]}'.")
    return provider
