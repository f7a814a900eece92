"""`FEATURES`: everything the chat can do; imported once the first key can be typed."""

from __future__ import annotations

from ..commands.command_runner import import_commands
from ..features.chat.blocks_feature import BlocksFeature
from ..features.chat.composing_feature import ComposingFeature
from ..features.chat.find_feature import FindFeature
from ..features.chat.thumbnails_feature import ThumbnailsFeature
from ..features.context.compaction_feature import CompactionFeature
from ..features.context.gauges_feature import GaugesFeature
from ..features.feature import Feature
from ..features.history_feature import HistoryFeature
from ..features.models.compare_feature import CompareFeature
from ..features.models.engines_feature import EnginesFeature
from ..features.models.pulls_feature import PullsFeature
from ..features.privacy_feature import PrivacyFeature
from ..features.program_feature import ProgramFeature
from ..features.tools_feature import ToolsFeature
from .screen_front import ScreenFront

import_commands()


FEATURES: tuple[type[Feature], ...] = (
    ScreenFront,  # the first: others replace what they handle in their own way
    BlocksFeature,
    CompactionFeature,
    FindFeature,
    ThumbnailsFeature,
    CompareFeature,
    EnginesFeature,
    GaugesFeature,
    ToolsFeature,  # before the route is decided, which is about the whole request
    PrivacyFeature,
    ProgramFeature,
    PullsFeature,
    HistoryFeature,
    ComposingFeature,  # the last to handle escape, with which it clears the draft
)
