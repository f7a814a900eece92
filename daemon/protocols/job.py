"""A checked request of any protocol, which waits only for its model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from msgspec import structs

from ingle.backends.base.conversation import Infill
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.base.sampling_params import SamplingParams

from ..lifecycle.lease import Lease
from ..routing.policy.routing_preference import NO_PREFERENCE, RoutingPreference
from .sampling_options import SamplingOptions, merge_sampling


@dataclass(frozen=True, kw_only=True)
class Job:
    """One request, or the same one for several `prompts` or gaps; its id is the answer's.

    `options` are laid over the sampling that the model recommends. The model is loaded with at
    least `context` tokens, and stays for `keep_alive` seconds after its last use, where they are
    given; -1 is for ever. `messages_field` is what the protocol calls the conversation. `fit` may
    shorten the job once its model is there. `preference` is the request's routing
    preference; `opaque` names content that is not text, and so never leaves this machine.
    """

    model: str
    request: GenerateRequest
    prompts: tuple[str | list[int] | Infill, ...] = ()
    options: SamplingOptions = SamplingOptions()  # noqa: RUF009 - nobody changes it
    context: int | None = None
    keep_alive: float | None = None
    messages_field: str = "messages"
    fit: Callable[[Job, Lease], Awaitable[Job]] | None = None
    preference: RoutingPreference = NO_PREFERENCE
    opaque: str = ""

    @property
    def id(self) -> str:
        """The request's."""
        return self.request.id

    @property
    def answers(self) -> int:
        """Sequences it asks for."""
        return self.request.n * max(1, len(self.prompts))

    def requests(self, recommended: Mapping[str, float]) -> list[GenerateRequest]:
        """One request a prompt, with the model's own sampling where the client said nothing."""
        sampling = merge_sampling(self.options, recommended)
        if not self.prompts:
            return [self._request(0, sampling)]
        return [
            structs.replace(self._request(number, sampling), infill=prompt)
            if isinstance(prompt, Infill)
            else structs.replace(self._request(number, sampling), prompt=prompt)
            for number, prompt in enumerate(self.prompts)
        ]

    def _request(self, number: int, sampling: SamplingParams) -> GenerateRequest:
        return structs.replace(self.request, id=f"{self.id}-{number}", sampling=sampling)
