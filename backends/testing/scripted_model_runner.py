"""A `ModelRunner` that answers from a script, through the same engine as a real model."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from ..base.errors import LoadFailed, RequestRejected
from ..base.events import TokenLogprobs
from ..base.load_spec import LoadSpec
from ..base.model_info import ModelInfo
from ..base.sampling_params import SamplingParams
from ..engine.batch import Batch, Sampled, ScheduledChunk
from ..engine.kv.cell_cache import CellCache
from ..engine.kv_store.kv_store import KVStore
from ..engine.model_runner import KVCacheFull, StepStopped
from ..engine.sequence import Sequence
from .byte_tokenizer import ByteTokenizer

_EOS = 257


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The behaviour of a scripted model; a step sleeps and spins for these numbers of seconds.

    The first key of `replies` found in the prompt chooses the answer, else `reply` is it.
    A step appends the process id as a line to the file `trace` when it begins to compute, and
    again when that is done. `die_at` and `hang_at` make the process kill itself or stop stepping
    at that generated token; a prompt that holds the text `kills` makes it kill itself. The model
    counts as trained for `trained_context` tokens, at least for those that it is loaded with.
    """

    reply: str = "Hello from the scripted model."
    replies: dict[str, str] = {}
    step_seconds: float = 0.0
    spin_seconds: float = 0.0
    load_seconds: float = 0.0
    load_error: str | None = None
    die_at: int | None = None
    hang_at: int | None = None
    trace: str | None = None
    kills: str | None = None
    trained_context: int = 0


class CellTable:
    """A KV cache reduced to its bookkeeping: cells that slots hold, alone or together."""

    def __init__(self, capacity: int) -> None:
        self.free = capacity
        self._held: dict[int, list[tuple[int, int]]] = {}
        self._holders: Counter[int] = Counter()
        self._next = 0

    def tokens(self, slot: int) -> list[int]:
        """Return the tokens of the slot."""
        return [token for _, token in self._held.get(slot, ())]

    def extend(self, slot: int, tokens: list[int]) -> None:
        """Give the slot new cells with these tokens."""
        cells = range(self._next, self._next + len(tokens))
        self._next += len(tokens)
        self._held.setdefault(slot, []).extend(zip(cells, tokens, strict=True))
        self._holders.update(cells)
        self.free -= len(tokens)

    def share(self, source: int, target: int, length: int) -> None:
        """Let an empty slot hold the first cells of another."""
        if len(self.tokens(source)) < length or self.tokens(target):
            raise RuntimeError("the source is too short, or the target is not empty")
        self._held[target] = self._held[source][:length]
        self._holders.update(cell for cell, _ in self._held[target])

    def clear(self, slot: int, start: int = 0) -> None:
        """Free the slot's cells from `start` on; those that other slots share stay in use."""
        held = self._held.pop(slot, [])
        if start:
            self._held[slot] = held[:start]
        for cell, _ in held[start:]:
            self._holders[cell] -= 1
            if not self._holders[cell]:
                del self._holders[cell]
                self.free += 1


class ScriptedModelRunner:
    """Deterministic, instant and tiny: each token is one byte of the scripted reply."""

    can_fork: bool = True
    can_run_ahead = False
    max_drafts = 64
    state_key = "scripted"
    pictures = None

    def __init__(self, spec: LoadSpec, on_progress: Callable[[float], None] | None = None) -> None:
        """Read the script in `spec.script`; raises `LoadFailed` if the script has a load error."""
        self._script = msgspec.json.decode(spec.script or "{}", type=Script)
        self.tokenizer = ByteTokenizer()
        self.context = spec.context
        self.kv_capacity = max(spec.kv_capacity, spec.context)
        self.slots = spec.slots
        self.cache_slots = spec.slots + 4
        self.max_batch_tokens = spec.batch
        self._kv_type = spec.kv_type
        self._cells = CellTable(self.kv_capacity)
        self._batch = Batch()
        for quarter in range(5):
            time.sleep(self._script.load_seconds / 5)
            if on_progress is not None:
                on_progress(quarter / 4)
        if self._script.load_error is not None:
            raise LoadFailed(self._script.load_error)

    @property
    def free_cells(self) -> int:
        """The number of free cells."""
        return self._cells.free

    def lose_cells(self, count: int) -> None:
        """Reduce the capacity below `kv_capacity`, as in caches with several kinds of cells."""
        self._cells.free -= count

    def open_cache(self, store: KVStore | None = None) -> CellCache:
        """Return a new manager of the cells."""
        return CellCache(self, store)

    def launch(self, batch: Batch) -> None:
        """Fill cells as a real cache would, and take the time that the script sets."""
        if batch.num_tokens > self._cells.free:
            raise KVCacheFull
        for chunk in batch.chunks:
            sequence, start = chunk.sequence, chunk.sequence.num_computed
            if self._cells.tokens(sequence.slot) != sequence.token_ids[:start]:
                raise RuntimeError(f"slot {sequence.slot} does not hold the sequence's tokens")
            known = sequence.token_ids[start : start + chunk.count]
            self._cells.extend(sequence.slot, [*known, *chunk.drafts])
        self._batch = batch
        self._trace()
        self._sleep(batch)
        busy_until = time.monotonic() + self._script.spin_seconds
        while time.monotonic() < busy_until:
            continue
        self._trace()

    def _sleep(self, batch: Batch) -> None:
        """Sleep as the script says; once the batch is to stop, undo it and raise `StepStopped`."""
        end = time.monotonic() + self._script.step_seconds
        while (left := end - time.monotonic()) > 0:
            if batch.stops is not None and batch.stops():
                for chunk in batch.chunks:
                    self.trim(chunk.sequence.slot, chunk.sequence.num_computed)
                raise StepStopped
            time.sleep(left if batch.stops is None else min(left, 0.005))

    def collect(self) -> list[Sampled]:
        """Return the next bytes of each sequence's reply, then the end-of-sequence token."""
        return [self._sample(chunk) for chunk in self._batch.sampling]

    def _sample(self, chunk: ScheduledChunk) -> Sampled:
        tokens: list[int] = []
        constraint = chunk.sequence.constraint
        complete, error = False, None
        for draft in (*chunk.drafts, None):
            token = self._next(chunk.sequence, len(tokens))
            tokens.append(token)
            if constraint is not None:
                if not constraint.allows(token):
                    error = "the script says something else"
                    break
                constraint.consume(token)
                complete, error = constraint.complete, constraint.error
            if token != draft or complete:
                break
        return Sampled(tokens, _logprobs(chunk.sequence, tokens), complete, error)

    def can_follow(self, params: SamplingParams) -> bool:
        """Return False: a script does not run ahead."""
        return False

    def is_eog(self, token_id: int) -> bool:
        """Return whether the token ends an answer."""
        return self.tokenizer.is_eog(token_id)

    def fork(self, source: int, target: int, length: int, checkpoint: bytes | None = None) -> None:
        """Share a prefix; raises RuntimeError if the source does not hold it."""
        if not self.can_fork and len(self._cells.tokens(source)) != length:
            tokens = self._cells.tokens(source)[:length]
            if checkpoint != np.asarray(tokens, np.int32).tobytes():
                raise RuntimeError("this is no checkpoint of these tokens")
        self._cells.share(source, target, length)

    def checkpoint(self, slot: int) -> bytes:
        """Return the tokens, which are the whole state."""
        return np.asarray(self._cells.tokens(slot), np.int32).tobytes()

    def trim(self, slot: int, length: int) -> None:
        """Discard the tokens after the first `length`."""
        self._cells.clear(slot, length)

    def release(self, slot: int) -> None:
        """Free the cells of the slot."""
        self._cells.clear(slot)

    def snapshot(self, slot: int, start: int, end: int) -> bytes:
        """Return the tokens, which are the whole state."""
        return np.asarray(self._cells.tokens(slot)[start:end], np.int32).tobytes()

    def restore(self, slot: int, start: int, end: int, data: bytes | memoryview) -> bool:
        """Append a snapshot; raises RuntimeError unless the slot holds `start` tokens."""
        tokens = np.frombuffer(data, np.int32).tolist()
        if len(self._cells.tokens(slot)) != start:
            raise RuntimeError(f"slot {slot} does not hold {start} tokens")
        if len(tokens) > self._cells.free or len(tokens) < end - start:
            return False
        self._cells.extend(slot, tokens[: end - start])
        return True

    def adapter_number(self, folder: Path) -> int:
        """Refuse it: scripts have no weights."""
        raise RequestRejected(f"The scripted engine has no adapter {folder.parent.name}.")

    def drop_adapter(self, folder: Path) -> None:
        """See `ModelRunner`."""

    def prepare(self, params: SamplingParams) -> None:
        """Nothing to do: scripted sequences have no sampling state."""

    def prepare_step(self) -> bool:
        """Return False: no step is recorded."""
        return False

    def forget(self, sequence: Sequence) -> None:
        """Nothing to free: scripted sequences have no sampling state."""

    def info(self) -> ModelInfo:
        """Return facts as a real model does."""
        return ModelInfo(
            engine="scripted",
            device="CPU, scripted",
            architecture="scripted",
            parameters=0,
            vocab_size=self.tokenizer.vocab_size,
            trained_context=max(self.context, self._script.trained_context),
            context=self.context,
            slots=self.slots,
            kv_capacity=self.kv_capacity,
            has_chat_template=True,
            kv_type=self._kv_type,
        )

    def close(self) -> None:
        """Nothing to free."""

    def _trace(self) -> None:
        if self._script.trace is not None:
            with Path(self._script.trace).open("a") as trace:
                trace.write(f"{os.getpid()}\n")

    def _next(self, sequence: Sequence, offset: int) -> int:
        position = sequence.num_generated + offset
        if position == self._script.die_at or self._is_deadly(sequence):
            os.kill(os.getpid(), signal.SIGKILL)
        if position == self._script.hang_at:
            time.sleep(3600)
        if position < 0 and sequence.scored is not None:
            return sequence.scored[position]
        reply = self._reply(sequence)
        return reply[position] if position < len(reply) else _EOS

    def _is_deadly(self, sequence: Sequence) -> bool:
        kills = self._script.kills
        return kills is not None and kills.encode() in _prompt_bytes(sequence)

    def _reply(self, sequence: Sequence) -> bytes:
        if self._script.replies:
            prompt = _prompt_bytes(sequence)
            for key, reply in self._script.replies.items():
                if key.encode() in prompt:
                    return reply.encode()
        return self._script.reply.encode()


def _prompt_bytes(sequence: Sequence) -> bytes:
    return bytes(t for t in sequence.token_ids[: sequence.prompt_length] if t < 256)


def _logprobs(sequence: Sequence, tokens: list[int]) -> list[TokenLogprobs] | None:
    """Return log-probabilities of 0, without alternatives."""
    if sequence.logprobs is None:
        return None
    certain = sequence.logprobs > 0
    return [TokenLogprobs(token, 0.0, [(token, 0.0)] if certain else []) for token in tokens]
