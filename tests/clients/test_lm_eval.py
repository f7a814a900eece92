"""lm-evaluation-harness against the daemon: its scores are those of llama.cpp's own logits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .conftest import Daemon, Installed, Runner

pytestmark = [pytest.mark.model, pytest.mark.slow]

CAPITALS = {
    "France": "Paris",
    "Germany": "Berlin",
    "Italy": "Rome",
    "Spain": "Madrid",
}
TASK = """\
task: capitals
dataset_path: json
dataset_kwargs:
  data_files:
    test: DATA
test_split: test
output_type: multiple_choice
doc_to_text: "Question: What is the capital of {{country}}?\\nAnswer:"
doc_to_choice: choices
doc_to_target: label
metric_list:
  - metric: acc
    aggregation: mean
    higher_is_better: true
"""
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}


def test_lm_eval_scores_as_llama_cpp_does(
    daemon: Daemon,
    installed: Installed,
    run_client: Runner,
    smollm2_path: Path,
    smollm2_folder: Path,
) -> None:
    cities = list(CAPITALS.values())
    docs = [
        {"country": country, "choices": cities, "label": label}
        for label, country in enumerate(CAPITALS)
    ]
    data = run_client.work / "capitals.jsonl"
    data.write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    (run_client.work / "capitals.yaml").write_text(TASK.replace("DATA", str(data)))
    options = {
        "model": "smollm2",
        "base_url": f"{daemon.url}/v1/completions",
        "tokenizer": str(smollm2_folder),
        "num_concurrent": "2",
        "max_length": "2048",
    }
    program = installed.python("lm-eval", "lm_eval", "lm_eval[api]==0.4.13", "transformers")
    run_client(
        *(program, "run", "--model", "local-completions"),
        *("--model_args", ",".join(f"{name}={value}" for name, value in options.items())),
        *("--include_path", run_client.work, "--tasks", "capitals"),
        *("--log_samples", "--output_path", run_client.work / "out"),
        env=OFFLINE,
    )

    reported = json.loads(_only(run_client.work / "out", "results_*.json").read_text())
    lines = _only(run_client.work / "out", "samples_*.jsonl").read_text().splitlines()
    samples = sorted(map(json.loads, lines), key=lambda sample: sample["doc_id"])
    theirs = np.array([[score for score, _ in _scores(sample)] for sample in samples], np.float64)
    ours = _loglikelihoods(smollm2_path, docs)
    # Prompts are computed in batches, and the sums of 16-bit products depend on their shape.
    np.testing.assert_allclose(theirs, ours, atol=0.05)
    right = ours.argmax(1) == np.arange(len(docs))
    assert reported["results"]["capitals"]["acc,none"] == right.mean()
    assert right.mean() > 1 / len(cities)  # the model knows some: the scores are of the right text


def _only(folder: Path, pattern: str) -> Path:
    (found,) = folder.rglob(pattern)
    return found


def _scores(sample: dict[str, Any]) -> list[tuple[float, bool]]:
    """Of each choice the log-likelihood, and whether it is what the model would write."""
    return [(float(score), greedy in (True, "True")) for score, greedy in sample["filtered_resps"]]


def _loglikelihoods(model: Path, docs: list[dict[str, Any]]) -> NDArray[np.float64]:
    """The log-likelihood of each choice (documents, choices) behind its question."""
    import llama_cpp

    llama: Any = llama_cpp.Llama(str(model), n_ctx=512, logits_all=True, verbose=False)

    def tokens(text: str) -> list[int]:
        return llama.tokenize(text.encode(), add_bos=False, special=True)

    def score(question: str, choice: str) -> float:
        context, whole = tokens(question), tokens(f"{question} {choice}")
        llama.reset()
        llama.eval(whole)
        logits = np.array(llama.scores[: len(whole)], np.float64)
        logprobs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
        return float(sum(logprobs[at - 1, whole[at]] for at in range(len(context), len(whole))))

    question = "Question: What is the capital of {}?\nAnswer:"
    return np.array(
        [
            [score(question.format(doc["country"]), choice) for choice in doc["choices"]]
            for doc in docs
        ]
    )
