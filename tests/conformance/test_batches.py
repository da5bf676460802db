"""Files and batches through the official client, and a server that is killed in the middle of them."""

import json
import os
import signal
import time
import unittest

import openai
import serving
import paceline_testing as testing

# Of the batch in whose middle the server is killed twice.
kLines = int(os.environ.get("PACELINE_BATCH_LINES", "1000"))


def request_line(custom_id: str, **body) -> str:
    given = {"prompt": f"Number {custom_id}: once upon a time", "max_tokens": 8, "temperature": 0,
             "ignore_eos": True}
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": "/v1/completions",
                       "body": {**given, **body}})


class BatchCase(unittest.TestCase):
    package = None

    def setUp(self):
        self.state = testing.temporary_directory() / f"state-{self.id()}"
        self.start()
        self.addCleanup(lambda: self.service.close())

    def start(self):
        self.service = serving.Service("--state-dir", self.state, package=self.package)
        self.client = openai.OpenAI(base_url=self.service.url + "/v1", api_key="none", max_retries=0,
                                    _strict_response_validation=True)

    def kill(self):
        self.service.server.signal(signal.SIGKILL)
        self.service.server.process.wait()
        self.service.close()

    def submit(self, lines: list[str]) -> openai.types.Batch:
        file = self.client.files.create(file=("in.jsonl", "\n".join(lines).encode()), purpose="batch")
        return self.client.batches.create(input_file_id=file.id, endpoint="/v1/completions",
                                          completion_window="24h")

    def wait(self, batch_id: str, done) -> openai.types.Batch:
        deadline = time.monotonic() + testing.kTimeout
        while True:
            batch = self.client.batches.retrieve(batch_id)
            if done(batch):
                return batch
            self.assertLess(time.monotonic(), deadline, batch)
            time.sleep(0.05)

    def results(self, file_id: str) -> list[dict]:
        return [json.loads(line) for line in self.client.files.content(file_id).text.splitlines()]


class Kills(BatchCase):
    def setUp(self):
        self.package = serving.tiny_package()
        super().setUp()

    def test_one_result_for_each_line_across_two_kills(self):
        batch_id = self.submit([request_line(f"id-{i}", max_tokens=24) for i in range(kLines)]).id
        last, killed_at = 0, []
        for done in (kLines // 3, 2 * kLines // 3):
            batch = self.wait(batch_id, lambda b: b.request_counts.completed >= done)
            self.assertEqual(batch.status, "in_progress", "the kill comes in the middle of it")
            last = batch.request_counts.completed
            self.kill()
            self.start()
            kept = self.client.batches.retrieve(batch_id).request_counts.completed
            killed_at.append(kept)
            self.assertGreaterEqual(kept, last, "what was committed is not asked again")
            last = kept
        batch = self.wait(batch_id, lambda b: b.status == "completed")
        self.assertEqual(batch.request_counts.total, kLines)
        self.assertEqual(batch.request_counts.completed, kLines)
        self.assertIsNone(batch.error_file_id)
        results = self.results(batch.output_file_id)
        used = [result["response"]["body"]["usage"] for result in results]
        self.assertEqual(batch.usage.input_tokens, sum(u["prompt_tokens"] for u in used))
        self.assertEqual(batch.usage.output_tokens, sum(u["completion_tokens"] for u in used))
        self.assertEqual(batch.usage.total_tokens, sum(u["total_tokens"] for u in used))
        self.assertEqual(sorted(r["custom_id"] for r in results),
                         sorted(f"id-{i}" for i in range(kLines)))
        for result in results:
            self.assertEqual(result["response"]["status_code"], 200)
            self.assertTrue(result["response"]["body"]["choices"][0]["text"])
        direct = self.client.completions.create(
            model=serving.kModel, max_tokens=24, temperature=0, extra_body={"ignore_eos": True},
            prompt="Number id-7: once upon a time")
        one = next(r for r in results if r["custom_id"] == "id-7")
        self.assertEqual(one["response"]["body"]["choices"][0]["text"], direct.choices[0].text)
        print(f"{kLines} lines, killed when {killed_at} were done")


class Batches(BatchCase):
    def test_broken_lines_are_error_lines(self):
        batch_id = self.submit([
            request_line("good"), request_line("good"), "{", request_line("hot", temperature=9),
            request_line("stream", stream=True), request_line("other", model="nothing")]).id
        batch = self.wait(batch_id, lambda b: b.status == "completed")
        self.assertEqual((batch.request_counts.completed, batch.request_counts.failed), (1, 5))
        self.assertEqual([r["custom_id"] for r in self.results(batch.output_file_id)], ["good"])
        errors = self.results(batch.error_file_id)
        self.assertEqual([r["custom_id"] for r in errors],
                         ["good", None, "hot", "stream", "other"])
        self.assertEqual(errors[0]["error"]["code"], "invalid_request")
        self.assertEqual(errors[2]["response"]["body"]["error"]["param"], "temperature")
        self.assertEqual(errors[4]["response"]["status_code"], 404)

    def test_files_lists_and_cancellation(self):
        batch = self.submit([request_line(f"id-{i}", max_tokens=40) for i in range(60)])
        self.assertEqual([b.id for b in self.client.batches.list()], [batch.id])
        self.client.batches.cancel(batch.id)
        batch = self.wait(batch.id, lambda b: b.status == "cancelled")
        self.assertEqual(batch.request_counts.completed + batch.request_counts.failed, 60)
        files = {file.id: file for file in self.client.files.list()}
        self.assertIn(batch.error_file_id, files)
        self.assertEqual(files[batch.input_file_id].filename, "in.jsonl")
        self.assertEqual(self.client.files.retrieve(batch.input_file_id),
                         files[batch.input_file_id])
        self.assertTrue(self.client.files.delete(batch.input_file_id).deleted)
        with self.assertRaises(openai.NotFoundError):
            self.client.files.content(batch.input_file_id)
        with self.assertRaises(openai.BadRequestError):
            self.client.files.create(file=b"x", purpose="assistants")
        with self.assertRaises(openai.NotFoundError):
            self.client.batches.create(input_file_id="file-none", completion_window="24h",
                                       endpoint="/v1/completions")

    def test_the_programs_own_commands(self):
        directory = testing.temporary_directory()
        source = directory / "commands.jsonl"
        source.write_text("\n".join([request_line("a"), request_line("b"), "{"]))
        url = ("--url", self.service.url + "/v1")
        submitted = testing.run("batch", "submit", source, "--endpoint", "/v1/completions", "--json",
                                *url).check().json()[0]
        self.wait(submitted["id"], lambda b: b.status == "completed")
        shown = testing.run("batch", "status", submitted["id"], *url).check()
        self.assertEqual(shown.stdout.decode().strip(),
                         f"{submitted['id']}: completed, 2 of 3 done, 1 failed")
        output, errors = directory / "commands.out", directory / "commands.err"
        testing.run("batch", "fetch", submitted["id"], "-o", output, "--errors", errors,
                    *url).check()
        self.assertEqual([json.loads(line)["custom_id"] for line in output.read_text().splitlines()],
                         ["a", "b"])
        self.assertEqual(len(errors.read_text().splitlines()), 1)
        unknown = testing.run("batch", "status", "batch_none", *url)
        self.assertEqual(unknown.code, 2)
        self.assertIn("no such batch", unknown.stderr)


if __name__ == "__main__":
    unittest.main()
