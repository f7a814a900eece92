"""`ModelsFeature`: which model answers, and fetching those that are not here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..api import ModelEntry, PullProgress
from ..errors import ClientError
from ..model_choice import find_model
from .feature import Feature, Handler

if TYPE_CHECKING:
    from textual.worker import Worker

    from ..host import ChatHost


class ModelsFeature(Feature):
    """The picker, and the download that this chat follows."""

    def __init__(self, host: ChatHost) -> None:
        super().__init__(host)
        self._worker: Worker[None] | None = None

    def handlers(self) -> Mapping[str, Handler]:
        return {"model": self.choose, "pull": self.pull}

    async def choose(self, reference: str) -> None:
        """Go over to a model, or show those there are."""
        if reference:
            self.use(reference)
            return
        state = self.host.state
        try:
            state.models = await self.host.link.models()
        except ClientError as error:
            self.host.tell(error.message, "error")
            return
        from ..screens.model_picker import ModelPicker

        self.host.show_screen(ModelPicker(state.models, state.model_name), self._picked)

    def use(self, reference: str) -> None:
        """Talk to this model from now on; it is fetched where it is not here."""
        model = find_model(self.host.state.models, reference)
        self._picked(model or ModelEntry(name=reference, installed=False, state="available"))

    def pull(self, reference: str) -> None:
        """Fetch a model, or the one that is wanted."""
        if reference:
            self.use(reference)
        else:
            self._start()

    def on_connected(self) -> None:
        """Go on with a download that runs already."""
        model = self.host.state.model
        if model is not None and model.state == "downloading":
            self._start()

    def on_escape(self) -> bool:
        """Leave a download to the daemon."""
        name = self.host.state.pulling
        if name is None:
            return False
        self._stop_following()
        self._end()
        self.host.return_queue()
        self.host.tell(f"{name} goes on downloading in the daemon.")
        self.host.show_state()
        return True

    def _picked(self, model: ModelEntry | None) -> None:
        if model is None:
            return
        if not model.writes:
            purpose = "embeddings" if model.task == "embed" else "ranking"
            self.host.tell(
                f"{model.name} is there for {purpose} and does not chat; "
                "ctrl+o picks another model.",
                "warning",
            )
            return
        state = self.host.state
        state.wanted = model.name
        state.choose(model)
        if state.must_pull:
            self._start()
        self.host.show_state()

    def _start(self) -> None:
        name = self.host.state.model_name
        if name is None:
            return
        self.host.state.pulling = name
        self._stop_following()
        self._worker = self.host.run_task(self.host.link.follow_pull(name), group="pull")
        self.host.show_state()

    def _stop_following(self) -> None:
        if self._worker is not None:
            self._worker.cancel()
            self._worker = None

    def on_pull_moved(self, progress: PullProgress) -> None:
        """Show how far the download is."""
        if self.host.state.pulling is not None:
            self.host.show_pull(progress)

    def on_pull_done(self, entry: ModelEntry) -> None:
        """The model is here: talk to it."""
        self._end()
        self.host.state.pulled(entry)
        self.host.send_next()
        self.host.show_state()

    def on_pull_broke(self, message: str, hint: str | None) -> None:
        """Say what went wrong; enter tries again."""
        self._end()
        self.host.add_failure(message, hint, "enter tries again")
        self.host.return_queue()
        self.host.show_state()

    def _end(self) -> None:
        self.host.state.pulling = None
        self.host.show_pull(None)
