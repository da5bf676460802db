"""Requests at the edge, by name: what each is answered with. Plain HTTP, no client library."""

import contextlib
import json
import socket
import threading
import time
import unittest

import serving

kChat = "/v1/chat/completions"
kText = "/v1/completions"
kEmbed = "/v1/embeddings"
kUser = {"role": "user", "content": "Say hello."}
kInvalid = "invalid_value"
kMissing = "missing_required_parameter"
kUnsupported = "unsupported_parameter"
kTool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def chat(**fields):
    return {"messages": [kUser], "max_tokens": 2, **fields}


def said(*messages):
    return {"messages": list(messages), "max_tokens": 2}


def text(**fields):
    return {"prompt": "Hello", "max_tokens": 2, **fields}


kSchemaField = "response_format.json_schema.schema"


def schema(content: dict) -> dict:
    return chat(response_format={"type": "json_schema",
                                 "json_schema": {"name": "n", "strict": True, "schema": content}})


# name: (path, body, status, param, code)
kRefused = {
    "messages is empty": (kChat, {"messages": []}, 400, "messages", kInvalid),
    "messages is a string": (kChat, {"messages": "hello"}, 400, "messages", kInvalid),
    "messages is missing": (kChat, {}, 400, "messages", kMissing),
    "messages has a number": (kChat, {"messages": [1]}, 400, "messages", kInvalid),
    "unknown role": (kChat, said({"role": "king", "content": "x"}), 400, "messages[0].role", kInvalid),
    "no role": (kChat, said({"content": "x"}), 400, "messages[0].role", kMissing),
    "no content": (kChat, said({"role": "user"}), 400, "messages[0].content", kMissing),
    "null content of a user": (kChat, said({"role": "user", "content": None}), 400,
                               "messages[0].content", kMissing),
    "content is a number": (kChat, said({"role": "user", "content": 1}), 400, "messages[0].content",
                            kInvalid),
    "content without parts": (kChat, said({"role": "user", "content": []}), 400,
                              "messages[0].content", kInvalid),
    "an image": (kChat, said({"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "data:,"}}]}), 400,
        "messages[0].content[0].type", kUnsupported),
    "a tool's message without its call": (kChat, said({"role": "tool", "content": "x"}), 400,
                                          "messages[0].tool_call_id", kMissing),
    "max_tokens 0 of a chat": (kChat, chat(max_tokens=0), 400, "max_tokens", kInvalid),
    "max_tokens 0 without echo": (kText, text(max_tokens=0), 400, "max_tokens", kInvalid),
    "max_tokens below 0": (kChat, chat(max_tokens=-1), 400, "max_tokens", kInvalid),
    "max_tokens above the context": (kChat, chat(max_tokens=100000), 400, "max_tokens",
                                     "context_length_exceeded"),
    "max_tokens is a string": (kChat, chat(max_tokens="2"), 400, "max_tokens", kInvalid),
    "max_tokens is no integer": (kChat, chat(max_tokens=1.5), 400, "max_tokens", kInvalid),
    "max_tokens beyond 64 bits": (kChat, chat(max_tokens=10**30), 400, "max_tokens", kInvalid),
    "two different limits": (kChat, chat(max_completion_tokens=3), 400, "max_tokens", kInvalid),
    "n 0": (kChat, chat(n=0), 400, "n", kInvalid),
    "n 17": (kChat, chat(n=17), 400, "n", kInvalid),
    "n below 0": (kText, text(n=-1), 400, "n", kInvalid),
    "temperature -1": (kChat, chat(temperature=-1), 400, "temperature", kInvalid),
    "temperature 2.1": (kChat, chat(temperature=2.1), 400, "temperature", kInvalid),
    "temperature is NaN": (kChat, b'{"messages": [], "temperature": NaN}', 400, None, "invalid_json"),
    "temperature is infinite": (kChat, b'{"messages": [], "temperature": 1e999}', 400, None,
                                "invalid_json"),
    "temperature is a string": (kChat, chat(temperature="1"), 400, "temperature", kInvalid),
    "top_p above 1": (kChat, chat(top_p=1.1), 400, "top_p", kInvalid),
    "top_p below 0": (kChat, chat(top_p=-0.1), 400, "top_p", kInvalid),
    "presence_penalty 3": (kChat, chat(presence_penalty=3), 400, "presence_penalty", kInvalid),
    "frequency_penalty -3": (kChat, chat(frequency_penalty=-3), 400, "frequency_penalty", kInvalid),
    "unknown model": (kChat, chat(model="nothing"), 404, "model", "model_not_found"),
    "unknown model of a completion": (kText, text(model="nothing"), 404, "model", "model_not_found"),
    "model is a number": (kChat, chat(model=1), 400, "model", kInvalid),
    "top_logprobs without logprobs": (kChat, chat(top_logprobs=2), 400, "top_logprobs", kInvalid),
    "top_logprobs 21": (kChat, chat(logprobs=True, top_logprobs=21), 400, "top_logprobs", kInvalid),
    "logprobs 21 of a completion": (kText, text(logprobs=21), 400, "logprobs", kInvalid),
    "logit_bias outside the vocabulary": (kChat, chat(logit_bias={"99999999": 1}), 400, "logit_bias",
                                          kInvalid),
    "logit_bias 101": (kChat, chat(logit_bias={"1": 101}), 400, "logit_bias", kInvalid),
    "logit_bias of a word": (kChat, chat(logit_bias={"word": 1}), 400, "logit_bias", kInvalid),
    "stop_token_ids outside the vocabulary": (kChat, chat(stop_token_ids=[99999999]), 400,
                                              "stop_token_ids", kInvalid),
    "stop is empty": (kChat, chat(stop=""), 400, "stop", kInvalid),
    "17 stop strings": (kChat, chat(stop=["a"] * 17), 400, "stop", kInvalid),
    "stop has a number": (kChat, chat(stop=["a", 1]), 400, "stop", kInvalid),
    "stream_options without stream": (kChat, chat(stream_options={}), 400, "stream_options", kInvalid),
    "stream is a string": (kChat, chat(stream="yes"), 400, "stream", kInvalid),
    "audio": (kChat, chat(audio={"voice": "x", "format": "mp3"}), 400, "audio", kUnsupported),
    "modalities with audio": (kChat, chat(modalities=["text", "audio"]), 400, "modalities",
                              kUnsupported),
    "web search": (kChat, chat(web_search_options={"user_location": {}}), 400,
                   "web_search_options", kUnsupported),
    "functions": (kChat, chat(functions=[{"name": "f"}]), 400, "functions", kUnsupported),
    "tool_choice without tools": (kChat, chat(tool_choice="auto"), 400, "tool_choice", kInvalid),
    "unknown tool_choice": (kChat, chat(tools=[kTool], tool_choice="maybe"), 400, "tool_choice",
                            kInvalid),
    "a tool without a name": (kChat, chat(tools=[{"type": "function", "function": {}}]), 400,
                              "tools[0].function.name", kMissing),
    "unknown response_format": (kChat, chat(response_format={"type": "xml"}), 400,
                                "response_format.type", kInvalid),
    "response_format without a schema": (
        kChat, chat(response_format={"type": "json_schema", "json_schema": {"name": "n"}}), 400,
        "response_format.json_schema.schema", kMissing),
    "a schema that is none": (kChat, schema({"type": "thing"}), 400, kSchemaField, kInvalid),
    "a schema that refers to nothing": (kChat, schema({"$ref": "#/$defs/none"}), 400, kSchemaField,
                                        kInvalid),
    "a schema as long as a book": (kChat, schema({"enum": ["word" * 20000]}), 400, kSchemaField,
                                   kInvalid),
    "a schema that explodes": (
        kChat, schema({"type": "integer", "multipleOf": 99999989}), 400, kSchemaField, kInvalid),
    "a regular expression that is none": (kChat, chat(structured_outputs={"regex": "(a"}), 400,
                                          "structured_outputs.regex", kInvalid),
    "a regular expression that explodes": (
        kChat, chat(structured_outputs={
            "regex": r"(?:(?:\w{0,300}[aeiou]\w{0,300}){0,300}\s){0,300}"}), 400,
        "structured_outputs.regex", kInvalid),
    "a grammar that is none": (kText, text(structured_outputs={"grammar": "begin: other"}), 400,
                               "structured_outputs.grammar", kInvalid),
    "a choice of nothing": (kText, text(structured_outputs={"choice": []}), 400,
                            "structured_outputs.choice", kInvalid),
    "two forms": (kChat, chat(structured_outputs={"regex": "a", "choice": ["b"]}), 400,
                  "structured_outputs.choice", kInvalid),
    "an unknown tool is named": (kChat, chat(tools=[kTool], tool_choice={
        "type": "function", "function": {"name": "g"}}), 400, "tool_choice.function.name", kInvalid),
    "a call's schema is none": (kChat, chat(tool_choice="required", tools=[{
        "type": "function", "function": {"name": "f", "parameters": {"type": "thing"}}}]), 400,
        "tool_choice", kInvalid),
    "a strict tool's schema is none": (kChat, chat(tools=[{
        "type": "function", "function": {"name": "f", "strict": True,
                                         "parameters": {"properties": {"a": {"type": "thing"}}}}}]),
        400, "tools", kInvalid),
    "a call and min_tokens": (kChat, chat(tools=[kTool], tool_choice="required", min_tokens=1), 400,
                              "min_tokens", kInvalid),
    "a choice of words beside tools": (kChat, chat(tools=[kTool],
                                                   structured_outputs={"choice": ["a"]}), 400,
                                       "structured_outputs.choice", kUnsupported),
    "guided_json": (kChat, chat(guided_json={"type": "object"}), 400, "guided_json", kUnsupported),
    "a form and min_tokens": (kChat, chat(response_format={"type": "json_object"}, min_tokens=1),
                              400, "min_tokens", kInvalid),
    "suffix": (kText, text(suffix="x"), 400, "suffix", kUnsupported),
    "best_of above n": (kText, text(best_of=3), 400, "best_of", kUnsupported),
    "prompt is missing": (kText, {}, 400, "prompt", kMissing),
    "input is missing": (kEmbed, {}, 400, "input", kMissing),
    "input is empty": (kEmbed, {"input": ""}, 400, "input", kInvalid),
    "input has no items": (kEmbed, {"input": []}, 400, "input", kInvalid),
    "input has an empty text": (kEmbed, {"input": ["a", ""]}, 400, "input", kInvalid),
    "input has empty ids": (kEmbed, {"input": [[1], []]}, 400, "input", kInvalid),
    "input mixes ids and texts": (kEmbed, {"input": [1, "a"]}, 400, "input", kInvalid),
    "input is a number": (kEmbed, {"input": 5}, 400, "input", kInvalid),
    "input outside the vocabulary": (kEmbed, {"input": [99999999]}, 400, "input", kInvalid),
    "input below 0": (kEmbed, {"input": [-1]}, 400, "input", kInvalid),
    "2049 inputs": (kEmbed, {"input": ["a"] * 2049}, 400, "input", kInvalid),
    "an input above the context": (kEmbed, {"input": ["a", "word " * 2000]}, 400, "input",
                                   "context_length_exceeded"),
    "dimensions that are not the model's": (kEmbed, {"input": "a", "dimensions": 3}, 400, "dimensions",
                                            kUnsupported),
    "dimensions 0": (kEmbed, {"input": "a", "dimensions": 0}, 400, "dimensions", kInvalid),
    "unknown encoding_format": (kEmbed, {"input": "a", "encoding_format": "int8"}, 400,
                                "encoding_format", kInvalid),
    "truncation of an input": (kEmbed, {"input": "a", "truncate_prompt_tokens": 3}, 400,
                               "truncate_prompt_tokens", kUnsupported),
    "unknown model of an embedding": (kEmbed, {"input": "a", "model": "nothing"}, 404, "model",
                                      "model_not_found"),
    "prompt is empty": (kText, text(prompt=[]), 400, "prompt", kInvalid),
    "prompt is a number": (kText, text(prompt=1), 400, "prompt", kInvalid),
    "prompt mixes ids and text": (kText, text(prompt=[1, "a"]), 400, "prompt", kInvalid),
    "ids outside the vocabulary": (kText, text(prompt=[99999999]), 400, "prompt", kInvalid),
    "ids below 0": (kText, text(prompt=[-1]), 400, "prompt", kInvalid),
    "prompt longer than the context": (kText, text(prompt="word " * 2000), 400, None,
                                       "context_length_exceeded"),
    "chat longer than the context": (kChat, said({"role": "user", "content": "word " * 2000}), 400,
                                     None, "context_length_exceeded"),
    "invalid UTF-8": (kChat, b'{"messages": [{"role": "user", "content": "\xff"}]}', 400, None,
                      "invalid_json"),
    "deep JSON": (kChat, b'{"a":' * 100000 + b"1" + b"}" * 100000, 400, None, "invalid_json"),
    "no JSON": (kChat, b"hello", 400, None, "invalid_json"),
    "an empty body": (kChat, b"", 400, None, "invalid_json"),
    "a JSON array": (kChat, b"[]", 400, None, "invalid_json"),
    "a key twice": (kChat, b'{"n": 1, "n": 2}', 400, None, "invalid_json"),
    "detokenize ids outside the vocabulary": ("/detokenize", {"tokens": [99999999]}, 400, "tokens",
                                              kInvalid),
}

# name: (path, body)
kTaken = {
    "max_tokens 1": (kChat, chat(max_tokens=1)),
    "temperature 0": (kChat, chat(temperature=0)),
    "temperature 2": (kChat, chat(temperature=2)),
    "top_p 0": (kChat, chat(top_p=0)),
    "n 16": (kChat, chat(n=16)),
    "content as parts": (kChat, said({"role": "user", "content": [{"type": "text", "text": "a"}]})),
    "null content with tool_calls": (kChat, said(kUser, {
        "role": "assistant", "content": None, "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "1"})),
    "non-alternating roles": (kChat, said(kUser, kUser, {"role": "assistant", "content": "a"},
                                          {"role": "assistant", "content": "b"}, kUser)),
    "an empty text": (kChat, said({"role": "user", "content": ""})),
    "nulls": (kChat, chat(temperature=None, stop=None, n=None, logit_bias=None, tools=None)),
    "unknown fields": (kChat, chat(unheard_of={"a": 1})),
    "an integer as 2.0": (kChat, chat(max_tokens=2.0)),
    "logprobs without top_logprobs": (kChat, chat(logprobs=True)),
    "a negative seed": (kChat, chat(seed=-5)),
    "both limits alike": (kChat, chat(max_completion_tokens=2)),
    "the default model": (kText, text()),
    "echo": (kText, text(echo=True)),
    "a lone surrogate": (kChat, b'{"messages": [{"role": "user", "content": "\\ud83d\\ude00"}], '
                                b'"max_tokens": 2}'),
}


class Table(unittest.TestCase):
    def test_refused(self):
        service = serving.service()
        for name, (path, body, status, param, code) in kRefused.items():
            with self.subTest(name):
                response = service.post(path, body)
                self.assertEqual(response.status, status, response.body[:500])
                error = response.json()["error"]
                self.assertEqual(sorted(error), ["code", "message", "param", "type"])
                self.assertEqual((error["param"], error["code"]), (param, code), error)
                self.assertTrue(error["message"] and error["type"])

    def test_taken(self):
        service = serving.service()
        for name, (path, body) in kTaken.items():
            with self.subTest(name):
                response = service.post(path, body)
                self.assertEqual(response.status, 200, response.body[:500])
                self.assertTrue(response.json()["choices"])


class Requests(unittest.TestCase):
    def setUp(self):
        self.service = serving.service()

    def test_a_body_of_100_megabytes(self):
        with contextlib.closing(self.service.connect()) as connection:
            connection.putrequest("POST", kChat)
            connection.putheader("Content-Type", "application/json")
            connection.putheader("Content-Length", str(100 << 20))
            connection.endheaders()
            self.assertEqual(connection.getresponse().status, 413)

    def test_unknown_paths_and_methods(self):
        self.assertEqual(self.service.get("/v1/nothing").status, 404)
        self.assertEqual(self.service.get(kChat).status, 405)

    def test_another_media_type(self):
        response = self.service.request("POST", kChat, b"{}", **{"Content-Type": "text/plain"})
        self.assertEqual(response.status, 415)

    def test_another_host(self):
        response = self.service.request("GET", "/v1/models", Host="evil.example")
        self.assertIn(response.status, (400, 403, 421))

    def test_the_requests_id_comes_back(self):
        response = self.service.request("GET", "/v1/models", **{"X-Request-Id": "abc-123"})
        self.assertEqual(response.headers["x-request-id"], "abc-123")

    def test_forms_built_to_explode_are_refused_quickly_and_spoil_nothing(self):
        # Each another text, and then all of them again.
        primes = (99999971, 99999959, 99999941, 99999931, 99999847, 99999839, 99999827, 99999821,
                  99999787)
        forms = [{"json": {"type": "integer", "multipleOf": prime}} for prime in primes]
        forms += [{"regex": r"(?:(?:\w{0,%d}[aeiou]\w{0,300}){0,300}\s){0,300}" % most}
                  for most in (301, 302)]
        forms += [{"grammar": 'start: %json {"type": "integer", "multipleOf": 99999773}'}]
        for body in (chat(structured_outputs=form) for form in forms + forms):
            begin = time.monotonic()
            response = self.service.post(kChat, body)
            self.assertEqual(response.status, 400, response.body[:500])
            self.assertTrue(response.json()["error"]["param"].startswith("structured_outputs."))
            self.assertLess(time.monotonic() - begin, 20)  # 2 s, on a machine that is not busy
        response = self.service.post(kChat, chat(structured_outputs={"choice": ["yes", "no"]},
                                                 max_tokens=9))
        self.assertEqual(response.status, 200, response.body[:500])
        self.assertIn(response.json()["choices"][0]["message"]["content"], ("yes", "no"))

    def test_metrics(self):
        def value(name):
            lines = self.service.get("/metrics").body.decode().splitlines()
            found = [line for line in lines if line.startswith(name)]
            self.assertEqual(len(found), 1, name)
            return float(found[0].rpartition(" ")[2])

        tokens = f'paceline_generation_tokens_total{{model="{serving.kModel}"}}'
        before = value(tokens)
        self.service.post(kChat, chat(max_tokens=5, ignore_eos=True))
        self.assertEqual(value(tokens) - before, 5)
        self.assertGreater(value('paceline_stage_compute_seconds_count'
                                 f'{{model="{serving.kModel}",phase="decode",stage="0"}}'), 0)

    def test_version_and_health(self):
        self.assertIn("version", self.service.get("/version").json())
        self.assertEqual(self.service.get("/health").status, 200)


class Streams(unittest.TestCase):
    def setUp(self):
        self.service = serving.service()

    def test_shape_of_a_stream(self):
        response = self.service.post(kChat, chat(stream=True, stream_options={"include_usage": True}))
        self.assertTrue(response.headers["content-type"].startswith("text/event-stream"))
        self.assertEqual(response.headers.get("transfer-encoding"), "chunked")
        events = response.events()
        self.assertEqual(events[-1], "[DONE]")
        self.assertEqual(events[-2]["choices"], [])
        self.assertEqual(events[-2]["usage"]["completion_tokens"], 2)
        self.assertEqual(events[-3]["choices"][0]["finish_reason"], "length")

    def test_no_character_is_broken(self):
        emoji = "\N{GRINNING FACE}"
        tokens = self.service.post("/tokenize", {"prompt": emoji, "add_special_tokens": False})
        ids = tokens.json()["tokens"]
        self.assertGreater(len(ids), 1, "the emoji is split over tokens")
        # The model goes on with the same; 40 tokens end inside a character, 39 do not.
        for tokens, end in ((39, ""), (40, "\N{REPLACEMENT CHARACTER}")):
            body = text(prompt=emoji * 20, max_tokens=tokens, stream=True, temperature=0)
            pieces = [e["choices"][0]["text"] for e in self.service.post(kText, body).events()[:-1]]
            self.assertEqual("".join(pieces), emoji * 13 + end)
            whole = self.service.post(kText, {**body, "stream": False}).json()["choices"][0]["text"]
            self.assertEqual("".join(pieces), whole)

    def test_clients_that_vanish_leave_room_for_others(self):
        for _ in range(20):
            connection = self.service.connect()
            body = json.dumps(chat(stream=True, max_tokens=900, ignore_eos=True))
            connection.request("POST", kChat, body, {"Content-Type": "application/json"})
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.close()
        begin = time.monotonic()
        self.assertEqual(self.service.post(kChat, chat()).status, 200)
        self.assertLess(time.monotonic() - begin, 60, "the others' answers are not computed")

    def test_many_at_once(self):
        statuses = []

        def ask():
            statuses.append(self.service.post(kChat, chat(max_tokens=4)).status)

        threads = [threading.Thread(target=ask) for _ in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(statuses, [200] * 32)


class Limits(unittest.TestCase):
    def test_above_the_queues_limit(self):
        service = serving.Service("--max-waiting", "2", "--max-running", "1")
        self.addCleanup(service.close)
        responses = []

        def ask():
            responses.append(service.post(kChat, chat(max_tokens=40, ignore_eos=True)))

        threads = [threading.Thread(target=ask) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        refused = [r for r in responses if r.status == 429]
        self.assertEqual(len(responses), 16, "none is lost")
        self.assertTrue(refused)
        self.assertTrue(all(r.status in (200, 429) for r in responses))
        for response in refused:
            self.assertGreaterEqual(int(response.headers["retry-after"]), 1)
            self.assertEqual(response.json()["error"]["code"], "queue_full")

    def test_a_signal_lets_answers_end(self):
        import signal

        service = serving.Service()
        self.addCleanup(service.close)
        responses = []

        def ask():
            responses.append(service.post(kChat, chat(max_tokens=100, stream=True, ignore_eos=True)))

        thread = threading.Thread(target=ask)
        thread.start()
        time.sleep(0.3)
        service.server.signal(signal.SIGTERM)
        thread.join()
        self.assertEqual(responses[0].events()[-1], "[DONE]")
        self.assertEqual(service.server.process.wait(30), 0)


if __name__ == "__main__":
    unittest.main()
