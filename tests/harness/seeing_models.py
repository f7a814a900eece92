"""Small random models that see pictures, written as folders by transformers, and their answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from numpy.typing import NDArray

from ingle.backends.base.conversation import Picture
from ingle.models.vision.vision_weights import hf_vision_names

FAMILIES = ("gemma3", "smolvlm", "mistral3", "pixtral", "qwen2_5_vl")
WIDTH = 32
_OF_ANY_SHAPE = ("mistral3", "pixtral")
_IMAGE = 5
_TEXT: dict[str, Any] = {
    "hidden_size": WIDTH,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 1024,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_VISION: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "patch_size": 4,
    "image_size": 32,
}
_MARKS = [
    *("<start_of_image>", "<end_of_image>", "[IMG_BREAK]", "[IMG_END]", "<|vision_start|>"),
    *("<|vision_end|>", "<fake_token_around_image>", "<global-img>"),
    *(f"<row_{row}_col_{column}>" for row in range(1, 5) for column in range(1, 5)),
]
_SPECIAL = ["<pad>", "<s>", "</s>", "<unk>", "<other>", "<image>", *_MARKS]
VOCABULARY = len(_SPECIAL) + 256


def picture(seed: int, width: int = 77, height: int = 50) -> Picture:
    """Return random pixels."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Picture(width=width, height=height, rgb=pixels.tobytes())


def pixels_of(shown: Picture) -> NDArray[np.uint8]:
    """Return the pixels (height, width, 3) of a picture."""
    return np.frombuffer(shown.rgb, np.uint8).reshape(shown.height, shown.width, 3)


@dataclass(frozen=True)
class SeeingModel:
    """A model of transformers, the folder where it is, and its image processor."""

    family: str
    folder: Path
    module: Any
    processor: Any

    def inputs(self, shown: Picture) -> dict[str, torch.Tensor]:
        """Return what transformers makes of a picture."""
        image = import_module("PIL.Image").fromarray(pixels_of(shown))
        more = {"return_row_col_info": True} if self.family == "smolvlm" else {}
        found = self.processor([image], return_tensors="pt", **more)
        wanted = ("pixel_values", "pixel_attention_mask", "image_sizes", "image_grid_thw")
        return {name: found[name] for name in wanted if name in found}

    def embeddings(self, shown: Picture) -> torch.Tensor:
        """Return transformers' embeddings (tokens, width) of a picture."""
        with torch.no_grad():
            found = self.module.model.get_image_features(**self.inputs(shown)).pooler_output
        return torch.cat([part.reshape(-1, WIDTH) for part in found])

    def logits(self, tokens: list[int], shown: Picture) -> torch.Tensor:
        """Return transformers' logits (tokens, vocabulary); those of the picture are negative."""
        ids = torch.tensor([[token if token >= 0 else _IMAGE for token in tokens]])
        kinds = (ids == _IMAGE).long()
        more = {"token_type_ids": kinds} if self.family == "gemma3" else {}
        if self.family == "qwen2_5_vl":
            more["mm_token_type_ids"] = kinds
        with torch.no_grad():
            return self.module(input_ids=ids, **more, **self.inputs(shown)).logits[0]


def write_seeing_model(folder: Path, family: str) -> SeeingModel:
    """Write a random model of the family with a tokenizer and the settings of its preprocessing."""
    transformers: Any = import_module("transformers")
    text = {**_TEXT, "vocab_size": VOCABULARY}
    if family == "gemma3":
        text |= {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]}
        config = transformers.Gemma3Config(
            text_config=text,
            vision_config=_VISION,
            mm_tokens_per_image=16,
            image_token_index=_IMAGE,
        )
        module = transformers.Gemma3ForConditionalGeneration(config)
        processor = _processor("gemma3", "Gemma3", size={"height": 32, "width": 32})
    elif family == "smolvlm":
        text |= {"model_type": "llama"}
        config = transformers.SmolVLMConfig(
            text_config=text, vision_config=_VISION, scale_factor=2, image_token_id=_IMAGE
        )
        module = transformers.SmolVLMForConditionalGeneration(config)
        sizes = {"size": {"longest_edge": 64}, "max_image_size": {"longest_edge": 32}}
        processor = _processor("smolvlm", "SmolVLM", **sizes)
    elif family == "mistral3":
        text |= {"model_type": "mistral", "sliding_window": None}
        vision = {**_VISION, "model_type": "pixtral"}
        config = transformers.Mistral3Config(
            text_config=text, vision_config=vision, image_token_index=_IMAGE
        )
        config.tie_word_embeddings = False
        module = transformers.Mistral3ForConditionalGeneration(config)
        sizes = {"size": {"longest_edge": 32}, "patch_size": {"height": 8, "width": 8}}
        processor = _processor("pixtral", "Pixtral", **sizes)
    elif family == "pixtral":
        text |= {"model_type": "mistral", "sliding_window": None}
        vision = {**_VISION, "model_type": "pixtral"}
        shown = {"vision_feature_layer": -1, "vision_feature_select_strategy": "full"}
        config = transformers.LlavaConfig(
            text_config=text, vision_config=vision, image_token_index=_IMAGE, **shown
        )
        module = transformers.LlavaForConditionalGeneration(config)
        sizes = {"size": {"longest_edge": 32}, "patch_size": {"height": 4, "width": 4}}
        processor = _processor("pixtral", "Pixtral", **sizes)
    else:
        rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [1, 1, 2]}
        vision = {**_VISION, "depth": 2, "num_heads": 2, "out_hidden_size": WIDTH}
        vision |= {"window_size": 24, "fullatt_block_indexes": [1]}
        config = transformers.Qwen2_5_VLConfig(
            text_config={**text, "rope_parameters": rope},
            vision_config=vision,
            image_token_id=_IMAGE,
        )
        module = transformers.Qwen2_5_VLForConditionalGeneration(config)
        sizes = {"size": {"shortest_edge": 1600, "longest_edge": 6400}}
        processor = _processor("qwen2_vl", "Qwen2VL", patch_size=4, **sizes)
    _fill(module)
    module.save_pretrained(folder)
    processor.save_pretrained(folder)
    _write_tokenizer(folder)
    return SeeingModel(family, folder, module.eval(), processor)


def _processor(module: str, name: str, **settings: Any) -> Any:
    found = import_module(f"transformers.models.{module}.image_processing_pil_{module}")
    return getattr(found, f"{name}ImageProcessorPil")(**settings)


def _fill(module: Any) -> None:
    random = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            is_norm = "norm" in name or "ln_" in name
            parameter.normal_(1.0 if is_norm else 0.0, 0.2, generator=random)


def _write_tokenizer(folder: Path) -> None:
    tokenizers: Any = import_module("tokenizers")
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {word: number for number, word in enumerate([*_SPECIAL, *alphabet])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(_SPECIAL)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"eos_token": "</s>", "bos_token": "<s>", "chat_template": _TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


_TEMPLATE = "{% for message in messages %}{{ message.content }} {% endfor %}"


def write_projector_of(model: SeeingModel, path: Path, **more: int) -> Path:
    """Write the model's encoder as a projector, as llama.cpp's conversion does it."""
    tensors = model.module.state_dict()
    names = hf_vision_names(tensors)
    kinds = {"smolvlm": "idefics3", "mistral3": "pixtral", "qwen2_5_vl": "qwen2.5vl_merger"}
    writer: Any = gguf.GGUFWriter(path, "clip")
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_string("clip.projector_type", kinds.get(model.family, model.family))
    numbers = {
        "image_size": 32,
        "patch_size": 4,
        "embedding_length": 32,
        "feed_forward_length": 48,
        "projection_dim": WIDTH,
        "block_count": 2,
        "attention.head_count": 2,
        "projector.scale_factor": 2,
        "spatial_merge_size": 2,
        "preproc_image_size": 64,
        "n_wa_pattern": 2,
        "window_size": 24,
        **more,
    }
    if model.family in _OF_ANY_SHAPE:
        numbers["preproc_image_size"] = 32
        numbers["spatial_merge_size"] = 2 if model.family == "mistral3" else 1
    for name, number in numbers.items():
        writer.add_uint32(f"clip.vision.{name}", number)
    epsilon = 1e-5 if model.family in _OF_ANY_SHAPE else 1e-6
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", epsilon)
    for name, theirs in names.items():
        for ours, tensor in _converted(model.family, name, tensors[theirs]).items():
            writer.add_tensor(ours, tensor.float().contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _converted(family: str, name: str, tensor: torch.Tensor) -> dict[str, torch.Tensor]:
    if name == "v.patch_embd.weight" and tensor.ndim == 5:
        return {name: tensor[:, :, 0], f"{name}.1": tensor[:, :, 1]}
    if ".attn_qkv." in name:
        parts = zip("qkv", tensor.chunk(3), strict=True)
        return {name.replace("attn_qkv", f"attn_{part}"): each for part, each in parts}
    if family in _OF_ANY_SHAPE and ("attn_q." in name or "attn_k." in name):
        return {name: tensor.view(2, 2, -1, tensor.shape[1]).transpose(1, 2).reshape(tensor.shape)}
    return {name: tensor + 1 if name == "mm.soft_emb_norm.weight" else tensor}
