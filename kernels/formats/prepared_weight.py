"""A matrix in the form in which an `Operations` multiplies it."""

from __future__ import annotations

from .repacked_nf4 import RepackedNF4
from .repacked_tensor import RepackedTensor
from .weight import Weight

PreparedWeight = Weight | RepackedTensor | RepackedNF4
