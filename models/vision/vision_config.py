"""The settings of a picture encoder, from `config.json` or from the header of a projector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from ..config.config_fields import ConfigFields
from ..errors import InvalidModel, UnsupportedModel
from ..gguf.gguf_header import GGUFHeader

_MOST = 1 << 16
_MOST_PIXELS = 1 << 26
_LONGEST = 4096
_LARGEST_PICTURE = 4_000_000
"""Pixels; larger ones are scaled down when they are decoded."""
_FLOAT = 4


class VisionFamily(StrEnum):
    """The families of encoders, by the names that llama.cpp has for their projectors."""

    GEMMA3 = "gemma3"
    IDEFICS3 = "idefics3"
    PIXTRAL = "pixtral"
    QWEN25 = "qwen2.5vl_merger"


_HF_FAMILIES: Mapping[str, VisionFamily] = {
    "gemma3": VisionFamily.GEMMA3,
    "idefics3": VisionFamily.IDEFICS3,
    "smolvlm": VisionFamily.IDEFICS3,
    "mistral3": VisionFamily.PIXTRAL,
    "qwen2_5_vl": VisionFamily.QWEN25,
}
# transformers' defaults: width, width of the MLP, layers, heads, pixels of a picture, of a patch.
_DEFAULTS: Mapping[VisionFamily, tuple[int, int, int, int, int, int]] = {
    VisionFamily.GEMMA3: (768, 3072, 12, 12, 224, 16),
    VisionFamily.IDEFICS3: (1152, 3072, 12, 16, 224, 32),
    VisionFamily.PIXTRAL: (1024, 4096, 24, 16, 1024, 16),
    VisionFamily.QWEN25: (3584, 3420, 32, 16, 560, 14),
}
_ACTIVATIONS: Mapping[VisionFamily, str] = {
    VisionFamily.GEMMA3: "gelu_pytorch_tanh",
    VisionFamily.IDEFICS3: "gelu_pytorch_tanh",
    VisionFamily.PIXTRAL: "gelu",
    VisionFamily.QWEN25: "silu",
}
_HALVES = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
_CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
_COLOURS = {
    VisionFamily.GEMMA3: _HALVES,
    VisionFamily.IDEFICS3: _HALVES,
    VisionFamily.PIXTRAL: _CLIP,
    VisionFamily.QWEN25: _CLIP,
}
_LEAST_PIXELS, _MOST_OF_QWEN, _WINDOW = 56 * 56, 28 * 28 * 1280, 112
_FULL_LAYERS = (7, 15, 23, 31)


@dataclass(frozen=True, kw_only=True)
class VisionConfig:
    """The hyper-parameters of an encoder and of its preprocessing.

    Pictures are cut into patches of `patch_size` pixels a side, of which `merge` a side become one
    token; `image_size` is the side of a square picture. `longest` bounds the sides of larger ones
    (0: they are not cut into tiles), `least_pixels` and `most_pixels` the area. Layers other than
    `full_layers` attend within windows of `window` pixels a side (0: there are none). `text_width`
    is that of the text model's embeddings. Colours have `mean` taken off, and are divided by `std`.
    """

    family: VisionFamily
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    image_size: int
    patch_size: int
    merge: int
    text_width: int
    norm_epsilon: float
    projector_epsilon: float
    activation: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    rope_theta: float = 10000.0
    longest: int = 0
    least_pixels: int = 0
    most_pixels: int = 0
    window: int = 0
    full_layers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        unit = self.patch_size * self.merge
        turned = 4 if self.family in (VisionFamily.PIXTRAL, VisionFamily.QWEN25) else 1
        if self.hidden_size % (self.num_heads * turned) or self.image_size < unit:
            raise InvalidModel("The settings of the picture encoder contradict each other.")
        if self.window and self.window < unit:
            raise InvalidModel("The windows of the picture encoder are smaller than a token.")

    @property
    def most_patches(self) -> int:
        """Patches of the largest picture that is encoded at once."""
        longest = self.longest if self.family is VisionFamily.PIXTRAL else self.image_size
        pixels = min(max(longest**2, self.most_pixels), _LARGEST_PICTURE)
        return pixels // self.patch_size**2

    @property
    def workspace_bytes(self) -> int:
        """Bytes that the encoding of such a picture takes beside the weights, about."""
        width = 6 * self.hidden_size + 2 * self.intermediate_size
        return self.most_patches * width * _FLOAT


def vision_family(settings: Mapping[str, object]) -> VisionFamily | None:
    """The family of the encoder that a `config.json` describes; None without one that is known."""
    vision, name = settings.get("vision_config"), settings.get("model_type")
    if not isinstance(vision, dict):
        return None
    if name == "llava":  # Pixtral 12B
        is_pixtral = cast("dict[str, object]", vision).get("model_type") == "pixtral"
        return VisionFamily.PIXTRAL if is_pixtral else None
    return _HF_FAMILIES.get(str(name))


def vision_from_hf(
    settings: Mapping[str, object], preprocessing: Mapping[str, object]
) -> VisionConfig:
    """The encoder of a folder, from its `config.json` and `preprocessor_config.json`.

    Raises `UnsupportedModel`, and `InvalidModel` for a setting that is wrong.
    """
    fields, family = ConfigFields(settings, "config.json"), vision_family(settings)
    vision, text = fields.group("vision_config"), fields.group("text_config") or fields
    if family is None or vision is None:
        raise UnsupportedModel("config.json describes no picture encoder that ingle knows.")
    shown = ConfigFields(preprocessing, "preprocessor_config.json")
    size = shown.group("size") or ConfigFields({}, "preprocessor_config.json")
    width, feed, layers, heads, side, patch = _DEFAULTS[family]
    is_qwen, is_pixtral = family is VisionFamily.QWEN25, family is VisionFamily.PIXTRAL
    side = vision.integer("image_size", 1, _MOST, side)
    patch = vision.integer("patch_size", 1, side, patch)
    epsilon = 1e-5 if is_pixtral else vision.number("layer_norm_eps", 1e-6)
    rope = vision.group("rope_parameters") or vision
    mean, std = _COLOURS[family]
    longest = _longest(size, "longest_edge", family, side)
    if family is VisionFamily.IDEFICS3 and not shown.flag("do_image_splitting", True):
        longest = 0
    least, most = (_LEAST_PIXELS, _MOST_OF_QWEN) if is_qwen else (0, 0)
    if is_qwen:
        least = size.integer("shortest_edge", 1, _MOST_PIXELS, least)
        least = shown.integer("min_pixels", 1, _MOST_PIXELS, least)
        most = size.integer("longest_edge", least, _MOST_PIXELS, max(most, least))
        most = shown.integer("max_pixels", least, _MOST_PIXELS, most)
    return VisionConfig(
        family=family,
        hidden_size=vision.integer("hidden_size", 1, _MOST, width),
        intermediate_size=vision.integer("intermediate_size", 1, _MOST, feed),
        num_layers=vision.integer("depth" if is_qwen else "num_hidden_layers", 1, 512, layers),
        num_heads=vision.integer("num_heads" if is_qwen else "num_attention_heads", 1, 512, heads),
        image_size=side,
        patch_size=patch,
        merge=_merge(fields, vision, family, side // patch),
        text_width=text.integer("hidden_size", 1, _MOST),
        norm_epsilon=epsilon,
        projector_epsilon=text.number("rms_norm_eps", 1e-6) if is_pixtral else epsilon,
        activation=vision.text("hidden_act", _ACTIVATIONS[family]),
        rope_theta=rope.number("rope_theta", 10000.0, low=1.0),
        longest=longest,
        least_pixels=least,
        most_pixels=most,
        window=vision.integer("window_size", 1, _MOST, _WINDOW) if is_qwen else 0,
        full_layers=_full_layers(vision) if is_qwen else (),
        mean=shown.numbers("image_mean", 3) if "image_mean" in shown else mean,
        std=shown.numbers("image_std", 3) if "image_std" in shown else std,
    )


def _full_layers(vision: ConfigFields) -> tuple[int, ...]:
    key = "fullatt_block_indexes"
    return vision.integers(key, 0, _MOST) if key in vision else _FULL_LAYERS


def _merge(fields: ConfigFields, vision: ConfigFields, family: VisionFamily, side: int) -> int:
    if family is VisionFamily.GEMMA3:
        tokens = fields.integer("mm_tokens_per_image", 1, side * side, 256)
        return side // int(tokens**0.5)
    if family is VisionFamily.IDEFICS3:
        return fields.integer("scale_factor", 1, side, 2)
    outer = fields if family is VisionFamily.PIXTRAL else vision
    default = 1 if fields.text("model_type") == "llava" else 2
    return outer.integer("spatial_merge_size", 1, _MOST, default)


def _longest(fields: ConfigFields, key: str, family: VisionFamily, side: int) -> int:
    """The longest side of a picture that is cut into tiles, or encoded in its own shape."""
    default = {VisionFamily.IDEFICS3: 4 * side, VisionFamily.PIXTRAL: side}.get(family)
    return 0 if default is None else fields.integer(key, 1, _LONGEST, default)


def vision_from_gguf(header: GGUFHeader) -> VisionConfig:
    """The encoder of a projector's file; raises `UnsupportedModel` and `InvalidModel`."""
    name = header.text("clip.projector_type") or header.text("clip.vision.projector_type")
    if name not in set(VisionFamily):
        raise UnsupportedModel(
            f"{header.path.name} is a projector of the kind {name!r}, which only llama.cpp "
            "computes.",
            hint="Load the model with `--engine llama.cpp`.",
        )
    family, prefix = VisionFamily(name), "clip.vision."
    values = {k.removeprefix(prefix): v for k, v in header.metadata.items() if k.startswith(prefix)}
    fields = ConfigFields(values, header.path.name)
    is_qwen, (mean, std) = family is VisionFamily.QWEN25, _COLOURS[family]
    layers = fields.integer("block_count", 1, 512)
    side = fields.integer("image_size", 1, _MOST)
    patch = fields.integer("patch_size", 1, side)
    epsilon = fields.number("attention.layer_norm_epsilon", 1e-6)
    merge_key = "projector.scale_factor"
    if family is VisionFamily.PIXTRAL:
        merge_key = "spatial_merge_size"
    default = {VisionFamily.GEMMA3: 4, VisionFamily.PIXTRAL: 1}.get(family, 2)
    pattern = fields.integer("n_wa_pattern", 0, layers, 0) if is_qwen else 0
    return VisionConfig(
        family=family,
        hidden_size=fields.integer("embedding_length", 1, _MOST),
        intermediate_size=fields.integer("feed_forward_length", 1, _MOST),
        num_layers=layers,
        num_heads=fields.integer("attention.head_count", 1, 512),
        image_size=side,
        patch_size=patch,
        merge=fields.integer(merge_key, 1, side // patch, default),
        text_width=fields.integer("projection_dim", 1, _MOST),
        norm_epsilon=epsilon,
        projector_epsilon=epsilon,
        activation=_ACTIVATIONS[family],
        rope_theta=10000.0,
        longest=_longest(fields, "preproc_image_size", family, side),
        least_pixels=_LEAST_PIXELS if is_qwen else 0,
        most_pixels=_MOST_OF_QWEN if is_qwen else 0,
        window=fields.integer("window_size", 1, _MOST, _WINDOW) if pattern else 0,
        full_layers=tuple(i for i in range(layers) if pattern and (i + 1) % pattern == 0),
        mean=mean,
        std=std,
    )
