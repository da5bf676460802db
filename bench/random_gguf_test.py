#!/usr/bin/env python3
"""Tests of random_gguf.py: run with `python3 -m unittest random_gguf_test` in this folder."""

import hashlib
import tempfile
import unittest
from pathlib import Path

import gguf
import numpy as np
import random_gguf


def write_base(path: Path) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"t{i}" for i in range(300)])
    writer.add_token_types([1] * 300)
    writer.add_token_merges(["a b", "c d"])
    writer.add_eos_token_id(2)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()


class RandomGgufTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder_ = Path(folder.name)
        write_base(self.folder_ / "base.gguf")

    def write(self, *options: str) -> Path:
        out = self.folder_ / "out.gguf"
        args = ["--base", str(self.folder_ / "base.gguf"), "--out", str(out), *options]
        random_gguf.write_gguf(random_gguf.parse_args(args))
        return out

    def test_weights_are_finite_centred_and_of_unit_gain(self):
        for name, weight_type in random_gguf.kTypes.items():
            for tensor in gguf.GGUFReader(self.write("--type", name, "--embedding-type", name)).tensors:
                values = gguf.dequantize(tensor.data, tensor.tensor_type)
                with self.subTest(type=name, tensor=tensor.name):
                    self.assertTrue(np.isfinite(values).all())
                    if tensor.name.endswith("norm.weight"):
                        mean = random_gguf.kAttentionGain if "attn" in tensor.name else 1
                        self.assertAlmostEqual(values.mean(), mean, delta=0.05)
                        self.assertGreater(values.std(), 0.05)
                        continue
                    self.assertEqual(tensor.tensor_type, weight_type.ggml)
                    gain = values.std() * np.sqrt(values.shape[1])
                    self.assertAlmostEqual(gain, 1, delta=0.1)
                    self.assertAlmostEqual(values.mean() / values.std(), 0, delta=0.05)

    def test_no_two_tensors_or_rows_are_equal(self):
        for name in random_gguf.kTypes:
            tensors = gguf.GGUFReader(self.write("--type", name, "--embedding-type", name)).tensors
            self.assertEqual(len({t.data.tobytes()[:256] for t in tensors}), len(tensors))
            embedding = tensors[0].data
            self.assertEqual(len({row.tobytes() for row in embedding}), len(embedding))

    def test_bytes_depend_on_the_arguments_alone(self):
        def digest(*options):
            return hashlib.sha256(self.write(*options).read_bytes()).hexdigest()

        self.assertEqual(digest("--seed", "7"), digest("--seed", "7"))
        self.assertNotEqual(digest("--seed", "7"), digest("--seed", "8"))

    def test_chunks_follow_each_other_without_gap(self):
        self.addCleanup(setattr, random_gguf, "kChunkBytes", random_gguf.kChunkBytes)
        random_gguf.kChunkBytes = 4096
        tensors = gguf.GGUFReader(self.write("--embedding-type", "f32")).tensors
        self.assertEqual(len({row.tobytes() for row in tensors[0].data}), 300)

    def test_vocabulary_is_copied_and_filled_up(self):
        reader = gguf.GGUFReader(self.write("--min-vocab", "512"))
        tokens = reader.fields["tokenizer.ggml.tokens"].contents()
        self.assertEqual((len(tokens), tokens[299], tokens[511]), (512, "t299", "<|unused_511|>"))
        self.assertEqual(reader.fields["tokenizer.ggml.token_type"].contents()[299:301], [1, 5])
        self.assertEqual(reader.fields["llama.vocab_size"].contents(), 512)
        self.assertEqual(list(reader.tensors[0].shape), [256, 512])


if __name__ == "__main__":
    unittest.main()
