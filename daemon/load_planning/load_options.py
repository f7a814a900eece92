"""The options of one load."""

from __future__ import annotations

import msgspec

from ingle.backends.base.load_spec import Quantize
from ingle.models.kv_type import KVType
from ingle.models.model_task import Pooling

NO_DRAFT = "off"


class LoadOptions(msgspec.Struct, frozen=True):
    """The options of one load; None leaves a choice to the settings.

    With `least_context` the context may be larger if memory allows, as without any. `draft` names
    the draft model; "off" means none, whatever the catalog suggests. `pooling` is for embedding
    models.
    """

    context: int | None = None
    least_context: int | None = None
    engine: str | None = None
    kv_type: KVType | None = None
    quantize: Quantize | None = None
    tensor_parallel: int | None = None
    draft: str | None = None
    pooling: Pooling | None = None
