"""llama-server's slots, whose prompts are saved and restored by name."""

from __future__ import annotations

import asyncio
import re
import secrets
import time

import msgspec
from msgspec import UNSET, UnsetType
from starlette.requests import Request

from ingle.backends.base.requests import GenerateRequest, TokenizeRequest
from ingle.models.metadata.stored_model import StoredModel

from ...access.permission import current_permission
from ...errors import InvalidBody, NotFound, RequestError
from ...http.bodies import LLAMA_CPP, run_until_disconnect
from ...http.route_access import INFERENCE
from ...http.route_spec import GENERATION_ERRORS, Parameter, route
from ...lifecycle.lease import Lease
from ...load_planning.kv_folder import weights_digest
from ...warming.slot_prompts import SavedPrompt
from ..job import Job
from ..job_runner import JobApi
from .completions_api import chosen_model

_NAME = re.compile(r"[\w-][\w. -]{0,127}")


class SlotFile(msgspec.Struct):
    """The body of `POST /slots/{id}`: a name, not a path."""

    filename: str
    model: str | None = None


class SlotTimings(msgspec.Struct, frozen=True):
    """How long it took, in milliseconds."""

    save_ms: float | UnsetType = UNSET
    restore_ms: float | UnsetType = UNSET


class SlotAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of a saved or restored prompt, and the bytes of their keys and values."""

    id_slot: int
    filename: str
    n_saved: int | UnsetType = UNSET
    n_written: int | UnsetType = UNSET
    n_restored: int | UnsetType = UNSET
    n_read: int | UnsetType = UNSET
    timings: SlotTimings


class CannotErase(RequestError):
    """The cache of a single prompt cannot be erased."""

    status = 501
    code = "cannot_erase"


class SlotsApi(JobApi):
    """`POST /slots/{id}`."""

    @route(
        "POST",
        "/slots/{id}",
        access=INFERENCE,
        error_format=LLAMA_CPP,
        parameters=(Parameter("action", "query", str, "`save` or `restore`."),),
        errors=(*GENERATION_ERRORS, 501, 507),
    )
    async def act(self, request: Request, body: SlotFile) -> SlotAnswer:
        """Save the latest prompt that named this slot, or read a saved one into the cache.

        Keys and values are stored by their tokens: what is missing of them is computed.
        """
        actions = {"save": self._save, "restore": self._restore}
        action = request.query_params.get("action", "")
        if action == "erase":
            raise CannotErase(
                "The cache of a single prompt cannot be erased.",
                hint="`ingle forget` erases what is stored of prompts.",
            )
        if action not in actions:
            raise InvalidBody("'action' is neither save nor restore.", param="action")
        slot: str = request.path_params["id"]
        if not (slot.isdecimal() and slot.isascii() and len(slot) < 10):
            raise InvalidBody(f"'{slot[:20]}' is not the number of a slot.")
        if not _NAME.fullmatch(body.filename):
            raise InvalidBody(
                "'filename' has other characters than letters, digits, spaces and '._-', begins "
                "with a dot or is too long.",
                param="filename",
            )
        named = chosen_model(self._services, body.model or request.query_params.get("model"))
        model = await asyncio.to_thread(self._services.resolve, named)
        return await run_until_disconnect(
            request.receive, actions[action](model, int(slot), body.filename)
        )

    async def _save(self, model: StoredModel, number: int, name: str) -> SlotAnswer:
        began, key = time.monotonic(), current_permission().key or ""
        latest = self._services.slots.latest(key, model.name, number)
        if latest is None:
            raise NotFound(
                f"Slot {number} of {model.name} has no prompt to save.",
                hint=f"Send a prompt with 'id_slot': {number} first; private ones and those with "
                "pictures are not saved.",
            )
        asked = TokenizeRequest(id=f"slot-{secrets.token_hex(12)}", generate=latest)
        job = Job(model=model.name, request=latest)
        async with self._runner.lease(job, routed=False) as (lease, _):
            tokens = (await lease.backend.tokenize(asked)).token_ids
            size = _kv_bytes(lease, len(tokens))
        digest = await asyncio.to_thread(weights_digest, model)
        saved = SavedPrompt(name, tokens)
        await asyncio.to_thread(self._services.slots.save, key, digest, saved)
        return SlotAnswer(
            id_slot=number,
            filename=name,
            n_saved=len(tokens),
            n_written=size,
            timings=SlotTimings(save_ms=_since(began)),
        )

    async def _restore(self, model: StoredModel, number: int, name: str) -> SlotAnswer:
        began, key = time.monotonic(), current_permission().key or ""
        digest = await asyncio.to_thread(weights_digest, model)
        saved = await asyncio.to_thread(self._services.slots.read, key, digest, name)
        if saved is None:
            raise NotFound(
                f"No prompt of {model.name} is saved as '{name}'.",
                hint="Prompts belong to the model and the API key that they were saved with.",
            )
        request = GenerateRequest(
            id=f"slot-{secrets.token_hex(12)}", prompt=saved.token_ids, max_tokens=0
        )
        job = Job(model=model.name, request=request, slot=number)
        async with self._runner.lease(job, routed=False) as (lease, _):
            await self._runner.run(job, lease, _ignore)
            size = _kv_bytes(lease, len(saved.token_ids))
        return SlotAnswer(
            id_slot=number,
            filename=name,
            n_restored=len(saved.token_ids),
            n_read=size,
            timings=SlotTimings(restore_ms=_since(began)),
        )


def _ignore(_prompt: int, _events: object) -> None: ...


def _kv_bytes(lease: Lease, tokens: int) -> int:
    return lease.info.kv_bytes * tokens // max(1, lease.info.kv_capacity)


def _since(began: float) -> float:
    return round(1000 * (time.monotonic() - began), 3)
