"""What people do around a server: run, chat --url, ps, top, and configuration files."""

import contextlib
import http.server
import json
import os
import re
import subprocess
import termios
import threading
import unittest

import paceline_testing as testing
import tiny_hf
from paceline_terminal import Terminal


def serve(*arguments) -> testing.Server:
    state = testing.temporary_directory() / f"state-{os.urandom(4).hex()}"
    server = testing.Server("serve", *arguments, "--port", "0", "--state-dir", state)
    for line in server.process.stdout:
        if line.startswith("try: "):
            server.curl = line.removeprefix("try: ").strip()
            break
    server.url = server.address + "/v1"
    return server


class FakeServer:
    """A server that says what it is told, in pieces: of any make, and of bad ones."""

    def __init__(self, events: list[str], status: int = 200, hold: bool = False):
        owner = self
        self.asked, self.gone, self.holds = [], threading.Event(), hold

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.answer(200, b'{"data": [{"id": "theirs"}]}')

            def do_POST(self):
                length = int(self.headers["Content-Length"])
                owner.asked.append((dict(self.headers), json.loads(self.rfile.read(length))))
                if status != 200:
                    return self.answer(status, b'{"error": {"message": "not today, \\u001b[2J please"}}')
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                for event in events:
                    self.wfile.write(event.encode())
                    self.wfile.flush()
                if owner.holds:
                    self.connection.settimeout(30)
                    if self.connection.recv(1) == b"":
                        owner.gone.set()

            def answer(self, code, body):
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def chunk(text: str, **more) -> str:
    return f"data: {json.dumps({'choices': [{'delta': {'content': text}, **more}]})}\n\n"


class ChatWithAServer(testing.TestCase):
    def fake(self, *arguments, **options) -> FakeServer:
        server = FakeServer(*arguments, **options)
        self.addCleanup(server.close)
        return server

    def chat(self, url, text, *arguments):
        return testing.run("chat", "--url", url, *arguments, stdin=text.encode())

    def test_our_own_out_of_a_pipe(self):
        server = self.start(serve(testing.smollm2_package(), "--ctx", 1024, "--profile", "exact"))
        arguments = ("-n", 32, "--temperature", 0)
        question = "What is the capital of France?\n"
        there = self.chat(server.url, question, *arguments).check()
        here = testing.run("chat", "-p", testing.smollm2_package(), "--ctx", 1024, "--profile",
                           "exact", *arguments, stdin=question.encode()).check()
        self.assertIn(b"Paris", there.stdout)
        self.assertEqual(there.stdout, here.stdout)

    def test_another_make_with_history(self):
        server = self.fake([chunk("Hel"), ": ping\n\n", chunk("lo"), chunk("", finish_reason="stop"),
                            "data: [DONE]\n\n"])
        outcome = self.chat(server.url, "one\ntwo\n/clear\nthree\n", "--system", "be brief").check()
        self.assertEqual(outcome.stdout.decode(), "Hello\nHello\nHello\n")
        self.assertEqual(outcome.stderr, "")
        bodies = [body for _, body in server.asked]
        self.assertEqual(bodies[0]["model"], "theirs", "the first it lists")
        self.assertEqual([message["role"] for message in bodies[1]["messages"]],
                         ["system", "user", "assistant", "user"])
        self.assertEqual(bodies[1]["messages"][2]["content"], "Hello")
        self.assertEqual(len(bodies[2]["messages"]), 2, "forgotten")
        self.assertNotIn("temperature", bodies[0], "what is not given is the server's choice")
        self.assertTrue(all(body["stream"] for body in bodies))

    def test_the_key_comes_from_the_environment(self):
        server = self.fake([chunk("x", finish_reason="stop")])
        os.environ["PACELINE_API_KEY"] = "sk-secret"
        self.addCleanup(os.environ.pop, "PACELINE_API_KEY")
        self.chat(server.url, "hi\n", "--model", "m").check()
        headers, body = server.asked[0]
        self.assertEqual(headers["Authorization"], "Bearer sk-secret")
        self.assertEqual(body["model"], "m")
        shown = testing.run("config", "chat").check().stdout.decode()
        self.assertIn("PACELINE_API_KEY", shown)
        self.assertNotIn("sk-secret", shown)

    def test_errors_are_sentences(self):
        cases = [(self.fake([], status=500), "the server: not today, ?[2J please", 1),
                 (self.fake(['data: {"error": {"message": "the worker is gone"}}\n\n']),
                  "the server: the worker is gone", 1),
                 (self.fake([chunk("Hel")]), "the answer was cut", 1),
                 (self.fake(["data: <html>\n\n"]), "'<html>'", 1)]
        for server, message, code in cases:
            with self.subTest(message):
                self.assert_error(self.chat(server.url, "hi\n"), message, code=code)
        refused = self.chat(self.fake([], status=400).url, "hi\n/clear\n")
        self.assertEqual(refused.error_lines(), ["paceline: the server: not today, ?[2J please"])
        with contextlib.closing(FakeServer([])) as gone:
            pass
        self.assert_error(self.chat(gone.url, "hi\n"), "127.0.0.1")
        self.assert_user_error(testing.run("chat", "--url", "ftp://x", stdin=b""), "ftp://x")
        self.assert_user_error(testing.run("chat", stdin=b""), "--package is required, or --url")

    def test_ctrl_c_ends_the_answer_and_not_the_chat(self):
        server = self.fake([chunk("Once upon")], hold=True)
        terminal = Terminal("chat", "--url", server.url)
        self.addCleanup(terminal.close)
        terminal.wait_for(r"theirs at http[^>]*> ")
        terminal.type("tell\n")
        terminal.wait_for("Once upon")
        terminal.press_ctrl_c()
        terminal.wait_for(r"\[stopped\]\r?\n> ", timeout=10)
        self.assertTrue(server.gone.wait(10), "the server sees it")
        server.holds = False
        terminal.type("more\n")
        terminal.wait_for(r"cut\r?\n> ")  # a stream without an end, and still a chat
        self.assertEqual(server.asked[1][1]["messages"][1]["content"], "Once upon")
        terminal.type("/exit\n")
        self.assertEqual(terminal.process.wait(10), 0)


class Run(testing.TestCase):
    def test_a_gguf_is_compiled_once(self):
        cache = testing.temporary_directory() / "package-cache"
        arguments = ("run", testing.smollm2_gguf(), "--package-cache", cache, "--ctx", 512, "-n", 16,
                     "--temperature", 0)
        question = b"What is the capital of France?\n"
        first = testing.run(*arguments, stdin=question).check()
        self.assertIn("compiles", first.stderr)
        self.assertIn(b"Paris", first.stdout)
        second = testing.run(*arguments, "--stages", 2, stdin=question).check()
        self.assertNotIn("compiles", second.stderr)
        self.assertEqual(second.stdout, first.stdout)
        self.assertEqual(len(list(cache.iterdir())), 1)
        package = next(cache.iterdir())
        again = testing.run("run", package, *arguments[4:], stdin=question).check()
        self.assertEqual(again.stdout, first.stdout, "a package needs nothing")

    def test_what_is_none(self):
        self.assert_user_error(testing.run("run", "/nothing.gguf", stdin=b""), "/nothing.gguf")
        empty = testing.temporary_directory() / "empty-source"
        empty.mkdir(exist_ok=True)
        cache = testing.temporary_directory() / "empty-cache"
        outcome = testing.run("run", empty, "--package-cache", cache, stdin=b"")
        self.assertEqual(outcome.code, 2, outcome)
        self.assertEqual(list(cache.iterdir()) if cache.exists() else [], [])


class PsAndTop(testing.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = serve(f"tiny={tiny_hf.package()}", f"two={tiny_hf.package()}", "--ctx", 256,
                           "--stages", 2)
        cls.addClassCleanup(cls.server.close)
        testing.run("chat", "--url", cls.server.url, "--model", "tiny", "-n", "8", stdin=b"hi\n").check()

    def test_ps(self):
        table = testing.run("ps", "--url", self.server.url).check().stdout.decode().splitlines()
        self.assertRegex(table[0], r"^MODEL +STATE +CONTEXT +STAGES +RUNNING +WAITING +KV$")
        self.assertRegex(table[1], r"^tiny +ready +256 +2 +0 +0 +\d+%$")
        self.assertEqual(len(table), 3)
        fleet = json.loads(testing.run("ps", "--json", "--url", self.server.url).check().stdout)
        self.assertTrue(fleet["healthy"])
        self.assertEqual([model["name"] for model in fleet["models"]], ["tiny", "two"])
        self.assertEqual([model["stages"] for model in fleet["models"]], [2, 2])

    def test_top_without_a_terminal_is_one_snapshot(self):
        arguments = ("top", "--url", self.server.url, "--interval", 0.2)
        screen = testing.run(*arguments).check().stdout.decode()
        self.assertIn("tiny (ready)", screen)
        self.assertRegex(screen, r"stage 1 +\[[#.]{20}\] +\d+%")
        self.assertNotIn("\x1b", screen)
        fleet = json.loads(testing.run(*arguments, "--json").check().stdout)
        self.assertIn("tokens_per_second", fleet["models"][0]["now"])
        self.assertEqual(sorted(fleet["models"][0]["now"]["stage_use"]), ["0", "1"])

    def test_top_gives_the_terminal_back(self):
        for how in ("q", "\x03"):
            with self.subTest(how):
                terminal = Terminal("top", "--url", self.server.url, "--interval", 0.2)
                self.addCleanup(terminal.close)
                terminal.wait_for(r"\x1b\[\?1049h")
                terminal.wait_for(r"tiny \(ready\)")
                terminal.wait_for(r"tiny \(ready\)")  # drawn again
                self.assertFalse(termios.tcgetattr(terminal.slave)[3] & termios.ECHO)
                terminal.type(how)
                terminal.wait_for(r"\x1b\[\?1049l", timeout=10)
                self.assertEqual(terminal.process.wait(10), 0)
                self.assertEqual(termios.tcgetattr(terminal.slave), terminal.settings_before)

    def test_no_server(self):
        for command in ("ps", "top", "load", "unload"):
            name = ("m",) if "load" in command else ()
            outcome = testing.run(command, *name, "--url", "http://127.0.0.1:1/v1")
            self.assert_error(outcome, "127.0.0.1:1", code=1)

    def test_a_server_of_another_make(self):
        server = FakeServer([])
        self.addCleanup(server.close)
        # Its /metrics is JSON, which is no metric.
        self.assert_user_error(testing.run("ps", "--url", server.url), "/metrics", "line 1")

    def test_the_curl_that_serve_prints_works(self):
        self.assertIn('"model":"tiny"', self.server.curl)
        done = subprocess.run(self.server.curl, shell=True, capture_output=True, timeout=60)
        self.assertEqual(json.loads(done.stdout)["model"], "tiny", done)


class Config(testing.TestCase):
    def write(self, text: str):
        path = testing.temporary_directory() / f"{os.urandom(4).hex()}.toml"
        path.write_text(text)
        return path

    def settings(self, *arguments) -> dict:
        shown = json.loads(testing.run("config", "--json", *arguments).check().stdout)
        return {row["name"]: row for row in shown["settings"]}

    def test_where_each_value_comes_from(self):
        file = self.write("[serve]\nport = 9001\nthreads = 3\nctx = 100\n"
                          '[model.a]\npackage = "/m/a"\n')
        os.environ["PACELINE_THREADS"] = "5"
        self.addCleanup(os.environ.pop, "PACELINE_THREADS")
        rows = self.settings("serve", "--port", 9002, "--config", file)
        self.assertEqual((rows["port"]["value"], rows["port"]["origin"]), ("9002", "command line"))
        self.assertEqual((rows["threads"]["value"], rows["threads"]["where"]), ("5", "PACELINE_THREADS"))
        self.assertEqual((rows["ctx"]["value"], rows["ctx"]["where"]), ("100", f"{file}:4"))
        self.assertEqual((rows["host"]["value"], rows["host"]["origin"]), ("127.0.0.1", "default"))
        self.assertEqual(rows["model.a.package"]["value"], "/m/a")
        self.assertEqual(rows["max-waiting"]["variable"], "PACELINE_MAX_WAITING")
        table = testing.run("config", "serve", "--config", file).check().stdout.decode()
        self.assertRegex(table, rf"(?m)^port +9001 +{re.escape(str(file))}:2$")

    def test_the_default_files(self):
        home = testing.temporary_directory() / "config-home"
        (home / "paceline").mkdir(parents=True, exist_ok=True)
        (home / "paceline/config.toml").write_text('[worker]\nname = "mine"\n')
        saved = os.environ.pop("PACELINE_CONFIG")
        os.environ["XDG_CONFIG_HOME"] = str(home)
        self.addCleanup(os.environ.__setitem__, "PACELINE_CONFIG", saved)
        self.addCleanup(os.environ.pop, "XDG_CONFIG_HOME")
        self.assertEqual(self.settings("worker")["name"]["value"], "mine")
        self.assertIsNone(self.settings("worker", "--config", "none")["name"]["value"])

    def test_a_server_by_a_file_alone(self):
        file = self.write(f'[serve]\nport = 0\nstate-dir = "{testing.temporary_directory()}/of-file"\n'
                          f'[model.a]\npackage = "{tiny_hf.package()}"\nctx = 128\n'
                          f'[model.b]\npackage = "{tiny_hf.package()}"\nload = false\n')
        server = self.start(testing.Server("serve", "--config", file))
        for line in server.process.stdout:
            if line.startswith("try: "):
                break
        url = server.address + "/v1"
        fleet = json.loads(testing.run("ps", "--json", "--url", url).check().stdout)
        states = {model["name"]: model["status"] for model in fleet["models"]}
        self.assertEqual(states, {"a": "ready", "b": "unloaded"})
        self.assertEqual(fleet["models"][0]["context_tokens"], 128)
        testing.run("load", "b", "--url", url).check()

    def test_what_is_wrong_is_named(self):
        file = self.write("[serve]\n\nportt = 1\n")
        self.assert_user_error(testing.run("ps", "--config", file), f"{file}:3", "portt")
        file = self.write("[serve]\nport = 'x'\n")
        self.assert_user_error(testing.run("serve", "/m", "--config", file), f"{file}:2")
        self.assert_user_error(testing.run("serve", "/m", "--config", "/nothing.toml"), "/nothing.toml")
        self.assert_user_error(testing.run("serve"), "expected a package")
        self.assert_user_error(testing.run("config"), "expected a command")
        self.assert_user_error(testing.run("config", "nothing"), "nothing")
        os.environ["PACELINE_PORT"] = "x"
        self.addCleanup(os.environ.pop, "PACELINE_PORT")
        self.assert_user_error(testing.run("serve", "/m"), "PACELINE_PORT")
        testing.run("doctor").check()  # which has no such flag


if __name__ == "__main__":
    unittest.main()
