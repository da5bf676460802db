"""usage: scripts/bench inversion [LAYERS...]: how much of a text can be read in the activations that leave the first
LAYERS layers of SmolLM2 (docs/private-placement.md), by somebody who has the weights.

Two cheap ways, no attack that optimises: the nearest row of a table made with these layers, one for each token behind a
fixed first one; and a linear map to the first layer's table, learned on texts of other prompts. The texts are the
model's own answers.
"""

import json
import subprocess
import sys
import tempfile

import models
import numpy as np
from servers import PACELINE, ROOT

kDefaultLayers = (1, 2, 4, 8, 15)
kTable = 1024  # tokens of the table that are computed at a time
kRidge = 50.0


def unit(rows: np.ndarray) -> np.ndarray:
    """Rows of length 1."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def nearest(rows: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Which row of the table has the least angle to each row; the table's are of length 1."""
    rows = unit(rows)
    return np.concatenate([(rows[at : at + 512] @ table.T).argmax(1) for at in range(0, len(rows), 512)])


class LinearMap:
    """Least squares with a ridge, from standardised rows."""

    def __init__(self, rows: np.ndarray, targets: np.ndarray):
        self._mean, self._deviation = rows.mean(0), rows.std(0) + 1e-6
        scaled = (rows - self._mean) / self._deviation
        self._weights = np.linalg.solve(scaled.T @ scaled + kRidge * np.eye(scaled.shape[1]), scaled.T @ targets)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        return ((rows - self._mean) / self._deviation) @ self._weights


def answers(package) -> tuple[list[list[int]], list[list[int]]]:
    """Texts to learn from, and texts of other prompts to read."""
    outcome = subprocess.run(
        [PACELINE, "generate", "-p", package, "--prompts", ROOT / "tests/e2e/prompts.txt", "--n", "8", "-n", "200",
         "--temperature", "1", "--seed", "5", "--ctx", "512", "--parallel", "32", "--json"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    by_prompt: dict[tuple, list[list[int]]] = {}
    for line in outcome.stdout.splitlines():
        answer = json.loads(line)
        by_prompt.setdefault(tuple(answer["prompt_ids"]), []).append(answer["prompt_ids"] + answer["tokens"])
    prompts = sorted(by_prompt)
    unseen = prompts[: len(prompts) // 4]
    learn = [text for prompt in prompts if prompt not in unseen for text in by_prompt[prompt]]
    return learn, [text for prompt in unseen for text in by_prompt[prompt]]


class FirstLayers:
    """The model up to a stage's boundary, in plain OpenVINO."""

    def __init__(self, package, layers: int):
        import openvino

        with tempfile.TemporaryDirectory() as folder:
            command = [PACELINE, "shard", "export", package, "--layers", f"0:{layers}", "-o", f"{folder}/part"]
            subprocess.run(command, check=True, capture_output=True)
            compiled = openvino.Core().compile_model(
                f"{folder}/part/openvino_model.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
            )
        self._request = compiled.create_infer_request()

    def __call__(self, ids: np.ndarray) -> np.ndarray:
        batch, length = ids.shape
        self._request.reset_state()
        outputs = self._request.infer({
            "input_ids": ids,
            "attention_mask": np.ones((batch, length), np.int64),
            "position_ids": np.tile(np.arange(length, dtype=np.int64), (batch, 1)),
            "beam_idx": np.arange(batch, dtype=np.int32),
        })  # fmt: skip
        return next(iter(outputs.values())).copy()

    def table(self, vocabulary: int) -> np.ndarray:
        parts = []
        for at in range(0, vocabulary, kTable):
            tokens = np.arange(at, min(at + kTable, vocabulary))
            parts.append(self(np.stack([np.full(len(tokens), 1), tokens], 1))[:, 1])
        return np.concatenate(parts)

    def rows(self, texts: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
        """Activations and the tokens that they are of; a text's first row is unlike all others."""
        rows = np.concatenate([self(np.array([text]))[0][1:] for text in texts])
        return rows, np.concatenate([text[1:] for text in texts])


def main() -> None:
    package = models.smollm2()
    vocabulary = json.loads((package / "paceline.json").read_text())["vocabulary_size"]
    learn, unseen = answers(package)
    first = FirstLayers(package, 1).table(vocabulary)
    centred = unit(first - first.mean(0))
    print(f"learned from {sum(map(len, learn))} tokens, read {sum(map(len, unseen))} of other prompts")
    print("| private layers | look-up | linear map |\n|---:|---:|---:|")
    found = {}
    for layers in [int(argument) for argument in sys.argv[1:]] or kDefaultLayers:
        stage = FirstLayers(package, layers)
        table = stage.table(vocabulary)
        rows, tokens = stage.rows(unseen)
        looked_up = float((nearest(rows - table.mean(0), unit(table - table.mean(0))) == tokens).mean())
        known, known_tokens = stage.rows(learn)
        learned = LinearMap(known, centred[known_tokens])
        mapped = float((nearest(learned(rows), centred) == tokens).mean())
        print(f"| {layers} | {looked_up:.2f} | {mapped:.2f} |", flush=True)
        found[layers] = {"look_up": looked_up, "linear_map": mapped}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
