"""What each committed tiny model is held to: its files, its graph, its logits. See make_tiny_models.py."""

import re
from pathlib import Path

import numpy as np
import openvino as ov

kHere = Path(__file__).resolve().parent
kXml, kBin = "openvino_model.xml", "openvino_model.bin"
kJsons = ["config.json", "generation_config.json"]
kMaxFileBytes = 300_000
kVocab, kEos, kLayers = 256, 2, 4
kMinDistinct = 30  # of 60 greedy tokens
kTestTokens = 40  # more than twice the window of those that have one
kExact = {
    "INFERENCE_PRECISION_HINT": "f32",
    "KV_CACHE_PRECISION": "f32",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
    "INFERENCE_NUM_THREADS": "1",
}


def require(condition: bool, message: str) -> None:
    if not condition:
        raise RuntimeError(message)


def test_tokens() -> np.ndarray:
    return np.random.default_rng(0).integers(3, kVocab, kTestTokens, np.int64)


class StatefulRunner:
    """Runs the model for one sequence; feed() continues it."""

    def __init__(self, model: ov.Model):
        self.request_ = ov.Core().compile_model(model, "CPU", kExact).create_infer_request()
        self.inputs_ = {i.get_any_name() for i in model.inputs}
        self.length_ = 0

    def feed(self, tokens: np.ndarray) -> np.ndarray:
        """Logits [tokens, vocabulary]."""
        start, self.length_ = self.length_, self.length_ + len(tokens)
        feeds = {
            "input_ids": tokens[None],
            "attention_mask": np.ones((1, self.length_), np.int64),
            "position_ids": np.arange(start, self.length_, dtype=np.int64)[None],
            "beam_idx": np.zeros(1, np.int32),
        }
        self.request_.infer({k: v for k, v in feeds.items() if k in self.inputs_})
        return self.request_.get_tensor("logits").data[0].copy()


def run_paged(model: ov.Model, tokens: np.ndarray) -> np.ndarray:
    """Logits of one prefill by the PagedAttention form of the model, which it turns `model` into."""
    from openvino._offline_transformations import paged_attention_transformation

    paged_attention_transformation(model)
    compiled = ov.Core().compile_model(model, "CPU", kExact)
    request = compiled.create_infer_request()
    count = len(tokens)
    values = {
        "input_ids": tokens,
        "position_ids": np.arange(count, dtype=np.int64),
        "past_lens": np.zeros(1, np.int32),
        "subsequence_begins": np.array([0, count], np.int32),
        "block_indices": None,
        "block_indices_begins": None,
        "max_context_len": np.array(count, np.int32),
    }
    for port in compiled.inputs:
        name, shape = port.get_any_name(), port.get_partial_shape()
        if "cache" in name:
            block = shape[2].get_length()
            blocks = -(-count // block)
            dims = [blocks] + [d.get_length() for d in list(shape)[1:]]
            request.set_tensor(port, ov.Tensor(port.get_element_type(), dims))
    values["block_indices"] = np.arange(blocks, dtype=np.int32)
    values["block_indices_begins"] = np.array([0, blocks], np.int32)
    names = {port.get_any_name() for port in compiled.inputs}
    request.infer({k: v for k, v in values.items() if k in names})
    return request.get_tensor("logits").data.reshape(count, -1).copy()


def check_files(folder: Path) -> None:
    require({p.name for p in folder.iterdir()} == {kXml, kBin, *kJsons}, "other files")
    for path in folder.iterdir():
        require(path.stat().st_size < kMaxFileBytes, f"{path.name} is too large")
    for file in [kXml, *kJsons]:
        text = (folder / file).read_text()
        require(not re.search(r"://|/(tmp|home|root|usr|work|mnt)/|[A-Z]:\\\\", text), f"a path in {file}")
    require(f'"eos_token_id": {kEos}' in (folder / "generation_config.json").read_text(), "no eos")


def check_graph(model: ov.Model, layers: int) -> None:
    ops = model.get_ordered_ops()
    states = sum(op.get_type_name() == "ReadValue" for op in ops)
    require(states == len(model.get_sinks()) == 2 * layers, f"{states} states of {layers} layers")
    for op in ops:
        kind = op.get_element_type() if op.get_type_name() == "Constant" else ov.Type.f32
        require(not kind.is_real() or kind == ov.Type.f32, f"{op.get_friendly_name()} is {kind}")


def check_logits(model: ov.Model) -> tuple[np.ndarray, str]:
    """Logits of the test tokens, and their figures as text."""
    tokens = test_tokens()
    logits = StatefulRunner(model).feed(tokens)
    spread = logits.std(axis=1).min()
    require(np.isfinite(logits).all() and spread > 0.1, f"degenerate logits: std {spread}")

    changed = tokens.copy()
    changed[0] += 1
    reach = np.abs(StatefulRunner(model).feed(changed)[-1] - logits[-1]).max() / spread
    require(reach > 0.01, f"the first token moves the last logits by {reach} of their spread")

    runner = StatefulRunner(model)
    steps = np.concatenate([runner.feed(tokens[i : i + 1]) for i in range(kTestTokens)])
    difference = np.abs(steps - logits).max() / spread
    require(difference < 1e-3, f"decode differs from prefill by {difference}")

    generated = []
    for _ in range(60):
        generated.append(int(steps[-1].argmax()))
        steps = runner.feed(np.array(generated[-1:]))
    distinct = len(set(generated))
    require(distinct >= kMinDistinct, f"60 greedy tokens hold {distinct} different ones")
    return logits, f"std {spread:.2f}, reach {reach:.2f}, decode {difference:.0e}, distinct {distinct}"


def check(name: str) -> None:
    folder = kHere / name
    check_files(folder)
    model = ov.Core().read_model(folder / kXml)
    check_graph(model, kLayers)
    logits, figures = check_logits(model)

    paged_logits = run_paged(model, test_tokens())
    difference = np.abs(paged_logits - logits).max() / logits.std()
    require(difference < 1e-3, f"the PagedAttention form differs by {difference}")
    sizes = ", ".join(f"{file[-3:]} {(folder / file).stat().st_size}" for file in (kXml, kBin))
    print(f"{name}: {sizes}, {figures}, paged {difference:.0e}", flush=True)


def check_all(names: list[str]) -> int:
    failed = 0
    for name in names:
        try:
            check(name)
        except (RuntimeError, OSError) as error:
            failed += 1
            print(f"{name}: FAILED: {error}", flush=True)
    return failed
