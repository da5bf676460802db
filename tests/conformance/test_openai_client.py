"""The official Python client with nothing changed but base_url, each response validated strictly."""

import json
import unittest

import openai
import serving

kHello = [{"role": "user", "content": "Say hello to the riders."}]


class ClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service = serving.service()
        # The client's types have no null where OpenAI's own server sends one: the finish reason of
        # a text completion's chunk, and the log-probability of a prompt's first token.
        cls.client, cls.lenient = serving.clients(cls.service)

    def chat(self, **arguments):
        given = {"model": serving.kModel, "messages": kHello, "max_tokens": 12, "temperature": 0}
        return self.client.chat.completions.create(**{**given, **arguments})

    def complete(self, **arguments):
        given = {"model": serving.kModel, "prompt": "The capital of France is", "max_tokens": 8,
                 "temperature": 0}
        has_nulls = arguments.get("stream") or arguments.get("echo")
        client = self.lenient if has_nulls else self.client
        return client.completions.create(**{**given, **arguments})


class Models(ClientTest):
    def test_list_and_retrieve(self):
        models = self.client.models.list().data
        self.assertEqual([model.id for model in models], [serving.kModel])
        self.assertEqual(self.client.models.retrieve(serving.kModel), models[0])

    def test_unknown_model(self):
        with self.assertRaises(openai.NotFoundError) as raised:
            self.client.models.retrieve("org/nothing")
        self.assertEqual(raised.exception.code, "model_not_found")
        with self.assertRaises(openai.NotFoundError):
            self.chat(model="nothing")


class Chat(ClientTest):
    def test_whole(self):
        answer = self.chat()
        self.assertEqual(answer.object, "chat.completion")
        choice = answer.choices[0]
        self.assertEqual(choice.message.role, "assistant")
        self.assertTrue(choice.message.content)
        self.assertIn(choice.finish_reason, ("stop", "length"))
        self.assertGreater(answer.usage.prompt_tokens, 10)
        self.assertEqual(answer.usage.total_tokens,
                         answer.usage.prompt_tokens + answer.usage.completion_tokens)

    def test_stream_adds_up_to_the_whole(self):
        whole = self.chat().choices[0]
        chunks = list(self.chat(stream=True))
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        self.assertEqual(text, whole.message.content)
        reasons = [c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason]
        self.assertEqual(reasons, [whole.finish_reason])
        self.assertEqual(len({chunk.id for chunk in chunks}), 1)

    def test_usage_of_a_stream(self):
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}))
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage.completion_tokens, self.chat().usage.completion_tokens)
        self.assertTrue(all(chunk.usage is None for chunk in chunks[:-1]))

    def test_cached_tokens(self):
        messages = [{"role": "user", "content": "one two three four five " * 20}]
        self.chat(messages=messages, max_tokens=1)
        details = self.chat(messages=messages, max_tokens=1).usage.prompt_tokens_details
        self.assertGreater(details.cached_tokens, 50)

    def test_logprobs(self):
        answer = self.chat(logprobs=True, top_logprobs=3).choices[0]
        entries = answer.logprobs.content
        self.assertEqual(b"".join(bytes(e.bytes) for e in entries).decode(), answer.message.content)
        for entry in entries:
            self.assertEqual(len(entry.top_logprobs), 3)
            self.assertEqual(entry.top_logprobs[0].logprob, entry.logprob, "greedy")
        streamed = [
            entry
            for chunk in self.chat(stream=True, logprobs=True, top_logprobs=3)
            if chunk.choices[0].logprobs
            for entry in chunk.choices[0].logprobs.content
        ]
        self.assertEqual([e.token for e in streamed], [e.token for e in entries])
        for one, other in zip(streamed, entries):
            self.assertAlmostEqual(one.logprob, other.logprob, places=4)

    def test_n_and_seed(self):
        first = self.chat(n=3, seed=7, temperature=1.5)
        self.assertEqual([choice.index for choice in first.choices], [0, 1, 2])
        texts = [choice.message.content for choice in first.choices]
        self.assertGreater(len(set(texts)), 1)
        again = self.chat(n=3, seed=7, temperature=1.5)
        self.assertEqual([choice.message.content for choice in again.choices], texts)
        other = self.chat(n=3, seed=8, temperature=1.5)
        self.assertNotEqual([choice.message.content for choice in other.choices], texts)

    def test_without_a_seed_answers_differ(self):
        texts = {self.chat(temperature=2, max_tokens=8).choices[0].message.content for _ in range(4)}
        self.assertGreater(len(texts), 1)

    def test_stop(self):
        whole = self.chat(max_tokens=30).choices[0].message.content
        stop = whole[4:9]  # over several tokens
        answer = self.chat(max_tokens=30, stop=[stop]).choices[0]
        self.assertEqual(answer.message.content, whole[: whole.index(stop)])
        self.assertEqual(answer.finish_reason, "stop")
        streamed = "".join(chunk.choices[0].delta.content or ""
                           for chunk in self.chat(max_tokens=30, stop=stop, stream=True))
        self.assertEqual(streamed, whole[: whole.index(stop)])

    def test_logit_bias(self):
        ids = self.service.post("/tokenize", {"prompt": " hello", "add_special_tokens": False})
        token = ids.json()["tokens"][0]
        answer = self.chat(logit_bias={str(token): 100}, max_tokens=3)
        self.assertEqual(answer.choices[0].message.content.strip(), "hello hello hello")

    def test_extras(self):
        answer = self.chat(extra_body={"top_k": 1, "min_p": 0.1, "repetition_penalty": 1.2,
                                       "ignore_eos": True, "min_tokens": 5})
        self.assertEqual(answer.usage.completion_tokens, 12)
        self.assertEqual(answer.choices[0].finish_reason, "length")

    def test_system_message_and_parts(self):
        parts = [{"type": "text", "text": kHello[0]["content"]}]
        answer = self.chat(messages=[{"role": "user", "content": parts}])
        self.assertEqual(answer.choices[0].message.content, self.chat().choices[0].message.content)
        other = self.chat(messages=[{"role": "developer", "content": "Speak French."}, *kHello])
        self.assertGreater(other.usage.prompt_tokens, 10)

    def test_errors(self):
        with self.assertRaises(openai.BadRequestError) as raised:
            self.chat(max_tokens=100000)
        self.assertEqual(raised.exception.code, "context_length_exceeded")
        with self.assertRaises(openai.BadRequestError) as raised:
            self.chat(temperature=3)
        self.assertEqual(raised.exception.param, "temperature")


class Responses(ClientTest):
    def respond(self, **arguments):
        given = {"model": serving.kModel, "input": kHello[0]["content"], "max_output_tokens": 12,
                 "temperature": 0}
        return self.client.responses.create(**{**given, **arguments})

    def test_whole_is_the_chats_answer(self):
        answer = self.respond()
        chat = self.chat()
        self.assertEqual(answer.output_text, chat.choices[0].message.content)
        self.assertEqual(answer.usage.input_tokens, chat.usage.prompt_tokens)
        self.assertEqual(answer.usage.output_tokens, chat.usage.completion_tokens)
        self.assertEqual(answer.status,
                         {"stop": "completed", "length": "incomplete"}[chat.choices[0].finish_reason])

    def test_stream_of_events(self):
        events = list(self.respond(stream=True))
        self.assertEqual([event.sequence_number for event in events], list(range(len(events))))
        kinds = [event.type.removeprefix("response.") for event in events]
        deltas = kinds.count("output_text.delta")
        self.assertEqual(
            kinds,
            ["created", "in_progress", "output_item.added", "content_part.added"]
            + ["output_text.delta"] * deltas
            + ["output_text.done", "content_part.done", "output_item.done", kinds[-1]])
        self.assertIn(kinds[-1], ("completed", "incomplete"))
        text = "".join(event.delta for event in events if event.type.endswith("text.delta"))
        self.assertEqual(text, self.respond().output_text)
        self.assertEqual(text, events[-1].response.output_text)

    def test_the_clients_own_stream(self):
        with self.client.responses.stream(model=serving.kModel, input=kHello[0]["content"],
                                          max_output_tokens=300, temperature=0) as stream:
            for event in stream:
                last = event
            answer = stream.get_final_response()
        self.assertEqual(last.type, "response.completed")
        self.assertTrue(answer.output_text)

    def test_a_conversation_is_sent_whole(self):
        first = self.respond(instructions="Be brief.")
        items = [{"role": "user", "content": kHello[0]["content"]}, *first.output,
                 {"role": "user", "content": [{"type": "input_text", "text": "And in French?"}]}]
        second = self.respond(instructions="Be brief.", input=items)
        self.assertGreater(second.usage.input_tokens, first.usage.input_tokens)
        self.assertTrue(second.output_text)

    def test_functions(self):
        tool = {"type": "function", "name": "weather", "strict": False,
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
        items = [{"role": "user", "content": "How warm is it in Paris?"},
                 {"type": "function_call", "call_id": "c1", "name": "weather",
                  "arguments": "{\"city\": \"Paris\"}"},
                 {"type": "function_call_output", "call_id": "c1", "output": "20 degrees"}]
        answer = self.respond(input=items, tools=[tool])
        self.assertEqual(answer.tools[0].name, "weather")
        self.assertTrue(answer.output)

    def test_refused_by_name(self):
        for name, value in (("previous_response_id", "resp_1"), ("conversation", "conv_1"),
                            ("background", True)):
            with self.assertRaises(openai.BadRequestError) as raised:
                self.respond(**{name: value})
            self.assertEqual(raised.exception.param, name)


class Completions(ClientTest):
    def test_whole_and_stream(self):
        whole = self.complete()
        self.assertEqual(whole.object, "text_completion")
        self.assertIn("Paris", whole.choices[0].text)
        streamed = "".join(chunk.choices[0].text for chunk in self.complete(stream=True))
        self.assertEqual(streamed, whole.choices[0].text)

    def test_ids_and_lists(self):
        text = "The capital of France is"
        ids = self.service.post("/tokenize", {"prompt": text}).json()["tokens"]
        expected = self.complete().choices[0].text
        self.assertEqual(self.complete(prompt=ids).choices[0].text, expected)
        for prompts in ([text, text], [ids, ids]):
            answer = self.complete(prompt=prompts)
            self.assertEqual([c.text for c in answer.choices], [expected, expected])
            self.assertEqual([c.index for c in answer.choices], [0, 1])

    def test_echo_and_logprobs(self):
        answer = self.complete(echo=True, logprobs=2).choices[0]
        self.assertTrue(answer.text.startswith("The capital of France is"))
        logprobs = answer.logprobs
        self.assertEqual("".join(logprobs.tokens), answer.text)
        self.assertIsNone(logprobs.token_logprobs[0])
        self.assertTrue(all(value <= 0 for value in logprobs.token_logprobs[1:]))
        for token, offset in zip(logprobs.tokens, logprobs.text_offset):
            self.assertTrue(answer.text[offset:].startswith(token))
        generated = self.complete(logprobs=2).choices[0].logprobs
        self.assertEqual(logprobs.tokens[-len(generated.tokens):], generated.tokens)

    def test_a_prompt_is_scored(self):
        answer = self.complete(echo=True, logprobs=0, max_tokens=0)
        self.assertEqual(answer.choices[0].text, "The capital of France is")
        self.assertEqual(answer.usage.completion_tokens, 0)
        self.assertEqual(len(answer.choices[0].logprobs.tokens), answer.usage.prompt_tokens)

    def test_n(self):
        answer = self.complete(prompt=["a", "b"], n=2, temperature=1, seed=1)
        self.assertEqual([c.index for c in answer.choices], [0, 1, 2, 3])

    def test_suffix_is_refused(self):
        with self.assertRaises(openai.BadRequestError) as raised:
            self.complete(suffix="x")
        self.assertEqual(raised.exception.param, "suffix")


class Tokens(ClientTest):
    def test_there_and_back(self):
        text = "Grüße, 世界 \N{GRINNING FACE}"
        tokens = self.service.post("/tokenize", {"prompt": text, "return_token_strs": True}).json()
        self.assertEqual(tokens["count"], len(tokens["tokens"]))
        self.assertEqual(len(tokens["token_strs"]), tokens["count"])
        back = self.service.post("/detokenize", {"tokens": tokens["tokens"]}).json()
        self.assertEqual(back["prompt"], text)

    def test_of_a_chat(self):
        tokens = self.service.post("/tokenize", {"messages": kHello}).json()
        self.assertEqual(tokens["count"], self.chat().usage.prompt_tokens)


if __name__ == "__main__":
    unittest.main()
