"""What clients write on responses and batches to find them again."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

MetadataKey = Annotated[str, Meta(max_length=64)]
MetadataValue = Annotated[str, Meta(max_length=512)]
Metadata = Annotated[dict[MetadataKey, MetadataValue], Meta(max_length=16)]
