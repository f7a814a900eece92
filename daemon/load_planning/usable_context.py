"""The context that a request can have, for all APIs that list models."""

from __future__ import annotations

from ingle.backends.base.errors import BackendError
from ingle.models.errors import ModelError
from ingle.models.metadata.stored_model import StoredModel

from ..services import Services
from .load_options import NO_DRAFT, LoadOptions


def usable_context(services: Services, model: StoredModel) -> int:
    """Return the tokens that a request can have, prompt and answer together; blocking.

    A model that is loaded with less is loaded with more when a prompt needs it.
    """
    run = services.manager.find(model)
    if run is not None and run.info is not None:
        return max(run.info.context, run.longest_context)
    try:
        # A draft model would not change it, and is slow to find.
        options, available = LoadOptions(draft=NO_DRAFT), services.manager.available()
        plan = services.prepare(model, options, available=available)
    except (ModelError, BackendError):
        # It is listed although it cannot be loaded; asking for it says why.
        return model.context
    return max(plan.spec.context, plan.longest_context)
