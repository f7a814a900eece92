"""What the chat can do, one module a capability; the screen passes them commands and events."""

from .branches import BranchesFeature
from .composing import ComposingFeature
from .feature import Feature
from .instructions import InstructionsFeature
from .models import ModelsFeature
from .privacy import PrivacyFeature
from .program import ProgramFeature
from .reading import ReadingFeature
from .resuming import ResumingFeature

FEATURES: tuple[type[Feature], ...] = (
    BranchesFeature,
    InstructionsFeature,
    ModelsFeature,
    PrivacyFeature,
    ProgramFeature,
    ReadingFeature,
    ResumingFeature,
    ComposingFeature,  # the last to be told of escape: with it, a draft is cleared
)
