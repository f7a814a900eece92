"""Estimates time and cost of an answer on each side, from what was measured before."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from ingle.backends.base.model_info import Gauges
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.remote.receipt import TokenUsage
from ingle.models.errors import ModelError
from ingle.models.metadata.stored_model import StoredModel

from ..lifecycle.model_runs import ModelRuns
from ..machine.answer_energy import AnswerEnergy
from ..memory.eviction_plan import reload_seconds
from .egress.provider_egress import ProviderEgress
from .policy.answer_choice import AnswerEstimate, AnswerEstimates, is_weighed
from .policy.route_resolver import RouteTarget
from .policy.routing_plan import InspectedDecision
from .providers.provider_errors import ProviderError

log = logging.getLogger("ingle.daemon")

_CHARACTERS_PER_TOKEN = 4
_ANSWER_TOKENS = 256
"""Tokens of an answer, if none of the remote model was measured."""
_REMOTE_FIRST, _REMOTE_RATE = 1.5, 60.0
"""Seconds to the first token and tokens a second assumed for a remote model until it is measured;
otherwise it would never be chosen, and so never measured.
"""


class AnswerEstimator:
    """Estimates from the local model's gauges, the ledger and the price list."""

    def __init__(
        self,
        manager: ModelRuns,
        resolve: Callable[[str], StoredModel],
        energy: AnswerEnergy,
        egress: ProviderEgress,
    ) -> None:
        self._manager = manager
        self._resolve = resolve
        self._energy = energy
        self._egress = egress
        self._measured: dict[str, Gauges] = {}
        """The last gauges with speeds of each model, also after it was unloaded."""

    async def estimate(
        self, considered: InspectedDecision, requests: Sequence[GenerateRequest]
    ) -> AnswerEstimates | None:
        """Return what to expect of both sides; None if the route does not weigh them."""
        target = considered.target
        if target.named or not is_weighed(target.route.prefer):
            return None
        parts = [part for one in considered.inspected for part in one.parts]
        prompt = sum(len(part.text) for part in parts) / _CHARACTERS_PER_TOKEN
        try:
            remote, currency, answer = await asyncio.to_thread(
                self._remote, target, requests, prompt
            )
        except OSError as error:
            log.warning("What answers took and cost cannot be read: %s", error.strerror)
            return None
        try:
            model = await asyncio.to_thread(self._resolve, target.local)
        except ModelError:
            local = AnswerEstimate()
        else:
            local = self._local(model, prompt, answer)
        return AnswerEstimates(local=local, remote=remote, name=target.remote, currency=currency)

    def _remote(
        self, target: RouteTarget, requests: Sequence[GenerateRequest], prompt: float
    ) -> tuple[AnswerEstimate, str, int]:
        """Return the estimate, its currency, and the expected tokens of an answer; blocks."""
        name, history = target.remote, self._egress.history
        answer = history.answer_tokens(name) or _ANSWER_TOKENS
        answer = min([answer, *(each.max_tokens for each in requests if each.max_tokens)])
        measured = history.seconds(name, answer)
        first, last = measured or (_REMOTE_FIRST, _REMOTE_FIRST + answer / _REMOTE_RATE)
        cost, currency = None, ""
        try:
            provider = self._egress.store.find(target.provider)
            prices = self._egress.store.prices(provider)
        except ProviderError:
            price = None
        else:
            price, currency = prices.find(provider, target.model), prices.currency
        if price is not None:
            answers = sum(each.n for each in requests)
            cost = price.of(TokenUsage(prompt=round(prompt), completion=answer * answers))
        estimate = AnswerEstimate(first=first, last=last, cost=cost, assumed=measured is None)
        return estimate, currency, answer

    def _local(self, model: StoredModel, prompt: float, answer: int) -> AnswerEstimate:
        """Return the estimate: load, queue, prefill of what is not cached, and decode."""
        run = self._manager.find(model)
        gauges = run.backend.gauges if run is not None and run.backend is not None else None
        if gauges is not None and gauges.prompt_rate and gauges.decode_rate:
            self._measured[model.name] = gauges
        measured = self._measured.get(model.name)
        if measured is None:
            return AnswerEstimate(cost=None if self._energy.price else 0.0)
        seen = measured.prompt_tokens_total + measured.cached_tokens_total
        computed = prompt * measured.prompt_tokens_total / seen if seen else prompt
        prefill, decode = computed / measured.prompt_rate, answer / measured.decode_rate
        wait = 0.0
        if gauges is None:
            wait = reload_seconds(model.size, 0)
        elif run is not None and run.info is not None and run.info.slots:
            # Each answer takes as long as this one, and a slot becomes free evenly.
            ahead = max(0, gauges.running + gauges.waiting + 1 - run.info.slots)
            wait = ahead * (prefill + decode) / run.info.slots
        return AnswerEstimate(
            first=wait + prefill,
            last=wait + prefill + decode,
            cost=self._energy.cost(model.name, prefill + decode),
        )
