"""`ModelCommands`: commands about the model that answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ..client.api_types import ModelEntry, PullProgress
from ..client.model_pull import pull
from ..client.model_requests import load_with, parse_context, unload
from ..session.model_choice import custom_model, find_model
from ..text import number_format

if TYPE_CHECKING:
    from .plain_session import PlainSession


class ModelCommands:
    """Chooses, downloads and unloads models."""

    def __init__(self, session: PlainSession) -> None:
        self._session = session

    def handlers(self) -> Mapping[str, Callable[[str], None]]:
        """The commands it answers, by the names in `commands.py`."""
        return {
            "model": self._model,
            "pull": self._pull,
            "unload": self._unload,
            "ctx": self._change_context,
        }

    def _model(self, reference: str) -> None:
        session = self._session
        models = [model for model in session.models() if model.writes]
        if reference:
            model = find_model(models, reference) or custom_model(reference)
            if model is None:
                session.output.error(f"There is no model {reference}.", "/model lists all.")
                return
        else:
            index = session.reader.choose("Models:", [_described(model) for model in models])
            if index is None:
                return
            model = models[index]
        session.model = model
        session.wanted = session.chat.settings.model = model.name
        session.keep_settings()
        session.output.line(f"Talking to {model.name} from now on.")
        if not model.installed:
            self.offer_pull(model)

    def _unload(self, reference: str) -> None:
        session = self._session
        name = reference or (session.model.name if session.model is not None else "")
        if not name:
            session.output.error("Say which model: /unload NAME.")
        elif session.wait(unload(session.client, name)):
            session.output.line(f"{name} is unloaded. The next prompt loads it.")
        else:
            session.output.line(f"{name} is not loaded.")

    def _change_context(self, argument: str) -> None:
        session = self._session
        context = parse_context(argument)
        if context is None:
            session.output.error("/ctx takes a number of tokens, as in /ctx 16384.")
            return
        if not session.can_ask():
            return
        assert session.model is not None
        name, wanted = session.model.name, number_format.tokens(context)
        session.output.line(f"Loading {name} with {wanted} tokens of context; its cache is lost.")
        loaded = session.wait(load_with(session.client, name, context))
        got = number_format.tokens(loaded.context)
        asked = "" if loaded.context == context else f", not the {wanted} asked for"
        session.output.line(f"{name} has {got} tokens of context{asked}.")

    # Downloads

    def _pull(self, reference: str) -> None:
        session = self._session
        model = find_model(session.models(), reference) if reference else session.model
        if model is None and not reference:
            session.output.error("Say which model: /pull NAME.", "/model lists all.")
            return
        entry = self._fetch(model.name if model is not None else reference)
        if entry is None:
            return
        if session.model is None or session.model.name == entry.name:
            session.model = entry
        else:
            session.output.line(f"/model {entry.name} goes over to it.")

    def offer_pull(self, model: ModelEntry) -> bool:
        """Ask whether to fetch the model that is talked to, and do so; whether it is here then."""
        size = f" ({number_format.size(model.size)})" if model.size else ""
        self._session.output.line(f"{model.name}{size} is not on this machine yet.")
        if not self._session.reader.is_person:
            self._session.output.error(f"{model.name} is missing.", f"`ingle pull {model.name}`.")
            return False
        entry = self._fetch(model.name) if self._session.reader.confirm("Download it?") else None
        if entry is not None:
            self._session.model = entry
        return entry is not None

    def _fetch(self, name: str) -> ModelEntry | None:
        session = self._session
        session.output.line(f"Downloading {name}. Ctrl+C leaves that to the daemon.")
        try:
            entry = session.wait(pull(session.client, name, self._tell_pull))
        except KeyboardInterrupt:
            session.output.line(f"{name} goes on downloading in the daemon.")
            return None
        session.output.line(f"{entry.name} is here.")
        session.output.bell()
        return entry

    def _tell_pull(self, progress: PullProgress) -> None:
        self._session.output.news(_pull_line(progress))


def _described(model: ModelEntry) -> str:
    where = "on this machine" if model.installed else "can be downloaded"
    if model.state == "ready":
        where = "loaded"
    size = f", {number_format.size(model.size)}" if model.size else ""
    return f"{model.name}{size}, {where}"


def _pull_line(progress: PullProgress) -> str:
    parts = [f"Downloading {progress.model}"]
    if progress.total:
        parts.append(number_format.percent(progress.received / progress.total))
    if progress.eta is not None:
        parts.append(f"{number_format.remaining(progress.eta)} left")
    return f"{', '.join(parts)}."
