#!/usr/bin/env python3
"""What each form of the weights costs: perplexity, likeliest tokens and divergence on a fixed text.

The reference is an independent reader of the same published file: transformers on the decoded blocks, in f32
(reference_reader.py). A package is run by plain OpenVINO, in f32 and without dynamic quantization, so that
the difference is that of the weights; one row has the properties of the profile `fast` instead. The text
(quality_text.txt) is cut into windows without overlap; all but the first token of each are predicted.

The published file is quantized already. What is converted to another form is therefore not the file but the
same weights in f32, as a Hugging Face directory of several parts, which is how they are published otherwise.
"""

import argparse
import dataclasses
import pathlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import openvino

import judgement
import models
import reference
import servers
from agreement import Agreement, Window

TEXT = pathlib.Path(__file__).with_name("quality_text.txt")
ROWS = 128  # per step: the logits of a whole window can be a gigabyte
EXACT = {
    "INFERENCE_PRECISION_HINT": "f32",
    "EXECUTION_MODE_HINT": "ACCURACY",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
    "KV_CACHE_PRECISION": "f32",
}
# As profile fast sets them (src/engine/device_properties.cc).
FAST = {
    "INFERENCE_PRECISION_HINT": "bf16",
    "KV_CACHE_PRECISION": "u8",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": 32,
    "KEY_CACHE_QUANT_MODE": "BY_TOKEN",
}


@dataclasses.dataclass(frozen=True)
class Variant:
    name: str
    flags: tuple[str, ...] = ()  # of `paceline compile`
    from_float: bool = True  # else from the published file
    properties: dict = dataclasses.field(default_factory=lambda: EXACT)


def int4(group: int, search: str, weights: str = "int4") -> Variant:
    name = f"{weights}.g{group}.{'search' if search == 'on' else 'maxabs'}"
    return Variant(name, ("--weights", weights, "--group", str(group), "--search", search))


AS_PUBLISHED = Variant("gguf", from_float=False)
VARIANTS = [
    AS_PUBLISHED,
    dataclasses.replace(AS_PUBLISHED, name="gguf.fast", properties=FAST),
    Variant("f16", ("--weights", "f16")),
    Variant("int8", ("--weights", "int8")),
    *(int4(group, search) for group in (128, 64, 32) for search in ("off", "on")),
    *(int4(group, "on", "int4-asym") for group in (128, 32)),
]


@dataclasses.dataclass
class Model:
    """A published file with its text: windows of token ids, and the reference's logits."""

    name: str
    gguf: pathlib.Path
    length: int  # of a window
    windows: int
    first: tuple[int, ...] = ()  # ids that begin each window
    packages: dict[tuple, tuple[pathlib.Path, float]] = dataclasses.field(default_factory=dict)

    def package(self, variant: Variant) -> tuple[pathlib.Path, float]:
        """And the seconds it took. Compiled anew in each run: what is judged is the compiler as it is."""
        key = (variant.from_float, *variant.flags)
        if key not in self.packages:
            begin = time.monotonic()
            package = self._compile(variant)
            self.packages[key] = package, time.monotonic() - begin
        return self.packages[key]

    def _compile(self, variant: Variant) -> pathlib.Path:
        package = reference.DIRECTORY / f"{self.name}.{variant.name}"
        shutil.rmtree(package, ignore_errors=True)
        source = self.gguf
        if variant.from_float:
            source = reference.float_weights(self.gguf, self.package(AS_PUBLISHED)[0])
        command = [str(servers.PACELINE), "compile", str(source), "-o", str(package), *variant.flags]
        process = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if process.returncode:
            sys.exit(f"{' '.join(command)}: exit code {process.returncode}\n{process.stderr}")
        return package

    def cut(self, tokens: np.ndarray) -> np.ndarray:
        """[windows, length] of the text's ids."""
        step = self.length - len(self.first)
        if len(tokens) < step * self.windows:
            sys.exit(f"{TEXT}: {len(tokens)} tokens for {self.windows} windows of {step}")
        pieces = tokens[: step * self.windows].reshape(self.windows, step)
        firsts = np.tile(np.array(self.first, np.int64), (self.windows, 1))
        return np.concatenate([firsts, pieces], axis=1)


def smollm2() -> Model:
    return Model("smollm2", models.smollm2_gguf(), 512, 10)


def gemma3() -> Model:
    """Longer windows than its sliding attention, which sees 512 tokens."""
    return Model("gemma3", models.gemma3_gguf(), 1024, 2, first=(2,))


def run(package: pathlib.Path, properties: dict, windows: np.ndarray) -> Iterator[tuple[int, int, np.ndarray]]:
    """Window, first row and logits of ROWS rows at a time, the rows before them in the KV cache."""
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(package / "openvino_model.xml"), "CPU", properties)
    request = compiled.create_infer_request()
    names = {name for port in compiled.inputs for name in port.names}
    for index, window in enumerate(windows):
        request.reset_state()
        for first in range(0, len(window), ROWS):
            last = min(first + ROWS, len(window))
            inputs = {
                "input_ids": window[None, first:last],
                "attention_mask": np.ones((1, last), np.int64),
                "position_ids": np.arange(first, last, dtype=np.int64)[None],
                "beam_idx": np.zeros(1, np.int32),
            }
            request.infer({name: value for name, value in inputs.items() if name in names})
            yield index, first, request.get_tensor("logits").data[0]


def compare(package: pathlib.Path, properties: dict, windows: np.ndarray, expected: np.ndarray) -> Agreement:
    sums = [Window() for _ in windows]
    for index, first, logits in run(package, properties, windows):
        sums[index].add(first, logits, expected[index, first : first + len(logits)], windows[index])
    return Agreement(sums)


def ratio_of(agreement: Agreement) -> judgement.Ratio:
    """Of the perplexities of each window, to show how far the text decides."""
    return judgement.paired_ratio(
        [window.perplexity for window in agreement.windows],
        [window.reference_perplexity for window in agreement.windows],
    )


def size_of(package: pathlib.Path) -> float:
    return (package / "openvino_model.bin").stat().st_size / 2**20


def head(model: Model) -> None:
    print(f"\n{model.name}: {model.windows} windows of {model.length} tokens against transformers on "
          f"{model.gguf.name}")
    print(f"{'weights':22} {'MiB':>7} {'perplexity':>11} {'change %':>9} {'per window: median [95 %]':>27} "
          f"{'top-1':>7} {'mean KL':>9} {'largest':>9} {'s':>5}")


def row(name: str, size: float, agreement: Agreement, seconds: float) -> None:
    ratio = ratio_of(agreement)
    print(f"{name:22} {size:7.1f} {agreement.perplexity:11.4f} {100 * agreement.perplexity_change:9.3f} "
          f"{ratio.median:12.4f} [{ratio.low:.4f}-{ratio.high:.4f}] {agreement.top1:7.4f} "
          f"{agreement.divergence:9.2e} {agreement.largest_divergence:9.2e} {seconds:5.1f}", flush=True)


def measure(model: Model, variants: list[Variant], keep: bool) -> dict[str, Agreement]:
    """A row for each variant; seconds are those of its compile."""
    tokens = reference.tokens(model.package(AS_PUBLISHED)[0], TEXT)
    windows = model.cut(tokens)
    expected = reference.logits(model.gguf, windows)
    head(model)
    found = {}
    for variant in variants:
        package, seconds = model.package(variant)
        found[variant.name] = compare(package, variant.properties, windows, expected)
        if len(found) == 1:
            print(f"{'reference':22} {'':7} {found[variant.name].reference_perplexity:11.4f}")
        row(variant.name, size_of(package), found[variant.name], seconds)
        if variant.from_float and not keep:
            shutil.rmtree(package)
    return found


def targets_of(name: str, found: dict[str, Agreement]) -> list[judgement.Target]:
    """Of those variants that were measured; for what is converted, SmolLM2 decides."""
    exact = judgement.Target.exact
    targets = []
    for variant in ("gguf", "int8"):
        if variant in found and (variant == "gguf" or name == "smollm2"):
            change = abs(found[variant].perplexity_change)
            targets.append(exact(f"{name}.{variant}.perplexity_change", change, 0.005, at_least=False))
    if "gguf" in found:
        targets.append(exact(f"{name}.gguf.top1", found["gguf"].top1, 0.98))
    plain, searched = found.get("int4.g128.maxabs"), found.get("int4.g128.search")
    if plain and searched and name == "smollm2":
        targets.append(exact(f"{name}.int4.g128.divergence_search_of_maxabs",
                             searched.divergence / plain.divergence, 0.98, at_least=False))
    return targets


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default="smollm2,gemma3", help="names, with commas (%(default)s)")
    parser.add_argument("--variants", help="names of rows, with commas; all without it")
    parser.add_argument("--trial", action="store_true", help="one window: to try the benchmark itself")
    parser.add_argument("--keep", action="store_true", help="leave the packages in build/bench/quality")
    arguments = parser.parse_args()
    wanted = arguments.variants.split(",") if arguments.variants else [variant.name for variant in VARIANTS]
    ratios, targets = {}, []
    for name in arguments.models.split(","):
        model = {"smollm2": smollm2, "gemma3": gemma3}[name]()
        if arguments.trial:
            model.windows = 1
        variants = [variant for variant in VARIANTS if variant.name in wanted]
        found = measure(model, variants, arguments.keep)
        ratios |= {f"{name}.{variant}.perplexity": ratio_of(each) for variant, each in found.items()}
        targets += targets_of(name, found)
    print(judgement.report_line("quality", ratios, targets))


if __name__ == "__main__":
    main()
