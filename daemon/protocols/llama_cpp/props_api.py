"""llama-server's properties of its model, its slots and its adapters."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, cast

import msgspec
from starlette.requests import Request

from ingle.backends.base.model_info import ModelInfo
from ingle.models.errors import ModelError
from ingle.models.gguf.gguf_header import read_header
from ingle.models.metadata.stored_model import StoredModel

from ...errors import InvalidBody, RequestError
from ...http.bodies import LLAMA_CPP
from ...http.route_access import INFERENCE, LISTS, READ
from ...http.route_spec import Parameter, route
from ...installed_version import installed_version
from ...load_planning.usable_context import usable_context
from ...model_process.loaded_model import loaded_model
from ...model_process.model_run import ModelState
from ..request_options import SamplingOptions, merge_sampling
from ..services_api import ServicesApi
from .adapters import adapters_of
from .completions_api import chosen_model
from .requests import MEDIA_MARKER
from .types import LoraAdapter, LoraScale

_MODEL = Parameter("model", "query", str, "The model; left out, the one used last, or the default.")


class DefaultSettings(msgspec.Struct, frozen=True):
    """The settings of a request that sets none; `n_ctx` is in tokens."""

    params: dict[str, Any]
    n_ctx: int


class Modalities(msgspec.Struct, frozen=True):
    """What a model reads beside text."""

    vision: bool = False
    video: bool = False
    audio: bool = False


class Props(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `GET /props`."""

    default_generation_settings: DefaultSettings
    total_slots: int
    model_alias: str
    model_path: str
    modalities: Modalities = Modalities()
    media_marker: str = MEDIA_MARKER
    chat_template: str
    bos_token: str
    eos_token: str
    build_info: str
    is_sleeping: bool
    """Whether the model is not loaded now."""

    endpoint_slots: bool = True
    endpoint_props: bool = False
    endpoint_metrics: bool = True


class Slot(msgspec.Struct, frozen=True):
    """One of the answers that a model can generate at the same time."""

    id: int
    n_ctx: int
    speculative: bool
    is_processing: bool


class NoSlot(RequestError):
    """Every slot is in use, and the request asks for an error then."""

    status = 503
    code = "no_slot"


_route = partial(route, "GET", error_format=LLAMA_CPP)


class PropsApi(ServicesApi):
    """`/props`, `/slots` and `/lora-adapters`, for reading."""

    @_route("/props", access=LISTS, parameters=(_MODEL,), errors=(404, 422))
    async def props(self, request: Request) -> Props:
        """A model's properties and the defaults of its requests, in llama-server's format."""
        model = await self._model(request)
        run = self._services.manager.find(model)
        if run is not None and run.info is not None:
            info = run.info
            context = max(info.context, run.longest_context)
            return _props(model, context, info.slots, info.chat_template, info)
        return await asyncio.to_thread(self._expected, model)

    @_route(
        "/slots",
        access=READ,
        parameters=(
            _MODEL,
            Parameter("fail_on_no_slot", "query", str, "503 where all slots are in use."),
        ),
        errors=(404, 422, 503),
    )
    async def slots(self, request: Request) -> list[Slot]:
        """The slots of a loaded model, and which of them are in use.

        A model that is not loaded has none.
        """
        model = await self._model(request)
        run = self._services.manager.find(model)
        if run is None or run.state is not ModelState.READY:
            return []
        loaded = loaded_model(run)
        busy = min(loaded.running, loaded.slots)
        if request.query_params.get("fail_on_no_slot") and busy == loaded.slots:
            raise NoSlot("Every slot is in use.", headers={"retry-after": "1"})
        speculates = loaded.speculation != "off"
        return [Slot(slot, loaded.context, speculates, slot < busy) for slot in range(loaded.slots)]

    @_route("/lora-adapters", access=LISTS, parameters=(_MODEL,), errors=(404, 422))
    async def lora_adapters(self, request: Request) -> list[LoraAdapter]:
        """The adapters of a model, with the numbers that the field `lora` of a request takes."""
        model = await self._model(request)
        return await asyncio.to_thread(adapters_of, self._services, model.name)

    @route(
        "POST",
        "/lora-adapters",
        access=INFERENCE,
        error_format=LLAMA_CPP,
        errors=(400,),
    )
    async def scale_adapters(self, body: list[LoraScale]) -> list[LoraAdapter]:
        """Refuse other scales than 0 for all requests, since other programs send some as well."""
        if any(each.scale for each in body):
            raise InvalidBody(
                "ingle applies no adapter to the requests of all programs: name the model "
                "MODEL+NAME, or give /completion the field 'lora'."
            )
        return []

    async def _model(self, request: Request) -> StoredModel:
        named = request.query_params.get("model")
        return await asyncio.to_thread(self._services.resolve, chosen_model(self._services, named))

    def _expected(self, model: StoredModel) -> Props:
        """The properties of a model that is not loaded, as if it were; reads its file."""
        context = usable_context(self._services, model)
        try:
            template = model.chat_template or read_header(model.path).chat_template
        except ModelError:  # asking for it says why
            template = model.chat_template
        return _props(model, context, self._services.config.slots, template, None)


def _props(
    model: StoredModel,
    context: int,
    slots: int,
    template: str | None,
    loaded: ModelInfo | None,
) -> Props:
    sampling = merge_sampling(SamplingOptions(), model.sampling)
    settings = cast("dict[str, Any]", msgspec.to_builtins(msgspec.structs.asdict(sampling)))
    settings |= {"seed": -1, "n_predict": -1, "max_tokens": -1}
    return Props(
        default_generation_settings=DefaultSettings(settings, context),
        total_slots=slots,
        model_alias=model.name,
        model_path=str(model.path),
        chat_template=template or "",
        bos_token=loaded.bos_token if loaded is not None else "",
        eos_token=loaded.eos_token if loaded is not None else "",
        modalities=Modalities(
            vision=loaded.sees if loaded is not None else model.projector is not None
        ),
        build_info=f"ingle-{installed_version()}",
        is_sleeping=loaded is None,
    )
