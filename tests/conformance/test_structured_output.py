"""Answers whose form is asked for: they have it at temperature 1, in streams and with drafts."""

import concurrent.futures
import json
import re
import unittest

import openai
import serving

kAsk = [{"role": "user", "content": "Describe your favourite animal as JSON."}]
kAnimal = {
    "type": "object",
    "properties": {
        "kind": {"type": "string", "enum": ["cat", "dog", "bird"]},
        "name": {"type": "string", "maxLength": 20},
        "legs": {"type": "integer", "minimum": 0, "maximum": 8},
        "colours": {"type": "array", "items": {"type": "string", "maxLength": 12}, "minItems": 1,
                    "maxItems": 3},
        "home": {"type": "object", "properties": {"wild": {"type": "boolean"}},
                 "required": ["wild"], "additionalProperties": False},
    },
    "required": ["kind", "name", "legs", "colours", "home"],
    "additionalProperties": False,
}
kFormat = {"type": "json_schema",
           "json_schema": {"name": "animal", "strict": True, "schema": kAnimal}}


class StructuredOutput(unittest.TestCase):
    arguments: tuple = ()

    @classmethod
    def setUpClass(cls):
        cls.service = serving.Service(*cls.arguments)
        cls.addClassCleanup(cls.service.close)
        cls.client = openai.OpenAI(base_url=cls.service.url + "/v1", api_key="none", max_retries=0,
                                   _strict_response_validation=True)

    def chat(self, **arguments):
        given = {"model": serving.kModel, "messages": kAsk, "max_tokens": 300, "temperature": 1}
        return self.client.chat.completions.create(**{**given, **arguments})

    def check(self, text: str) -> None:
        animal = json.loads(text)
        self.assertEqual(list(animal), kAnimal["required"], text)
        self.assertIn(animal["kind"], ("cat", "dog", "bird"))
        self.assertIsInstance(animal["name"], str)
        self.assertLessEqual(len(animal["name"]), 20)
        self.assertIsInstance(animal["legs"], int)
        self.assertTrue(0 <= animal["legs"] <= 8)
        self.assertTrue(1 <= len(animal["colours"]) <= 3)
        self.assertEqual([type(value) for value in animal["home"].values()], [bool])

    def test_a_schema_holds(self):
        texts = set()
        for seed in range(5):
            choice = self.chat(response_format=kFormat, seed=seed).choices[0]
            self.assertEqual(choice.finish_reason, "stop")
            self.check(choice.message.content)
            texts.add(choice.message.content)
        self.assertGreater(len(texts), 1)

    def test_a_stream_is_the_same(self):
        whole = self.chat(response_format=kFormat, seed=3).choices[0].message.content
        chunks = list(self.chat(response_format=kFormat, seed=3, stream=True))
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        self.check(text)
        self.assertEqual(text, whole)
        self.assertEqual(chunks[-1].choices[0].finish_reason, "stop")

    def test_several_answers(self):
        answer = self.chat(response_format=kFormat, n=4, seed=1, temperature=1.3)
        for choice in answer.choices:
            self.check(choice.message.content)
        self.assertGreater(len({choice.message.content for choice in answer.choices}), 1)

    def test_an_object(self):
        for seed in range(3):
            choice = self.chat(response_format={"type": "json_object"}, seed=seed,
                               temperature=0.7, max_tokens=100).choices[0]
            if choice.finish_reason == "stop":
                self.assertIsInstance(json.loads(choice.message.content), dict)
            else:
                self.assertTrue(choice.message.content.startswith("{"))

    def test_other_forms(self):
        def ask(**form):
            return self.chat(extra_body={"structured_outputs": form}, seed=2).choices[0]

        date = ask(regex=r"20[0-9]{2}-(0[1-9]|1[0-2])")
        self.assertRegex(date.message.content, r"\A20[0-9]{2}-(0[1-9]|1[0-2])\Z")
        self.assertEqual(date.finish_reason, "stop")
        self.assertIn(ask(choice=["red \"one\"", "blå"]).message.content, ('red "one"', "blå"))
        total = ask(grammar='start: NUMBER " + " NUMBER\nNUMBER: /[0-9]{1,3}/').message.content
        self.assertTrue(re.fullmatch(r"[0-9]{1,3} \+ [0-9]{1,3}", total), total)
        self.check(ask(json=kAnimal).message.content)

    def test_a_call_is_asked_for(self):
        tools = [{"type": "function", "function": {"name": name, "strict": True, "parameters": {
            "type": "object", "properties": {"city": {"type": "string", "maxLength": 12}},
            "required": ["city"], "additionalProperties": False}}} for name in ("weather", "time")]
        named = {"type": "function", "function": {"name": "time"}}
        for choice, names in (("required", ("weather", "time")), (named, ("time",))):
            answer = self.chat(tools=tools, tool_choice=choice, parallel_tool_calls=False,
                               seed=1).choices[0]
            self.assertEqual(answer.finish_reason, "tool_calls")
            (call,) = answer.message.tool_calls
            self.assertIn(call.function.name, names)
            self.assertEqual(list(json.loads(call.function.arguments)), ["city"])

    kWeather = {"type": "function", "function": {
        "name": "weather", "strict": True, "parameters": {
            "type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}},
            "required": ["city"], "additionalProperties": False}}}

    def test_strict_tools_that_may_be_called(self):
        for seed in range(3):  # the model may speak, or call
            answer = self.chat(tools=[self.kWeather], seed=seed, max_tokens=60).choices[0]
            self.assertTrue(answer.message.content or answer.message.tool_calls)
            for call in answer.message.tool_calls or ():
                self.assertIn(json.loads(call.function.arguments)["city"], ("Rome", "Oslo"))

    def test_a_call_in_a_stream_and_several_answers(self):
        asked = {"tools": [self.kWeather], "tool_choice": "required", "parallel_tool_calls": False,
                 "seed": 4}
        pieces = [chunk.choices[0].delta.tool_calls[0] for chunk in self.chat(stream=True, **asked)
                  if chunk.choices[0].delta.tool_calls]
        self.assertEqual(pieces[0].function.name, "weather")
        arguments = "".join(piece.function.arguments or "" for piece in pieces)
        self.assertIn(json.loads(arguments)["city"], ("Rome", "Oslo"))
        for choice in self.chat(n=3, **asked).choices:
            (call,) = choice.message.tool_calls
            self.assertIn(json.loads(call.function.arguments)["city"], ("Rome", "Oslo"))

    def test_tools_and_a_form(self):
        for seed in range(3):
            message = self.chat(tools=[self.kWeather], response_format=kFormat,
                                seed=seed).choices[0].message
            if message.tool_calls:
                self.assertEqual(message.tool_calls[0].function.name, "weather")
            else:
                self.check(message.content)

    def test_responses(self):
        def respond(**arguments):
            return self.client.responses.create(model=serving.kModel, input="Describe a cat.",
                                                max_output_tokens=300, temperature=1, **arguments)

        text = {"format": {"type": "json_schema", "name": "animal", "schema": kAnimal,
                           "strict": True}}
        whole = respond(text=text, extra_body={"seed": 1})
        self.assertEqual(whole.status, "completed")
        self.check(whole.output_text)
        events = respond(text=text, stream=True, extra_body={"seed": 1})
        streamed = "".join(event.delta for event in events
                           if event.type == "response.output_text.delta")
        self.assertEqual(streamed, whole.output_text)
        tool = {"type": "function", "name": "weather", "strict": True,
                "parameters": self.kWeather["function"]["parameters"]}
        for choice in ("required", {"type": "function", "name": "weather"}):
            (call,) = respond(tools=[tool], tool_choice=choice, parallel_tool_calls=False).output
            self.assertEqual((call.type, call.name), ("function_call", "weather"))
            self.assertIn(json.loads(call.arguments)["city"], ("Rome", "Oslo"))

    def test_log_probabilities_and_stop_strings(self):
        choice = self.chat(response_format=kFormat, seed=3, logprobs=True,
                           top_logprobs=2).choices[0]
        self.check(choice.message.content)
        self.assertEqual("".join(t.token for t in choice.logprobs.content), choice.message.content)
        cut = self.chat(response_format=kFormat, seed=3, stop=["name"]).choices[0]
        self.assertEqual(cut.message.content, choice.message.content.split("name")[0])

    def test_together_as_alone(self):
        forms = [{"response_format": kFormat}, {"response_format": {"type": "json_object"}},
                 {"extra_body": {"structured_outputs": {"regex": "([a-z]{3,5} ){4}"}}}, {}]
        asked = [{**form, "seed": seed, "max_tokens": 80} for seed in range(3) for form in forms]
        alone = [self.chat(**fields).choices[0].message.content for fields in asked]
        with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
            together = list(pool.map(lambda fields: self.chat(**fields), asked))
        self.assertEqual([answer.choices[0].message.content for answer in together], alone)

    def test_a_limit_cuts(self):
        choice = self.chat(response_format=kFormat, max_tokens=5).choices[0]
        self.assertEqual(choice.finish_reason, "length")
        self.assertTrue(choice.message.content.startswith("{"))

    def test_completions(self):
        answer = self.client.completions.create(
            model=serving.kModel, prompt="A number:", max_tokens=20, temperature=1,
            extra_body={"structured_outputs": {"regex": "[0-9]{4}"}})
        self.assertRegex(answer.choices[0].text, r"\A[0-9]{4}\Z")


class WithDraftsOverTwoStages(StructuredOutput):
    arguments = ("--stages", "2", "--speculation", "always")


if __name__ == "__main__":
    unittest.main()
