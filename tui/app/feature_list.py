"""`FEATURES`: everything the chat can do; imported once the first key can be typed."""

from __future__ import annotations

from ..features.chat.blocks_feature import BlocksFeature
from ..features.chat.composing_feature import ComposingFeature
from ..features.chat.reading_feature import ReadingFeature
from ..features.chat.title_feature import TitleFeature
from ..features.context.compaction_feature import CompactionFeature
from ..features.context.gauges_feature import GaugesFeature
from ..features.feature import Feature
from ..features.history.encryption_feature import EncryptionFeature
from ..features.history.find_feature import FindFeature
from ..features.history.resuming_feature import ResumingFeature
from ..features.models.compare_feature import CompareFeature
from ..features.models.models_feature import ModelsFeature
from ..features.models.pulls_feature import PullsFeature
from ..features.privacy_feature import PrivacyFeature
from ..features.program_feature import ProgramFeature
from .command_feature import CommandFeature

FEATURES: tuple[type[Feature], ...] = (
    CommandFeature,  # the first: others replace what they handle in their own way
    BlocksFeature,
    CompactionFeature,
    FindFeature,
    EncryptionFeature,
    CompareFeature,
    GaugesFeature,
    ModelsFeature,
    PrivacyFeature,
    ProgramFeature,
    PullsFeature,
    ReadingFeature,
    ResumingFeature,
    TitleFeature,
    ComposingFeature,  # the last to be told of escape: with it, a draft is cleared
)
