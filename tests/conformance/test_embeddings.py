"""Embeddings through the official client: forms, sizes, meaning, and the same bits however they are computed."""

import array
import base64
import json
import math
import threading
import time
import unittest

import openai
import serving
import paceline_testing as testing

kPath = "/v1/embeddings"
kWidth = 576  # of SmolLM2-135M
kTexts = ["The cat sat on the mat.", "A kitten was sitting on the rug.",
          "Quarterly revenue fell by nine percent.", "Grüße, 世界 \N{GRINNING FACE}", "a"]
# What is about the same and what is not.
kTriples = [
    ("The cat sat on the mat.", "A kitten was sitting on the rug.", "Quarterly revenue fell by nine percent."),
    ("How do I bake sourdough bread?", "A recipe for a loaf of bread with flour, water and yeast.",
     "The spacecraft entered orbit around Jupiter."),
    ("def add(a, b): return a + b", "def subtract(x, y): return x - y",
     "She walked slowly along the beach at sunset."),
]


def dot(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other))


def from_base64(text: str) -> list[float]:
    values = array.array("f", base64.b64decode(text, validate=True))
    return list(values)


def vectors(service: serving.Service, **body) -> list[list[float]]:
    """As bits: through base64."""
    response = service.post(kPath, {"encoding_format": "base64", **body})
    assert response.status == 200, response.body
    return [from_base64(item["embedding"]) for item in response.json()["data"]]


class ClientCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service = serving.service()
        # The client asks for base64 unless told otherwise, and decodes it after its own validation.
        cls.client, cls.lenient = serving.clients(cls.service)

    def create(self, given, **arguments):
        return self.client.embeddings.create(model=serving.kModel, input=given,
                                             **{"encoding_format": "float", **arguments})

    def tokens(self, text: str) -> list[int]:
        return self.service.post("/tokenize", {"prompt": text}).json()["tokens"]


class Client(ClientCase):
    def test_text_list_and_ids(self):
        answer = self.create(kTexts[0])
        self.assertEqual((answer.object, answer.model), ("list", serving.kModel))
        expected = answer.data[0].embedding
        self.assertEqual(len(expected), kWidth)
        self.assertAlmostEqual(dot(expected, expected), 1, places=5)
        ids = self.tokens(kTexts[0])
        self.assertEqual(answer.usage.prompt_tokens, len(ids))
        self.assertEqual(answer.usage.total_tokens, len(ids))
        self.assertEqual(self.create(ids).data[0].embedding, expected)
        for several in (kTexts, [self.tokens(text) for text in kTexts]):
            answer = self.create(several)
            self.assertEqual([item.index for item in answer.data], list(range(len(kTexts))))
            self.assertEqual(answer.data[0].embedding, expected, "the same bits alone and in a list")
            self.assertEqual(answer.usage.prompt_tokens, sum(len(self.tokens(t)) for t in kTexts))
            self.assertEqual(len({tuple(item.embedding) for item in answer.data}), len(kTexts))

    def test_numbers_and_base64_are_the_same(self):
        numbers = self.create(kTexts, encoding_format="float").data
        coded = self.lenient.embeddings.create(model=serving.kModel, input=kTexts, encoding_format="base64").data
        by_default = self.lenient.embeddings.create(model=serving.kModel, input=kTexts).data
        for one, other, decoded in zip(numbers, coded, by_default):
            as_f32 = list(array.array("f", one.embedding))
            self.assertEqual(as_f32, from_base64(other.embedding))
            self.assertEqual(as_f32, decoded.embedding, "as the client decodes what it asks for by itself")

    def test_dimensions(self):
        self.assertEqual(len(self.create("a", dimensions=kWidth).data[0].embedding), kWidth)
        with self.assertRaises(openai.BadRequestError) as raised:
            self.create("a", dimensions=256)
        self.assertEqual(raised.exception.param, "dimensions")
        self.assertIn(f"expected {kWidth}", raised.exception.message)

    def test_related_texts_are_nearer(self):
        for text, related, other in kTriples:
            a, b, c = vectors(self.service, input=[text, related, other])
            self.assertAlmostEqual(dot(a, a), 1, places=5)
            self.assertGreater(dot(a, b), dot(a, c) + 0.01, text)

    def test_an_input_may_fill_the_context(self):
        most = serving.kContext - 1
        answer = self.create([5] * most)
        self.assertEqual(answer.usage.prompt_tokens, most)
        with self.assertRaises(openai.BadRequestError) as raised:
            self.create([[7], [5] * (most + 1)])
        self.assertEqual(raised.exception.code, "context_length_exceeded")
        self.assertIn(f"input 1 has {most + 1} tokens, expected at most {most}", raised.exception.message)


class SameBits(ClientCase):
    def test_alone_in_a_list_and_beside_answers(self):
        """Texts that share their begin, longer than a chunk, while others are answered."""
        begin = "Once upon a time there was a rider who went a long way. " * 12
        texts = [begin + text for text in kTexts] + kTexts
        alone = [vectors(self.service, input=text)[0] for text in texts]
        stop = threading.Event()

        def chat():
            while not stop.is_set():
                self.client.completions.create(model=serving.kModel, prompt=begin, max_tokens=16,
                                               temperature=0)

        others = [threading.Thread(target=chat) for _ in range(3)]
        for other in others:
            other.start()
        try:
            for _ in range(2):
                self.assertEqual(vectors(self.service, input=texts), alone)
        finally:
            stop.set()
            for other in others:
                other.join()

    def test_over_two_stages_and_with_private_layers(self):
        expected = vectors(self.service, input=kTexts)
        two = serving.Service("--stages", "2")
        self.addCleanup(two.close)
        self.assertEqual(vectors(two, input=kTexts), expected)
        two.close()
        worker = testing.worker(testing.smollm2_package())
        self.addCleanup(worker.close)
        private = serving.Service("--workers", testing.addresses(worker), "--private-layers", "2")
        self.addCleanup(private.close)
        self.assertEqual(vectors(private, input=kTexts), expected)

    def test_the_stateful_engine_has_them_too(self):
        stateful = serving.Service("--engine", "stateful")
        self.addCleanup(stateful.close)
        for one, other in zip(vectors(stateful, input=kTexts), vectors(self.service, input=kTexts)):
            self.assertGreater(dot(one, other), 0.9999)


class Operations(unittest.TestCase):
    """On small layers of random weights: what is asked says nothing, and goes fast."""

    @classmethod
    def setUpClass(cls):
        cls.service = serving.Service("--max-waiting", "4", package=serving.tiny_package())
        cls.addClassCleanup(cls.service.close)

    def test_a_list_that_is_longer_than_the_queue(self):
        ids = [[10 + i % 500, 7, 9] for i in range(2048)]
        all_of_them = vectors(self.service, input=ids)
        self.assertEqual(len(all_of_them), 2048)
        self.assertEqual(all_of_them[:500], all_of_them[500:1000])
        self.assertEqual(len({tuple(vector) for vector in all_of_them}), 500)
        refused = self.service.post(kPath, {"input": ids + [[1]]})
        self.assertEqual((refused.status, refused.json()["error"]["param"]), (400, "input"))

    def test_a_client_that_goes_is_forgotten(self):
        connection = self.service.connect()
        body = json.dumps({"input": [[i % 500 + 1] * 60 for i in range(2000)]})
        connection.request("POST", kPath, body, {"Content-Type": "application/json"})
        deadline = time.monotonic() + testing.kTimeout
        while self.service.metrics().get('num_requests_running{model="smollm2"}', 1) == 0:
            self.assertLess(time.monotonic(), deadline)
        connection.close()
        while True:
            fleet = self.service.get("/fleet").json()["requests"]
            if any(r["route"] == kPath and r["end"] == "cancelled" for r in fleet):
                break
            self.assertLess(time.monotonic(), deadline, fleet)
            time.sleep(0.05)
        self.assertEqual(len(vectors(self.service, input="a")), 1)

    def test_it_is_counted(self):
        before = self.service.metrics()
        vectors(self.service, input=[[5, 6, 7], [8]])
        after = self.service.metrics()
        grown = {name: after[name] - before.get(name, 0) for name in after}
        self.assertEqual(grown['prompt_tokens_total{model="smollm2"}'], 4)
        self.assertEqual(grown.get('generation_tokens_total{model="smollm2"}', 0), 0)
        last = self.service.get("/fleet").json()["requests"][-1]
        self.assertEqual((last["route"], last["prompt_tokens"], last["generated_tokens"], last["end"]),
                         (kPath, 4, 0, "stop"))

    def test_a_batch_of_embeddings(self):
        client = openai.OpenAI(base_url=self.service.url + "/v1", api_key="none", max_retries=0,
                               _strict_response_validation=True)
        lines = [json.dumps({"custom_id": str(i), "method": "POST", "url": kPath,
                             "body": {"input": [i + 1, 2], "model": serving.kModel}}) for i in range(20)]
        file = client.files.create(file=("in.jsonl", "\n".join(lines).encode()), purpose="batch")
        batch = client.batches.create(input_file_id=file.id, endpoint=kPath, completion_window="24h")
        deadline = time.monotonic() + testing.kTimeout
        while batch.status != "completed":
            self.assertLess(time.monotonic(), deadline, batch)
            time.sleep(0.05)
            batch = client.batches.retrieve(batch.id)
        self.assertEqual((batch.request_counts.completed, batch.request_counts.failed), (20, 0))
        self.assertEqual(batch.usage.input_tokens, 40)
        direct = vectors(self.service, input=[[i + 1, 2] for i in range(20)])
        results = [json.loads(line) for line in client.files.content(batch.output_file_id).text.splitlines()]
        for result in results:
            given = result["response"]["body"]["data"][0]["embedding"]
            self.assertEqual(list(array.array("f", given)), direct[int(result["custom_id"])])
        self.assertTrue(all(math.isfinite(value) for vector in direct for value in vector))


if __name__ == "__main__":
    unittest.main()
