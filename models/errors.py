"""What can go wrong with a model file before anything runs it.

ModelError
├── ModelNotFound         no such name, path or file
├── InvalidModel          the file is damaged, or not what its name says
├── UnsupportedModel      the file is sound, but nothing here can run it
├── UnusableName          no model can be given this name
├── ModelInUse            the file cannot be removed now
├── NotOurs               the file belongs to another program or a person
└── PullFailed            the download did not end well
    ├── SourceUnavailable no source could be reached, or none has the file
    ├── Offline           the owner wants no connection
    ├── HashMismatch      what arrived is not what the catalog promises
    ├── DiskFull          there is no room
    └── PullCancelled     somebody asked for it
"""

from __future__ import annotations


class ModelError(Exception):
    """A failure with a sentence for people, a stable code, and where possible what to do next."""

    code = "model_error"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ModelNotFound(ModelError):
    """No model goes by this name."""

    code = "model_not_found"


class InvalidModel(ModelError):
    """The file is damaged, truncated, or of another format."""

    code = "invalid_model"


class UnsupportedModel(ModelError):
    """The file is sound, but no engine here can run it."""

    code = "unsupported_model"


class UnusableName(ModelError):
    """No model can be given this name."""

    code = "unusable_name"


class ModelInUse(ModelError):
    """Somebody else works on this model's files right now."""

    code = "model_in_use"


class NotInStore(ModelError):
    """The file belongs to another program or a person, who did not say that it may go."""

    code = "not_ours"


class PullFailed(ModelError):
    """The download did not end well; nothing half-written is visible as a model."""

    code = "pull_failed"


class SourceUnavailable(PullFailed):
    """No source could be reached, or none has the file."""

    code = "source_unavailable"


class Offline(PullFailed):
    """The owner's settings allow no connection."""

    code = "offline"


class HashMismatch(PullFailed):
    """What arrived is not what the catalog promises."""

    code = "hash_mismatch"


class DiskFull(PullFailed):
    """There is no room for the file."""

    code = "disk_full"


class PullCancelled(PullFailed):
    """Somebody asked for the download to stop; what arrived is kept for the next attempt."""

    code = "pull_cancelled"
