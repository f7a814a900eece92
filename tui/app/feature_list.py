"""`FEATURES`: everything the chat can do; imported once the first key can be typed."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from functools import partial

from ..commands.command_runner import PROBLEMS, import_commands, run
from ..commands.command_table import COMMANDS, Command
from ..features.chat.blocks_feature import BlocksFeature
from ..features.chat.composing_feature import ComposingFeature
from ..features.chat.find_feature import FindFeature
from ..features.chat_host import ChatHost
from ..features.context.compaction_feature import CompactionFeature
from ..features.context.gauges_feature import GaugesFeature
from ..features.feature import Feature, Handler
from ..features.history_feature import HistoryFeature
from ..features.models.compare_feature import CompareFeature
from ..features.models.pulls_feature import PullsFeature
from ..features.privacy_feature import PrivacyFeature
from ..features.program_feature import ProgramFeature
from .screen_front import ScreenFront

import_commands()


class CommandFeature(Feature):
    """Runs the commands that all front ends share, and presents their results."""

    def __init__(self, host: ChatHost) -> None:
        super().__init__(host)
        host.front = ScreenFront(host)

    def handlers(self) -> Mapping[str, Handler]:
        """See `Feature`."""
        return {
            command.name: partial(self._run, command) for command in COMMANDS if command.is_shared
        }

    def _run(self, command: Command, argument: str) -> Awaitable[None] | None:
        try:
            result = run(command, self.host, argument)
        except PROBLEMS as error:
            self.host.refuse(error)
            return None
        if isinstance(result, Awaitable):
            return self.host.present(result)
        self.host.front.present(result)
        return None


FEATURES: tuple[type[Feature], ...] = (
    CommandFeature,  # the first: others replace what they handle in their own way
    BlocksFeature,
    CompactionFeature,
    FindFeature,
    CompareFeature,
    GaugesFeature,
    PrivacyFeature,
    ProgramFeature,
    PullsFeature,
    HistoryFeature,
    ComposingFeature,  # the last to handle escape, with which it clears the draft
)
