"""The encoder of Gemma 3: SigLIP on a square picture, whose patches are averaged to 256 tokens."""

from __future__ import annotations

from torch.nn import functional

from .pixels import Pixels, normalized, resized
from .vision_config import VisionConfig
from .vision_encoder import SeenTokens, VisionEncoder
from .vision_weights import VisionWeights


class Gemma3Vision(VisionEncoder):
    """See `VisionEncoder`; tokens of a picture attend to each other in the text model."""

    def __init__(self, config: VisionConfig, weights: VisionWeights) -> None:
        super().__init__(config, weights)
        width = config.hidden_size
        self._token_norm = weights.norm("mm.soft_emb_norm", width, config.projector_epsilon)
        self._projection = weights.tensor(
            "mm.input_projection.weight", width, config.text_width, dtype=weights.dtype
        )

    def encode(self, pixels: Pixels) -> list[str | SeenTokens]:
        """See `VisionEncoder`."""
        config, side = self._config, self._config.image_size // self._config.patch_size
        square = resized(pixels, config.image_size, config.image_size, "BILINEAR")
        inputs = normalized(square, config.mean, config.std, self._device)
        rows = self.tower(self.tower.embed(inputs))
        grid = rows.T.reshape(1, -1, side, side)
        tokens = self._token_norm(functional.avg_pool2d(grid, config.merge)[0].flatten(1).T)
        found = (tokens.to(self._projection.dtype) @ self._projection).float()
        return ["\n\n<start_of_image>", SeenTokens(found, whole=True), "<end_of_image>\n\n"]
