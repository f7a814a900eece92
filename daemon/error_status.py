"""Maps exceptions of requests to HTTP statuses."""

from __future__ import annotations

import errno
import logging

import msgspec

from ingle.backends.base import errors as backends
from ingle.backends.remote import errors as remote
from ingle.models import errors as models
from ingle.models.struct_preparation import prepared

from .errors import Problem, RequestError, StorageUnusable

log = logging.getLogger("ingle.daemon")

DISK_FAULTS = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Numbers of errors that come from the disk, wherever they are raised."""

# The first row that matches decides, so subclasses come before their base.
STATUS: tuple[tuple[type[models.ModelError] | type[backends.BackendError], int], ...] = (
    (models.ModelNotFound, 404),
    (models.InvalidModel, 422),
    (models.UnsupportedModel, 422),
    (models.UnusableName, 400),
    (models.AmbiguousName, 409),
    (models.ModelInUse, 409),
    (models.NotInStore, 409),
    (models.PullCancelled, 409),
    (models.DiskFull, 507),
    (models.DiskUnusable, 507),
    (models.Offline, 503),
    (models.SourceUnavailable, 502),
    (models.HashMismatch, 502),
    (models.PullFailed, 502),
    (models.ModelError, 500),
    (backends.RequestRejected, 400),
    (backends.OutOfMemory, 507),
    (backends.FileRejected, 422),
    (backends.LoadFailed, 500),
    (backends.WorkerDied, 503),
    (remote.NotCleared, 403),
    (remote.RemoteForbidden, 403),
    (remote.CannotExpress, 400),
    (remote.ProviderUnreachable, 504),
    (remote.RemoteError, 502),
    (backends.BackendError, 500),
)


def describe(error: BaseException) -> Problem:
    """Return the problem for an exception; an unexpected one is logged and has status 500."""
    if isinstance(error, RequestError):
        return msgspec.convert(error, prepared(Problem), from_attributes=True)
    if not isinstance(error, models.ModelError | backends.BackendError):
        log.error("Unexpected failure in a request", exc_info=error)
        if isinstance(error, OSError) and error.errno in DISK_FAULTS:
            return Problem(
                status=StorageUnusable.status,
                code=StorageUnusable.code,
                message=f"The disk failed: {error.strerror or error}.",
                hint="Check the disk, and try again; the log says which file it was.",
            )
        return Problem(
            status=500,
            code="internal_error",
            message="Something inside the daemon went wrong.",
            hint="The log says more; please report it.",
        )
    param = error.param if isinstance(error, backends.RequestRejected) else None
    too_long = error if isinstance(error, backends.ContextExceeded) else None
    return Problem(
        status=next(status for kind, status in STATUS if isinstance(error, kind)),
        code=error.code,
        message=error.message,
        hint=error.hint,
        param="model" if isinstance(error, models.ModelNotFound) else param,
        prompt_tokens=too_long.prompt_tokens if too_long else None,
        context=too_long.context if too_long else None,
    )
