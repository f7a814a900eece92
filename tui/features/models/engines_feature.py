"""`EnginesFeature`: shows installations of engines, and offers the one for this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingle.daemon.client.client_errors import ClientError
from ingle.daemon.client.engine_types import EngineOffer, InstallProgress

from ...session.chat_events import ENDED, Report
from ..feature import Feature

if TYPE_CHECKING:
    from ...session.turn import Turn
    from ..chat_host import ChatHost

DETAILS = (
    "Answers are then computed on the GPU and not on the processor. "
    "`ingle engine remove` removes it."
)


class EnginesFeature(Feature):
    """Shows the installations that the daemon runs, whatever asked for them."""

    def __init__(self, host: ChatHost) -> None:
        super().__init__(host)
        self.offer: EngineOffer | None = None
        """What is to be asked once the user does not write."""

    def on_connected(self) -> None:
        """See `Feature`."""
        self.host.run_worker(self._look(), group="engines")

    def on_turn_ended(self, turn: Turn) -> None:
        """See `Feature`."""
        self._ask_if_idle()

    async def _look(self) -> None:
        """Show an installation that runs, else offer the engine that this machine lacks."""
        try:
            listing = await self.host.client.engines()
        except ClientError:
            return  # the link reports it if the daemon is gone
        running = [entry.progress for entry in listing.engines if entry.progress is not None]
        if running:
            self.host.pull_bar.install = running[0]
        elif listing.offer is not None:
            self.offer = listing.offer
            self._ask_if_idle()

    def _ask_if_idle(self) -> None:
        """Ask now, unless the user is writing: a key meant for the draft must answer nothing."""
        if self.offer is not None and self.host.turn is None and not self.host.composer.text:
            offer, self.offer = self.offer, None
            self.host.run_worker(self._ask(offer), group="engines")

    async def _ask(self, offer: EngineOffer) -> None:
        from ...screens.questions import ConfirmScreen

        screen = ConfirmScreen(offer.question, DETAILS, yes="installs it", no="does not ask again")
        accepted = await self.host.chat_app.push_screen_wait(screen)
        try:
            if accepted:
                await self.host.client.install_engine(offer.name, self.on_report)
            else:
                await self.host.client.decline_engine(offer.name)
                self.host.tell(f"`ingle engine install {offer.name}` installs it later.")
        except ClientError as error:
            again = f"`ingle engine install {offer.name}` tries again"
            self.host.add_failure(error.message, error.hint, again, cause="engine")

    def on_report(self, report: Report) -> None:
        """See `Feature`."""
        if not isinstance(report, InstallProgress):
            return
        self.host.pull_bar.install = None if report.step in ENDED else report
        if report.step == "done":
            self.host.mend("engine")
            self.host.tell(f"{report.title} is installed.")
