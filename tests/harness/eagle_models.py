"""Random models with an EAGLE-3 head in a folder, and a reference of what the head computes."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file  # pyright: ignore[reportUnknownVariableType]
from torch.nn import functional

from tests.harness import headed_models
from tests.harness.headed_models import TargetModel

SIZES = {**headed_models.SIZES, "num_hidden_layers": 8}
STREAMS = (2, 4, 5)
"""The residual streams of a model with eight layers that are read by default."""
_HEADS, _KV_HEADS, _HEAD, _WIDTH, _DRAFTED = 8, 4, 8, 80, 64
_SIZE = SIZES["hidden_size"]


class EagleModel(TargetModel):
    """A random model, and the tensors of a head as checkpoints have them."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        random = torch.Generator().manual_seed(13)

        def matrix(rows: int, columns: int) -> torch.Tensor:
            return torch.randn(rows, columns, generator=random) / columns**0.5

        def norm() -> torch.Tensor:
            return 1 + 0.2 * torch.randn(_SIZE, generator=random)

        layer = {
            "self_attn.q_proj": matrix(_HEADS * _HEAD, 2 * _SIZE),
            "self_attn.k_proj": matrix(_KV_HEADS * _HEAD, 2 * _SIZE),
            "self_attn.v_proj": matrix(_KV_HEADS * _HEAD, 2 * _SIZE),
            "self_attn.o_proj": matrix(_SIZE, _HEADS * _HEAD),
            "mlp.gate_proj": matrix(_WIDTH, _SIZE),
            "mlp.up_proj": matrix(_WIDTH, _SIZE),
            "mlp.down_proj": matrix(_SIZE, _WIDTH),
            "input_layernorm": norm(),
            "hidden_norm": norm(),
            "post_attention_layernorm": norm(),
        }
        self.tensors = {f"midlayer.{name}.weight": part for name, part in layer.items()}
        self.tensors |= {
            "fc.weight": matrix(_SIZE, 3 * _SIZE),
            "norm.weight": norm(),
            "lm_head.weight": matrix(_DRAFTED, _SIZE),
        }
        self.tokens = 3 + 2 * torch.arange(_DRAFTED)
        """The tokens that it drafts."""
        self.settings: dict[str, Any] = {
            "architectures": ["LlamaForCausalLMEagle3"],
            "model_type": "llama",
            "hidden_size": _SIZE,
            "intermediate_size": _WIDTH,
            "num_attention_heads": _HEADS,
            "num_key_value_heads": _KV_HEADS,
            "head_dim": _HEAD,
            "num_hidden_layers": 1,
            "vocab_size": SIZES["vocab_size"],
            "draft_vocab_size": _DRAFTED,
            "max_position_embeddings": 128,
            "rope_theta": 5000.0,
            "rms_norm_eps": 1e-5,
        }

    def save(self, folder: Path) -> Path:
        """Write the head into a folder as it is published."""
        folder.mkdir()
        known = torch.zeros(SIZES["vocab_size"], dtype=torch.bool)
        known[self.tokens % len(known)] = True
        maps = {"d2t": self.tokens - torch.arange(_DRAFTED), "t2d": known}
        save_file(self.tensors | maps, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(self.settings))
        return folder

    def _part(self, name: str) -> torch.Tensor:
        return self.tensors[f"midlayer.{name}.weight"]

    def _norm(self, rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(rows, (_SIZE,), weight, self.settings["rms_norm_eps"])

    def streams(self, tokens: torch.Tensor) -> torch.Tensor:
        """The three residual streams side by side, by transformers."""
        found = self.module.model(tokens[None], output_hidden_states=True).hidden_states
        return torch.cat([found[stream][0] for stream in STREAMS], -1)

    def reference(
        self, tokens: torch.Tensor, features: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits and features of a whole sequence, written down from the paper."""
        count = len(tokens)
        token = self._norm(self.module.model.embed_tokens(tokens), self._part("input_layernorm"))
        known = self._norm(features, self._part("hidden_norm"))
        both = torch.cat((token, known), -1)
        heads = [
            (both @ self._part(f"self_attn.{name}_proj").T)
            .view(1, count, -1, _HEAD)
            .transpose(1, 2)
            for name in "qkv"
        ]
        turns = self.settings["rope_theta"] ** (-torch.arange(0, _HEAD, 2) / _HEAD)
        angles = (torch.arange(count)[:, None] * turns).repeat(1, 2)
        rotate: Any = import_module("transformers.models.llama.modeling_llama")
        query, key = rotate.apply_rotary_pos_emb(
            heads[0], heads[1], angles.cos()[None], angles.sin()[None]
        )
        mixed = functional.scaled_dot_product_attention(
            query, key, heads[2], is_causal=True, enable_gqa=True
        )
        stream = known if self.settings.get("norm_before_residual") else features
        mixed = mixed[0].transpose(0, 1).reshape(count, -1)
        stream = stream + mixed @ self._part("self_attn.o_proj").T
        x = self._norm(stream, self._part("post_attention_layernorm"))
        gate, up = (x @ self._part(f"mlp.{name}_proj").T for name in ("gate", "up"))
        stream = stream + (functional.silu(gate) * up) @ self._part("mlp.down_proj").T
        rows = self._norm(stream, self.tensors["norm.weight"])
        return rows @ self.tensors["lm_head.weight"].T, stream

    def become_cycle(self) -> None:
        """Let token after token of a cycle follow, which the head reads off a stream alone."""
        unit, loud = torch.eye(_SIZE), _SIZE**0.5
        turn = unit.roll(1, 0)  # of each unit vector to the next one
        self.silence()
        with torch.no_grad():
            self.module.model.norm.weight.fill_(1)
            self.module.model.embed_tokens.weight.zero_()[self.tokens] = loud * unit
            self.module.lm_head.weight.zero_()[self.tokens] = 4 * turn
        for name, part in self.tensors.items():
            part.fill_(1.0 if "norm" in name else 0.0)
        self.tensors["fc.weight"][:, _SIZE : 2 * _SIZE] = unit
        self.tensors["lm_head.weight"] = 4 * turn
        # The MLP turns a unit vector to the next one: its gate is open where that is.
        self._part("mlp.gate_proj")[:_SIZE] = 4 * unit
        self._part("mlp.up_proj")[:_SIZE] = unit
        opened = float(functional.silu(torch.tensor(4 * loud))) * loud
        self._part("mlp.down_proj")[:, :_SIZE] = loud * (turn - unit) / opened
