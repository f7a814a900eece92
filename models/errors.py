"""Errors about model files and downloads.

ModelError
├── ModelNotFound         no such name, path or file
├── InvalidModel          the file is damaged, or not what its name says
├── UnsupportedModel      the file is sound, but nothing here can run it
├── UnusableName          no model can be given this name
├── AmbiguousName         the name may mean several models, and one would be removed
├── ModelInUse            the file is in use
├── NotInStore            the file belongs to another program or to the user
└── PullFailed            the download failed
    ├── SourceUnavailable no source could be reached, or none has the file
    ├── Offline           the settings allow no connection
    ├── HashMismatch      the digest is not the catalog's
    ├── DiskFull          the disk is full
    ├── DiskUnusable      the disk or the folder cannot be written for another reason
    └── PullCancelled     on request
"""

from __future__ import annotations


class ModelError(Exception):
    """A failure with a message for the user, a stable code and, if possible, a hint."""

    code = "model_error"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ModelNotFound(ModelError):
    """No model has this name."""

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


class AmbiguousName(ModelError):
    """The name may mean several models, of which one would be removed."""

    code = "ambiguous_name"


class ModelInUse(ModelError):
    """Another process works on this model's files."""

    code = "model_in_use"


class NotInStore(ModelError):
    """The file belongs to another program or the user, and its removal was not confirmed."""

    code = "not_ours"


class PullFailed(ModelError):
    """The download failed; a partial file is never visible as a model."""

    code = "pull_failed"


class SourceUnavailable(PullFailed):
    """No source could be reached, or none has the file."""

    code = "source_unavailable"


class Offline(PullFailed):
    """The settings allow no connection."""

    code = "offline"


class HashMismatch(PullFailed):
    """The file's digest is not the one that the catalog states."""

    code = "hash_mismatch"


class DiskFull(PullFailed):
    """The disk has no room for the file."""

    code = "disk_full"


class DiskUnusable(PullFailed):
    """The disk or the folder cannot be written for another reason than missing room."""

    code = "storage_unusable"


class PullCancelled(PullFailed):
    """The download was cancelled; what was received is kept for the next attempt."""

    code = "pull_cancelled"
