"""The arrays that sources, encoders and files pass to one another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Raw = NDArray[np.uint8]
