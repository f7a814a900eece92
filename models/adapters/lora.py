"""What the files of a LoRA adapter say of its matrices, in whichever format they are."""

from __future__ import annotations

from typing import Protocol


class LoraSettings(Protocol):
    """An adapter's modules, by the names that its own format has for the weights they change."""

    modules: frozenset[str]
    """The names of the linear layers that it changes."""

    def rank(self, module: str) -> int:
        """The rank of a module's matrices."""
        ...

    def scale(self, module: str, rank: int) -> float:
        """What the product of a module's matrices is multiplied by."""
        ...

    def down(self, module: str) -> str:
        """The name of the tensor (rank, inputs)."""
        ...

    def up(self, module: str) -> str:
        """The name of the tensor (outputs, rank)."""
        ...
