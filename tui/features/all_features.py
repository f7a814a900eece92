"""`FEATURES`: everything the chat can do; imported once the first key can be typed."""

from __future__ import annotations

from .blocks import BlocksFeature
from .branches import BranchesFeature
from .compaction import CompactionFeature
from .compare import CompareFeature
from .composing import ComposingFeature
from .encryption import EncryptionFeature
from .feature import Feature
from .find import FindFeature
from .gauges import GaugesFeature
from .history import HistoryFeature
from .instructions import InstructionsFeature
from .model_memory import ModelMemoryFeature
from .models import ModelsFeature
from .pins import PinsFeature
from .privacy import PrivacyFeature
from .program import ProgramFeature
from .pulls import PullsFeature
from .reading import ReadingFeature
from .resuming import ResumingFeature
from .title import TitleFeature
from .trim import TrimFeature

FEATURES: tuple[type[Feature], ...] = (
    BlocksFeature,
    BranchesFeature,
    CompactionFeature,
    FindFeature,
    EncryptionFeature,
    HistoryFeature,
    CompareFeature,
    GaugesFeature,
    InstructionsFeature,
    ModelMemoryFeature,
    ModelsFeature,
    PinsFeature,
    PrivacyFeature,
    ProgramFeature,
    PullsFeature,
    ReadingFeature,
    ResumingFeature,
    TitleFeature,
    TrimFeature,
    ComposingFeature,  # the last to be told of escape: with it, a draft is cleared
)
