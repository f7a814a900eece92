"""The models of the plain chat: selection, and downloads that it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ingle.daemon.client.client_errors import ClientError, DaemonUnreachable
from ingle.daemon.client.engine_types import InstallProgress
from ingle.daemon.client.model_types import DownloadProgress, ModelEntry

from ..session.model_choice import ModelOffer
from ..session.model_descriptions import quality_word
from ..session.start_thread import in_thread
from ..text import number_format

if TYPE_CHECKING:
    from .plain_session import PlainSession


class PlainModels:
    """Connects to the daemon, starting it by `start_daemon`, and offers to download models."""

    def __init__(self, session: PlainSession, start_daemon: Callable[[], None] | None) -> None:
        self._session = session
        self._start_daemon = start_daemon

    async def refresh(self) -> None:
        """Read the models, starting the daemon if it does not run; raises `ClientError`."""
        try:
            models = await self._models()
        except DaemonUnreachable:
            if self._start_daemon is None:
                raise
            self._session.output.status("Starting the daemon.")
            await in_thread(self._start_daemon)
            models = await self._models()
        self._session.state.connect(models)

    async def _models(self) -> list[ModelEntry]:
        return (await self._session.client.models()).models

    async def connect(self) -> bool:
        """Choose a model; return whether there is one. Failures are reported."""
        try:
            await self.refresh()
        except ClientError as error:
            self._session.output.error(error.message, error.hint)
            return False
        wanted = self._session.state.wanted
        if self._session.state.model is None:
            what = f"There is no model {wanted}." if wanted else "There is no model yet."
            self._session.output.error(what, "/model lists what can be downloaded.")
        return self._session.state.model is not None

    async def can_ask(self) -> bool:
        """Whether a model can answer; a missing one is first offered for download."""
        state = self._session.state
        if (not state.connected or state.model is None) and not await self.connect():
            return False
        if state.model is not None and not state.model.writes:
            self._session.output.error(f"{state.model.name} does not chat.", "/model lists others.")
            return False
        return state.can_ask or await self.offer_pull()

    async def offer_pull(self) -> bool:
        """Offer to download the model of the chat; return whether it is here afterwards."""
        session, state = self._session, self._session.state
        if state.model is None:
            return False
        name = state.model.name
        if not session.reader.is_person:
            session.output.error(f"{name} is not on this machine.", f"`ingle pull {name}` gets it.")
            return False
        offers = state.offers
        if len(offers) > 1 and name in (offer.model.name for offer in offers):
            chosen = session.reader.choose("Models for this machine:", offers, offer_words)
            if chosen is None:
                return False
            state.choose(chosen.model)
            name = chosen.model.name
        else:
            size = f" ({number_format.size(state.model.size)})" if state.model.size else ""
            session.output.line(f"{name}{size} is not on this machine yet.")
            if not session.reader.confirm("Download it?"):
                return False
        try:
            return await self.pull(name)
        except DaemonUnreachable:
            raise
        except ClientError as error:
            session.output.error(error.message, error.hint)
            state.pull_failed(name, error.message, error.hint)
        return state.model_name != name and await self.offer_pull()

    async def offer_engine(self) -> None:
        """Offer the engine that this machine lacks; a refusal is remembered."""
        session = self._session
        if not session.reader.is_person:
            return
        try:
            offer = (await session.client.engines()).offer
            if offer is None:
                return
            if session.reader.confirm(offer.question):
                session.output.line("Fetching it. Ctrl+C leaves that to the daemon.")
                entry = await session.client.install_engine(offer.name, self._show_install)
                session.output.line(f"{entry.title} is installed.")
            else:
                await session.client.decline_engine(offer.name)
                session.output.line(f"`ingle engine install {offer.name}` installs it later.")
        except ClientError as error:
            session.output.error(error.message, error.hint)

    def _show_install(self, progress: InstallProgress) -> None:
        self._session.output.news(f"{progress.title}: {progress.text()}.")

    async def pull(self, name: str) -> bool:
        """Download a model; return True. Raises `ClientError`."""
        self._session.output.line(f"Downloading {name}. Ctrl+C leaves that to the daemon.")
        try:
            entry = await self._session.client.pull(name, self._show_pull)
        except asyncio.CancelledError:
            self._session.output.line(f"{name} keeps downloading in the background.")
            raise
        self._session.output.line(f"{entry.name} is here.")
        self._session.output.bell()
        if self._session.state.model is None or self._session.state.model_name in (
            name,
            entry.name,
        ):
            self._session.state.pulled(entry)
        else:
            self._session.output.line(f"/model {entry.name} goes over to it.")
        return True

    def _show_pull(self, progress: DownloadProgress) -> None:
        parts = [f"Downloading {progress.model}"]
        if progress.total:
            parts.append(number_format.percent(progress.received / progress.total))
        if progress.eta is not None:
            parts.append(f"{number_format.remaining(progress.eta)} left")
        self._session.output.news(f"{', '.join(parts)}.")


def offer_words(offer: ModelOffer) -> str:
    """An offered model in words: `qwen3:1.7b, 1.8 GB, 12 tok/s, fair answers, best …`."""
    model, fit = offer.model, offer.model.fit
    speed = fit.tokens_per_second if fit is not None else None
    parts = [
        model.name,
        number_format.size(model.size) if model.size else "",
        number_format.speed(speed) if speed else "",
        f"{quality_word(model)} answers",
        offer.reason,
    ]
    return ", ".join(part for part in parts if part)
