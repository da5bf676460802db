"""Several models in one server: by alias, loaded and unloaded while it runs."""

import json
import shutil
import threading
import time
import unittest

import openai
import serving
from serving import testing

kHello = [{"role": "user", "content": "Say hello to the riders."}]


class ModelsTest(testing.TestCase):
    @classmethod
    def setUpClass(cls):
        package = testing.smollm2_package()
        cls.directory = testing.temporary_directory() / "model-dir"
        cls.directory.mkdir(exist_ok=True)
        if not (cls.directory / "third").exists():
            testing.copy_package("model-dir/third")
        cls.service = serving.Models(
            f"first={package}", f"second={package}", "--model-dir", cls.directory)
        cls.addClassCleanup(cls.service.close)
        cls.client = openai.OpenAI(base_url=cls.service.url + "/v1", api_key="none", max_retries=0,
                                   _strict_response_validation=True)

    def chat(self, model, **arguments):
        given = {"messages": kHello, "max_tokens": 8, "temperature": 0}
        return self.client.chat.completions.create(model=model, **{**given, **arguments})

    def states(self):
        return {model.id: model.model_extra["status"] for model in self.client.models.list().data}

    def post(self, verb, **body):
        return self.service.post(f"/v1/models/{verb}", body)

    def assert_code(self, response, status, code):
        self.assertEqual(response.status, status, response.body)
        self.assertEqual(response.json()["error"]["code"], code)

    def load(self, name):
        response = self.post("load", model=name)
        self.assertEqual(response.status, 200, response.body)
        self.assertEqual(response.json()["status"], "ready")

    def unload(self, name, **body):
        response = self.post("unload", model=name, **body)
        self.assertEqual(response.status, 200, response.body)
        self.assertEqual(response.json()["status"], "unloaded")


class Aliases(ModelsTest):
    def test_both_answer_by_their_names(self):
        first = self.chat("first")
        second = self.chat("second")
        self.assertEqual((first.model, second.model), ("first", "second"))
        self.assertEqual(first.choices[0].message.content, second.choices[0].message.content,
                         "the same package, the same profile")
        self.assertEqual(self.states(), {"first": "ready", "second": "ready"})

    def test_the_first_is_the_default(self):
        response = self.service.post("/v1/chat/completions", {"messages": kHello, "max_tokens": 1})
        self.assertEqual(response.json()["model"], "first")

    def test_metrics_are_told_apart(self):
        self.chat("second")
        text = self.service.get("/metrics").body.decode()
        for name in ("first", "second"):
            self.assertIn(f'paceline_generation_tokens_total{{model="{name}"}}', text)


class LoadAndUnload(ModelsTest):
    def test_unloaded_and_loaded_again(self):
        before = self.chat("second").choices[0].message.content
        self.unload("second")
        self.assertEqual(self.states()["second"], "unloaded")
        with self.assertRaises(openai.APIStatusError) as raised:
            self.chat("second")
        self.assertEqual(raised.exception.status_code, 503)
        self.assertEqual(raised.exception.code, "model_not_loaded")
        self.assertIn("second", str(raised.exception))
        self.assertEqual(raised.exception.response.headers["x-should-retry"], "false")
        self.assertEqual(self.service.get("/health").status, 200, "the first one answers")
        self.assertEqual(self.chat("first").model, "first")
        self.load("second")
        self.assertEqual(self.chat("second").choices[0].message.content, before)

    def test_a_package_of_the_directory(self):
        self.load("third")
        self.assertEqual(self.chat("third").model, "third")
        self.assertEqual(self.client.models.retrieve("third").id, "third")
        self.unload("third")

    def test_by_the_command_line(self):
        loaded = testing.run("load", "second", "--url", self.service.url + "/v1").check()
        self.assertEqual(loaded.stdout.decode(), "second: ready\n")
        unloaded = testing.run("unload", "second", "--url", self.service.url + "/v1").check()
        self.assertEqual(unloaded.stdout.decode(), "second: unloaded\n")
        self.load("second")
        outcome = testing.run("load", "nothing", "--url", self.service.url + "/v1")
        self.assert_user_error(outcome, "nothing", "knows no model")

    def test_what_is_refused(self):
        self.assert_code(self.post("load", model="nothing"), 404, "model_not_found")
        self.assert_code(self.post("load", model="x", path="/etc"), 403, "permission_denied")
        self.assert_code(self.post("load", model="x", path="../"), 403, "permission_denied")
        outside = str(testing.smollm2_package())
        self.assert_code(self.post("load", model="x", path=outside), 403, "permission_denied")
        self.assert_code(self.post("load", model="first", path="third"), 409, "already_exists")
        self.assert_code(self.post("load"), 400, "missing_required_parameter")
        self.assert_code(self.post("unload", model="nothing"), 404, "model_not_found")
        form = self.service.request("POST", "/v1/models/load", b"{}", **{"Content-Type": "text/plain"})
        self.assertEqual(form.status, 415, "no page can send what needs no preflight")
        self.assertEqual(self.states(), {**self.states(), "first": "ready"})
        self.assertNotIn("x", self.states())

    def test_a_damaged_package_is_named_and_the_rest_goes_on(self):
        broken = testing.copy_package("model-dir/broken")
        shutil.copy(broken / "paceline.json", broken / "saved.json")
        (broken / "paceline.json").write_text("{}")
        response = self.post("load", model="broken")
        self.assertGreaterEqual(response.status, 400)
        self.assertIn("paceline.json", response.json()["error"]["message"])
        self.assertEqual(self.states()["broken"], "failed")
        self.assertEqual(self.chat("first").model, "first")
        shutil.move(broken / "saved.json", broken / "paceline.json")
        self.load("broken")
        self.unload("broken")


class Draining(ModelsTest):
    def stream(self, tokens):
        return self.chat("second", stream=True, max_tokens=tokens,
                         messages=[{"role": "user", "content": "Count from one to a thousand."}],
                         extra_body={"ignore_eos": True})

    def unload_beside(self, **body):
        responses = []
        thread = threading.Thread(
            target=lambda: responses.append(self.post("unload", model="second", **body)))
        thread.start()
        deadline = time.monotonic() + 60
        while self.states()["second"] == "ready":
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        return thread, responses

    def test_answers_under_way_are_whole(self):
        self.addCleanup(self.load, "second")
        stream = iter(self.stream(64))
        chunks = [next(stream)]
        thread, responses = self.unload_beside()
        self.assertEqual(self.states()["second"], "unloading")
        with self.assertRaises(openai.APIStatusError) as raised:
            self.chat("second")
        self.assertEqual(raised.exception.code, "model_not_loaded")
        self.assert_code(self.post("load", model="second"), 409, "already_exists")
        chunks += list(stream)
        self.assertEqual(chunks[-1].choices[0].finish_reason, "length")
        thread.join(60)
        self.assertEqual(responses[0].json()["status"], "unloaded")

    def test_what_takes_longer_is_cut_with_an_error(self):
        self.addCleanup(self.load, "second")
        stream = iter(self.stream(900))
        next(stream)
        begin = time.monotonic()
        thread, responses = self.unload_beside(drain_seconds=0.2)
        with self.assertRaises(openai.APIError):
            list(stream)
        thread.join(60)
        self.assertEqual(responses[0].json()["status"], "unloaded")
        self.assertLess(time.monotonic() - begin, 30)


class Memory(testing.TestCase):
    def test_what_does_not_fit_is_refused_by_name(self):
        package = testing.smollm2_package()
        config = testing.temporary_directory() / "large.toml"
        config.write_text(f'[model.small]\npackage = "{package}"\nctx = 256\n'
                          f'[model.large]\npackage = "{package}"\nload = false\n'
                          'ctx = 100000000\n')
        service = serving.Models("--config", config)
        self.addCleanup(service.close)
        response = service.post("/v1/models/load", {"model": "large"})
        self.assertEqual(response.status, 400, response.body)
        error = response.json()["error"]
        self.assertEqual(error["code"], "insufficient_memory", error)
        self.assertIn("large", error["message"])
        self.assertRegex(error["message"], r"\d")
        listed = {m["id"]: m["status"] for m in service.get("/v1/models").json()["data"]}
        self.assertEqual(listed, {"small": "ready", "large": "failed"})
        self.assertEqual(service.get("/v1/models/small").json()["max_model_len"], 256)


class Keys(testing.TestCase):
    def test_loading_needs_a_key_where_there_are_keys(self):
        import hashlib
        keys = testing.temporary_directory() / "keys"
        keys.write_text("me:" + hashlib.sha256(b"sk-test").hexdigest() + "\n")
        keys.chmod(0o600)
        service = serving.Models(f"a={testing.smollm2_package()}", "--api-keys", keys)
        self.addCleanup(service.close)
        body = json.dumps({"model": "a"}).encode()
        headers = {"Content-Type": "application/json"}
        for verb in ("load", "unload"):
            response = service.request("POST", f"/v1/models/{verb}", body, **headers)
            self.assertEqual(response.status, 401)
        headers["Authorization"] = "Bearer sk-test"
        response = service.request("POST", "/v1/models/load", body, **headers)
        self.assertEqual(response.status, 200)


if __name__ == "__main__":
    unittest.main()
