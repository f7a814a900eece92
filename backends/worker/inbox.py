"""The inbox of a worker's step thread, filled from any thread."""

from __future__ import annotations

import queue

from ..base.errors import BackendError, ContextExceeded, RequestRejected
from .request_preparer import Admitted, Stop
from .worker_protocol import Rejected, ToWorker


class Wake:
    """Makes the step thread look again whether there is work."""


Inbox = queue.SimpleQueue[ToWorker | Admitted | Stop | Wake]
"""Messages of the daemon, and results of the worker's other threads."""


def rejected(request_id: str, error: BackendError) -> Rejected:
    """Return the message that rejects a request for this error."""
    exceeded = error if isinstance(error, ContextExceeded) else None
    return Rejected(
        request_id,
        error.code,
        error.message,
        hint=error.hint,
        param=error.param if isinstance(error, RequestRejected) else None,
        prompt_tokens=exceeded.prompt_tokens if exceeded else None,
        context=exceeded.context if exceeded else None,
        exact=exceeded is None or exceeded.exact,
    )
