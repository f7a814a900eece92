"""Whether a worker has loaded the very files that were checked."""

from __future__ import annotations

from ingle.models.file_stamp import first_changed

from ..base.errors import LoadFailed
from ..base.load_spec import LoadSpec


def check_unchanged(spec: LoadSpec) -> None:
    """Raise `LoadFailed` where a file is another one than when its header was read."""
    changed = first_changed(spec.stamps)
    if changed is not None:
        raise LoadFailed(
            f"{changed} changed while the model was loaded.",
            hint="Try again once nothing writes to it any more.",
        )
