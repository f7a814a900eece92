"""The model that answers when a llama-server client names none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import msgspec

from ingle.daemon.library.model_facts import FactsReader, ModelFacts
from ingle.daemon.protocols.llama_cpp.completions_api import chosen_model, infilling_model
from ingle.models.metadata.stored_model import StoredModel

if TYPE_CHECKING:
    from ...conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]


class AllInfill(FactsReader):
    """Reports that every file supports infill."""

    def read(self, model: StoredModel) -> ModelFacts:
        facts = super().read(model)
        with_infill = msgspec.structs.replace(facts.capabilities, infills=True)
        return msgspec.structs.replace(facts, capabilities=with_infill)


async def test_default_model_selection(run_daemon: DaemonFactory) -> None:
    async with run_daemon(default_model="other:1") as daemon:
        services = daemon.services
        assert chosen_model(services, "named") == "named"
        assert chosen_model(services, None) == "other:1"
        assert infilling_model(services, AllInfill(), "named") == "named"
        assert infilling_model(services, AllInfill(), "") == "echo:1"
        assert infilling_model(services, FactsReader(), None) == "other:1"
        await daemon.tcp.post("/ingle/v1/load", json={"model": "echo:1"})
        assert chosen_model(services, None) == "echo:1"
        assert infilling_model(services, FactsReader(), None) == "echo:1"
