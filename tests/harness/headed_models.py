"""Random models with heads that draft, their runners, and heads that are right by construction."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda.compute_backend import ComputeBackend
from ingle.backends.cuda.model_files import ModelFiles, ModelSource
from ingle.backends.cuda.model_runner import CudaModelRunner
from ingle.backends.cuda.state_model_runner import open_model_runner
from ingle.backends.engine.batch import Batch
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.sequence import Sequence
from ingle.backends.engine.speculation.head_drafter import HeadSteps
from ingle.backends.testing.byte_tokenizer import ByteTokenizer
from ingle.models.heads.head_files import find_mtp_head
from ingle.models.kv_type import KVType
from ingle.models.weights.hf_tensor_names import HFTensorNames

_EXPERTS = {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 24}
DELTA = {
    "num_hidden_layers": 4,
    "full_attention_interval": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}
SIZES = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "head_dim": 16,
    "vocab_size": 264,
    "max_position_embeddings": 512,
}
FAMILIES: Mapping[str, dict[str, Any]] = {
    "qwen3_5_text": DELTA,
    "qwen3_next": {**DELTA, **_EXPERTS, "shared_expert_intermediate_size": 40},
    "glm4_moe": {
        "n_routed_experts": 8,
        "num_experts_per_tok": 3,
        "moe_intermediate_size": 24,
        "n_group": 4,
        "topk_group": 2,
    },
}
_BESIDE = {
    "eh_proj": "mtp.fc",
    "enorm": "mtp.pre_fc_norm_embedding",
    "hnorm": "mtp.pre_fc_norm_hidden",
    "shared_head.norm": "mtp.norm",
}
LENGTH = 40
_ADDING = ("o_proj", "out_proj", "down_proj")
"""Parts of layers whose outputs are added to the residual stream."""


class TargetModel:
    """A random model of transformers, which heads draft for."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.module = model.module

    @property
    def source(self) -> ModelSource:
        files = ModelFiles(self.model.config, self.model.canonical(), 1 << 20, 1 << 22)
        return ModelSource(files, ByteTokenizer())

    def hidden(self, tokens: torch.Tensor) -> torch.Tensor:
        """What the model's output layer reads, by transformers."""
        return self.module.model(tokens[None]).last_hidden_state[0]

    def silence(self, *, but: Iterable[int] = ()) -> None:
        """Let layers of the model add nothing to the residual stream, `but` for some."""
        with torch.no_grad():
            for number, layer in enumerate(self.module.model.layers):
                if number not in but:
                    for name, parameter in layer.named_parameters():
                        if any(part in name for part in _ADDING):
                            parameter.zero_()


class HeadedModel(TargetModel):
    """A random model, and tensors of a random head in its own files as checkpoints have them."""

    def __init__(self, model: Any, memory_weights: Any) -> None:
        super().__init__(model)
        config = model.config
        self.is_glm = config.architecture == "glm4moe"
        self.like = max(i for i, layer in enumerate(config.layers) if layer.has_attention)
        self.layer: Any = copy.deepcopy(self.module.model.layers[self.like])
        random = torch.Generator().manual_seed(11)
        size, base = config.hidden_size, 1.0 if self.is_glm else 0.0
        with torch.no_grad():
            for name, parameter in self.layer.named_parameters():
                parameter.normal_(base if "norm" in name else 0.0, 0.2, generator=random)
        self.beside = {
            "eh_proj": torch.randn(size, 2 * size, generator=random) / 8,
            **{
                name: base + 0.2 * torch.randn(size, generator=random)
                for name in ("enorm", "hnorm", "shared_head.norm")
            },
        }
        self._weights = memory_weights

    def silence_head(self) -> None:
        """Let the head's layer add nothing to its residual stream."""
        with torch.no_grad():
            for name, parameter in self.layer.named_parameters():
                if any(part in name for part in _ADDING):
                    parameter.zero_()

    def _plain(self) -> None:
        """Let norms scale by one, and the head have those of the model."""
        base = 1.0 if self.is_glm else 0.0
        with torch.no_grad():
            self.module.model.norm.weight.fill_(base)
        for name in ("enorm", "hnorm", "shared_head.norm"):
            self.beside[name] = torch.full_like(self.beside[name], base)

    def become_copy(self) -> None:
        """Make the head a copy of the model, which has one layer that does anything.

        It is right for the tokens that it reads, whatever the features are.
        """
        self._plain()
        self.silence(but=[self.like])
        self.layer.load_state_dict(self.module.model.layers[self.like].state_dict())
        size = self.model.config.hidden_size
        self.beside["eh_proj"] = torch.cat((torch.eye(size), torch.zeros(size, size)), 1)
        with torch.no_grad():
            rows = self.module.model.embed_tokens.weight
            rows /= rows.square().mean(-1, keepdim=True).sqrt()  # as the head's norm makes it
            self.module.lm_head.weight *= 4  # so that few tokens are likely

    def become_cycle(self) -> None:
        """Let token after token of a cycle follow, which the head reads off the features alone."""
        self._plain()
        self.silence()
        size = self.model.config.hidden_size
        turn = torch.eye(size).roll(1, 0)  # of each unit vector to the next one
        self.silence_head()
        with torch.no_grad():
            self.module.model.embed_tokens.weight.zero_()[:size] = size**0.5 * torch.eye(size)
            self.module.lm_head.weight.zero_()[:size] = 4 * turn
        self.beside["eh_proj"] = torch.cat((torch.zeros(size, size), turn), 1)

    @property
    def stored(self) -> Any:
        """All tensors by the names of the checkpoint."""
        prefix = f"model.layers.{self.model.config.num_layers}" if self.is_glm else "mtp.layers.0"
        tensors = dict(self.model.raw.tensors)
        tensors |= {f"{prefix}.{name}": part for name, part in self.layer.state_dict().items()}
        for name, part in self.beside.items():
            stored = f"{prefix}.{name}" if self.is_glm else _BESIDE[name]
            tensors[f"{stored}.weight"] = part
        if self.is_glm:  # copies, which published checkpoints have as well
            tensors[f"{prefix}.embed_tokens.weight"] = tensors["model.embed_tokens.weight"]
            tensors[f"{prefix}.shared_head.head.weight"] = tensors["lm_head.weight"]
        return self._weights(tensors)

    @property
    def source(self) -> ModelSource:
        config, stored = self.model.config, self.stored
        head = find_mtp_head(stored, config, HFTensorNames)
        assert head is not None
        files = ModelFiles(config, HFTensorNames(stored, config), 1 << 20, 1 << 22, head=head)
        return ModelSource(files, ByteTokenizer())

    def norm(self, rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """The RMS norm of the family, by its definition."""
        scale = torch.rsqrt(rows.square().mean(-1, keepdim=True) + self.model.config.norm_epsilon)
        return rows * scale * (weight if self.is_glm else 1 + weight)

    def reference(
        self, tokens: torch.Tensor, features: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits and features of a whole sequence: the layer is transformers' own."""
        model = self.module.model
        token = self.norm(model.embed_tokens(tokens), self.beside["enorm"])
        both = torch.cat((token, self.norm(features, self.beside["hnorm"])), -1)
        stream = (both @ self.beside["eh_proj"].T)[None]
        places = torch.arange(len(tokens))[None]
        mask = torch.full((len(tokens),) * 2, -torch.inf).triu(1)[None, None]
        stream = self.layer(
            stream,
            position_embeddings=model.rotary_emb(stream, places),
            attention_mask=mask,
            position_ids=places,
        )
        features = self.norm(stream.view(len(tokens), -1), self.beside["shared_head.norm"])
        return self.module.lm_head(features), features


class HeadedRunners:
    """Runners of one model, with its head unless `draft_path` says otherwise."""

    def __init__(self) -> None:
        self._made: list[CudaModelRunner] = []

    def load(
        self, source: ModelSource, backend: ComputeBackend | None = None, **fields: Any
    ) -> CudaModelRunner:
        values: dict[str, Any] = {
            "context": 512,
            "slots": 6,
            "threads": 1,
            "draft_path": "random",
            **fields,
        }
        spec = LoadSpec(engine="cuda", path="random", device="cpu", kv_type=KVType.F32, **values)
        self._made.append(open_model_runner(spec, backend=backend, source=source))
        return self._made[-1]

    def close(self) -> None:
        for runner in self._made:
            runner.close()


class EagerSpeculator:
    """Verifies all that the head drafts, however unlikely, `depth` tokens for each sequence."""

    def __init__(self, head: HeadSteps, depth: int = 3) -> None:
        self._head = head
        self._depth = depth

    def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        depth = min(self._depth, room // len(decoding))
        if not depth:
            return {}
        found = self._head.draft(decoding, depth)
        return {
            sequence: tuple(token for token, _ in likely[: LENGTH - sequence.num_generated - 1])
            for sequence, likely in zip(decoding, found, strict=True)
        }

    def waits(self, decoding: list[Sequence], room: int) -> bool:
        return True

    def observe(self, batch: Batch, seconds: float) -> None: ...

    def forget(self, sequence: Sequence) -> None: ...


def sequences(*lengths: int, high: int = 250, greedy: bool = False) -> list[Sequence]:
    random = np.random.default_rng(1)
    return [
        Sequence(
            "r",
            index,
            random.integers(2, high, length).tolist(),
            SamplingParams(seed=index, temperature=0.0 if index % 2 or greedy else 0.8),
            max_tokens=LENGTH,
            ignore_eos=True,
        )
        for index, length in enumerate(lengths or range(40, 126, 17))
    ]


def run(engine: Engine, together: list[Sequence]) -> list[list[int]]:
    for sequence in together:
        engine.add(sequence)
    while engine.has_work or engine.is_fetching:
        engine.step()
    return [sequence.token_ids[sequence.prompt_length :] for sequence in together]


def headed_engine(runner: CudaModelRunner, depth: int = 3, **fields: Any) -> Engine:
    return Engine(runner, EagerSpeculator(runner.head, depth), **fields)
