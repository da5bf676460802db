"""The page at / in a real browser, with a real server, a chain of two stages and SmolLM2."""

import hashlib
import json
import sys
import tempfile
import time
import unittest
from pathlib import Path

for folder in ("conformance", "e2e"):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / folder))
import paceline_testing as testing  # noqa: E402
import serving  # noqa: E402
from browser import Browser, kShift, kTimeout  # noqa: E402

kChecks = Path(__file__).with_name("page_checks.js").read_text()
kLast = "document.querySelector('#thread').lastElementChild"
kIsIdle = "!document.querySelector('#composer-send').classList.contains('is-stop')"
kFleet = "fetch('/fleet').then((answer) => answer.json())"
kTextOfLast = f"{kLast}.querySelector('.text').innerText"
# An answer that has all that Markdown can be, and is wider than a phone.
kRich = """## A heading

Text with **strong**, *slanted* and `code`, and a_long_name_without_any_place_to_break_it_%s.

1. First
   - inside
2. Second

```python
print("%s")
```

| one | two | three |
|---|---|---|
| %s | b | c |

> Said by another.
""" % ("x" * 60, "y" * 200, "z" * 90)


class PageCase(unittest.TestCase):
    arguments: tuple = ("--stages", 2)

    @classmethod
    def setUpClass(cls):
        cls.service = serving.Service(*cls.arguments)
        cls.addClassCleanup(cls.service.close)

    def setUp(self):
        self.browser = Browser()
        self.addCleanup(self.browser.close)

    def open(self, view: str = ""):
        self.browser.goto(self.service.url + "/" + view)
        self.browser.wait_for("document.querySelector('#status').dataset.kind === 'ready'")
        self.browser.eval(kChecks)

    def ask(self, text: str):
        self.browser.eval("document.querySelector('#composer-input').focus()")
        self.browser.type(text)
        self.browser.press("Enter")

    def set(self, **fields):
        """By the dialog, as a person does."""
        self.browser.click("#settings-open")
        for name, value in fields.items():
            self.browser.eval(f"document.querySelector('#settings-form').elements.{name}.select()")
            self.browser.type(str(value))
        self.browser.click("#settings-form button[type=submit]")

    def send_along(self, **fields):
        """Adds fields to each chat that the page asks for, which it has no settings for."""
        self.browser.eval("""(() => {
          const ask = window.fetch;
          window.fetch = (path, options) => ask(path, path === "/v1/chat/completions" ?
            {...options, body: JSON.stringify({...JSON.parse(options.body), ...%s})} : options);
        })()""" % json.dumps(fields))

    def assert_clean(self):
        """Nothing was asked of anybody else, and the console is silent."""
        own = self.service.url + "/"
        foreign = [url for url in self.browser.requests if not url.startswith(own) and url != "about:blank"]
        self.assertEqual(foreign, [])
        self.assertEqual(self.browser.problems, [])

    def assert_readable(self, least: int):
        pale = self.browser.eval("checks.paleTexts()")
        self.assertEqual(pale["found"], [])
        self.assertGreater(pale["seen"], least, "the check must have seen the page")

    def assert_named(self):
        roles = ("button", "textbox", "combobox", "link", "spinbutton", "radio", "img", "meter", "dialog", "log")
        nodes = [node for node in self.browser.accessible() if node["role"] in roles]
        self.assertGreater(len(nodes), 3)
        self.assertEqual([node for node in nodes if not node["name"].strip()], [])


class Chat(PageCase):
    def test_an_answer_streams_and_nothing_is_asked_of_others(self):
        self.open()
        self.browser.wait_for("document.querySelector('#welcome-model').innerText.includes('2 stages on 1 machine')")
        self.set(temperature=0, max_tokens=40)
        self.browser.eval("""window.seen = new Set(); new MutationObserver(() =>
          seen.add(document.querySelector('.is-assistant .text')?.innerText ?? '')).observe(
            document.querySelector('#thread'), {childList: true, subtree: true, characterData: true})""")
        self.ask("What is the capital of France?")
        self.browser.wait_for(f"{kIsIdle} && document.querySelector('.facts')")
        self.assertIn("Paris", self.browser.text(".is-assistant .text"))
        self.assertGreater(self.browser.eval("seen.size"), 3, "the text grew while it came")
        self.assertRegex(self.browser.text(".facts"), r"^\d+ tokens · .*tokens/s · first after ")
        self.assertEqual(self.browser.text(".is-user"), "What is the capital of France?")
        # The field is empty, and the next message goes on from here.
        self.ask("And of Italy?")
        self.browser.wait_for(f"{kIsIdle} && document.querySelectorAll('.facts').length === 2")
        self.assertIn("Rome", self.browser.eval(f"{kLast}.innerText"))
        self.assert_clean()

    def test_stop_cancels_on_the_server(self):
        self.open()
        self.send_along(ignore_eos=True, max_tokens=900)
        self.ask("Tell me a story.")
        self.browser.wait_for("document.querySelector('.is-assistant .text')?.innerText.length > 5")
        self.browser.click("#composer-send")
        self.browser.wait_for(f"{kIsIdle} && document.querySelector('.facts')")
        self.assertIn("stopped by you", self.browser.text(".facts"))
        self.assertGreater(len(self.browser.text(".is-assistant .text")), 5, "what came stays")
        self.browser.wait_for(f"""{kFleet}.then((fleet) =>
          fleet.requests.at(-1)?.end === 'cancelled' && fleet.models[0].samples.running.at(-1) === 0)""")
        self.send_along(ignore_eos=True, max_tokens=900)
        self.ask("Another one.")
        self.browser.wait_for(f"{kTextOfLast}.length > 5")
        self.browser.press("Escape")
        self.browser.wait_for(f"{kIsIdle} && document.querySelectorAll('.facts').length === 2")
        self.assert_clean()

    def test_answer_again_and_a_new_conversation(self):
        self.open()
        self.set(temperature=0, max_tokens=8)
        self.ask("Say a word.")
        first = self.browser.wait_for(f"{kIsIdle} && document.querySelector('.facts') && {kTextOfLast}")
        self.browser.click(".again")
        self.browser.wait_for(f"{kIsIdle} && document.querySelector('.facts')")
        self.assertEqual(self.browser.eval("document.querySelectorAll('article').length"), 2)
        self.assertEqual(self.browser.eval(kTextOfLast), first)
        self.browser.reload()
        self.browser.wait_for("document.querySelectorAll('article').length === 2")
        self.assertEqual(self.browser.eval(kTextOfLast), first, "this tab remembers")
        self.browser.click("#chat-new")
        self.assertEqual(self.browser.eval("document.querySelectorAll('article').length"), 0)
        self.assertEqual(self.browser.eval("JSON.parse(sessionStorage.getItem('paceline.conversation')).length"), 0)
        self.assertEqual(self.browser.eval("localStorage.length"), 0, "nothing outlives the tab")
        self.assert_clean()

    def test_what_the_server_refuses_is_said(self):
        self.open()
        self.send_along(temperature=7)
        self.ask("Hello")
        said = self.browser.wait_for(f"{kIsIdle} && document.querySelector('.problem')?.innerText")
        self.assertIn("temperature", said)
        self.browser.wait_for(f"{kFleet}.then((fleet) => fleet.requests.at(-1)?.status === 400)")
        refusals = [problem for problem in self.browser.problems if "400" not in problem]
        self.assertEqual(refusals, [])

    def test_the_keyboard_alone_will_do(self):
        self.open()
        self.send_along(max_tokens=8)
        self.assertEqual(self.browser.eval("document.activeElement.id"), "composer-input", "one can write at once")
        self.browser.type("Hello")
        self.browser.press("Enter", kShift)
        self.browser.type("there")
        self.assertEqual(self.browser.eval("document.querySelector('#composer-input').value"), "Hello\nthere")
        self.browser.press("Enter")
        self.browser.wait_for(f"{kIsIdle} && document.querySelector('.facts')")
        # All that can be used is reached, and is seen when it is.
        reached = []
        for _ in range(40):
            self.browser.press("Tab")
            reached.append(self.browser.eval("""(() => {
              const element = document.activeElement;
              const outline = getComputedStyle(element).outlineStyle;
              const box = element.closest("#composer") && element.tagName === "TEXTAREA";
              return [element.id || element.getAttribute("aria-label"), outline !== "none" || !!box];
            })()"""))
        names = [name for name, _ in reached]
        for wanted in ("to-chat", "to-fleet", "Copy answer", "Answer again", "composer-input", "model-select",
                       "settings-open", "chat-new"):
            self.assertIn(wanted, names)
        self.assertEqual([name for name, is_seen in reached if not is_seen and name], [])
        self.browser.eval("document.querySelector('#to-fleet').focus()")
        self.browser.press("Enter")
        self.browser.wait_for("!document.querySelector('#fleet-view').hidden")
        self.browser.eval("document.querySelector('input[name=minutes]:checked').focus()")
        self.browser.press("ArrowRight")
        self.assertEqual(self.browser.eval("document.querySelector('input[name=minutes]:checked').value"), "10")
        self.assert_clean()

    def test_settings_are_closed_by_escape_and_sent_when_saved(self):
        self.open()
        self.browser.click("#settings-open")
        self.browser.wait_for("document.querySelector('#settings-dialog').open")
        self.assert_named()
        self.browser.press("Escape")
        self.browser.wait_for("!document.querySelector('#settings-dialog').open")
        self.set(system="Answer in French.", temperature=0.5, top_p=0.9, max_tokens=3)
        self.browser.eval("""window.fetch = ((ask) => (path, options) => {
          if (options?.body) window.sent = JSON.parse(options.body);
          return ask(path, options);
        })(window.fetch)""")
        self.ask("Hello")
        self.browser.wait_for(f"{kIsIdle} && document.querySelector('.facts')")
        sent = self.browser.eval("sent")
        self.assertEqual(sent["messages"], [{"role": "system", "content": "Answer in French."},
                                            {"role": "user", "content": "Hello"}])
        self.assertEqual((sent["temperature"], sent["top_p"], sent["max_tokens"]), (0.5, 0.9, 3))
        self.assertEqual(sent["model"], serving.kModel)
        self.assertIn("stopped at the limit of tokens", self.browser.text(".facts"))


class Markdown(PageCase):
    def render(self, text: str) -> str:
        return self.browser.eval(f"""import("/assets/markdown.js").then(({{renderMarkdown}}) => {{
          const target = document.createElement("div");
          renderMarkdown(target, {json.dumps(text)});
          return new XMLSerializer().serializeToString(target).replaceAll(' xmlns="http://www.w3.org/1999/xhtml"', "");
        }})""")

    def test_what_it_is(self):
        self.open()
        cases = [
            ("a **b** *c* `d` ~~e~~", "<p>a <strong>b</strong> <em>c</em> <code>d</code> <del>e</del></p>"),
            ("a\nb\n\nc", "<p>a<br />b</p><p>c</p>"),
            ("# T #\n---", "<h3>T</h3><hr />"),
            ("1. a\n2. b\n   - c\n\n   d\n\n3. e",
             "<ol><li>a</li><li>b<ul><li>c</li></ul><p>d</p></li><li>e</li></ol>"),
            ("- a\n\n- b\n\ntext", "<ul><li>a</li><li>b</li></ul><p>text</p>"),
            ("7. a", '<ol start="7"><li>a</li></ol>'),
            ("> a\n> - b", "<blockquote><p>a</p><ul><li>b</li></ul></blockquote>"),
            ("snake_case_name 2 * 3 * 4 **", "<p>snake_case_name 2 * 3 * 4 **</p>"),
            (r"\*a\* `*b*`", "<p>*a* <code>*b*</code></p>"),
            ("**a *b* c**", "<p><strong>a <em>b</em> c</strong></p>"),
        ]
        for text, wanted in cases:
            with self.subTest(text):
                self.assertEqual(self.render(text), f"<div>{wanted}</div>")
        code = self.render("```c++\nif (a < b && c) {\n\n}\n")
        self.assertIn("if (a &lt; b &amp;&amp; c) {\n\n}", code, "also while its end has not come")
        self.assertIn("c++", code)
        self.assertIn("<th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td><strong>2</strong></td></tr>",
                      self.render("| a | b |\n|---|:-:|\n| 1 | **2** |"))

    def test_nothing_in_it_runs_or_is_fetched(self):
        self.open()
        asked = len(self.browser.requests)
        for text in ("<script>window.ran = 1</script>", "<img src=x onerror=window.ran=1>",
                     "[a](javascript:window.ran=1)", "[a](data:text/html,<script>window.ran=1</script>)",
                     "<javascript:window.ran=1>", "[a](vbscript:x)", "![a](https://elsewhere.example/a.png)",
                     "<iframe src=https://elsewhere.example></iframe>",
                     "[a]( java\nscript:window.ran=1)", "```<img src=x>\n<b>\n```",
                     "| <img src=x> |\n|--|\n| <svg onload=x> |"):
            made = self.render(text)
            with self.subTest(text):
                for bad in ("<script", "<img", "<iframe", "<svg onload", 'href="java', 'href="data', 'href="vb', "<b>"):
                    self.assertNotIn(bad, made)
        self.assertFalse(self.browser.eval("'ran' in window"))
        links = self.render("[a](https://example.org/x?a=1) https://example.org/b. <mailto:a@example.org>")
        self.assertEqual(links.count('rel="noopener noreferrer nofollow"'), 3)
        self.assertIn('href="https://example.org/b"', links)
        self.assertEqual([url for url in self.browser.requests[asked:] if "elsewhere" in url], [])

    def test_texts_built_to_take_long(self):
        """Each would take hours where the time grows with the square of the length."""
        self.open()
        for piece in ("*a ", "**a ", "_a_b ", "[", "[a](", "`a ", "~~a", "<", "> ", "- ", "![](", "*a **b ",
                      "|a\n|-\n", "\\", "a_", "  - a\n", "# ", "#", "-   "):
            with self.subTest(piece):
                self.assertTrue(self.render(piece * 20000).startswith("<div"))

    def test_what_is_there_stays_while_more_comes(self):
        self.open()
        self.assertTrue(self.browser.eval("""import("/assets/markdown.js").then(({renderMarkdown}) => {
          const target = document.createElement("div");
          renderMarkdown(target, "one\\n\\ntwo");
          const [one, two] = target.children;
          renderMarkdown(target, "one\\n\\ntwo and\\n\\nthree");
          return target.children[0] === one && target.children[1] !== two && target.children.length === 3;
        })"""))


class Format(PageCase):
    def test_numbers_as_people_read_them(self):
        self.open()
        cases = [
            ("percent(0)", "0 %"), ("percent(0.0003)", "0.1 %"), ("percent(0.256)", "26 %"), ("percent(null)", "–"),
            ("milliseconds(0.25)", "0.25 ms"), ("milliseconds(87.6)", "88 ms"), ("milliseconds(1234)", "1.23 s"),
            ("milliseconds(119999)", "2 min 0 s"), ("milliseconds(undefined)", "–"),
            ("roundMilliseconds(1500)", "1.5 s"),
            ("bytes(0)", "–"), ("bytes(1536)", "1.5 KiB"), ("bytes(16 * 1024 ** 3)", "16 GiB"),
            ("rate(0.5)", "0.50"), ("rate(9.96)", "10.0"), ("rate(1234)", "1,234"), ("rate(NaN)", "–"),
            ("plural(1, 'stage')", "1 stage"), ("plural(2, 'stage')", "2 stages"), ("count(8192)", "8,192"),
        ]
        for call, wanted in cases:
            with self.subTest(call):
                script = f"import('/assets/format.js').then((format) => format.{call})"
                self.assertEqual(self.browser.eval(script), wanted)


class Fleet(PageCase):
    def fill(self):
        for number in range(2):
            asked = {"messages": [{"role": "user", "content": f"Say {number}"}], "max_tokens": 24, "ignore_eos": True}
            response = self.service.request(
                "POST", "/v1/chat/completions", json.dumps(asked).encode(),
                **{"Content-Type": "application/json", "X-Request-Id": f"seen-{number}"})
            self.assertEqual(response.status, 200)

    def test_stages_figures_plots_and_requests(self):
        self.fill()
        self.open("#fleet")
        self.browser.wait_for("document.querySelectorAll('.stage').length === 2")
        first, second = self.browser.eval("[...document.querySelectorAll('.stage')].map((stage) => stage.innerText)")
        self.assertIn("Stage 1", first)
        self.assertRegex(first, r"Layers 0–\d+ of 30")
        self.assertRegex(second, r"Layers \d+–29 of 30")
        for text in (first, second):
            self.assertRegex(text, r"Weights\s*\d+ MiB")
            self.assertRegex(text, r"Process\s*\d+ MiB of [\d.]+ GiB")
            self.assertRegex(text, r"Device\s*CPU")
            self.assertRegex(text, r"127\.0\.0\.1:\d+")
        self.browser.wait_for("/Round trip\\s*[\\d.]+ m?s/.test(document.querySelector('.stage').innerText)")
        # The log has both, the later one first, and its counts.
        self.browser.wait_for("document.querySelectorAll('#request-rows tr').length >= 2")
        row = self.browser.text("#request-rows tr")
        self.assertRegex(row, r"seen-1.*chat/completions.*\t24\t.*at limit")
        self.assertNotIn("Say 1", self.browser.text("#fleet-view"))
        self.browser.wait_for("document.querySelector('#figure-running').innerText === '0'")
        self.browser.wait_for("/\\d+ ms|\\d s/.test(document.querySelector('#figure-first').innerText)")
        # Each plot says what it shows, and shows it.
        for plot in ("tokens", "requests", "first", "next", "kv", "load"):
            self.browser.wait_for(f"checks.drawnPixels('#plot-{plot}', '--series-1') > 3")
            said = self.browser.eval(f"document.querySelector('#plot-{plot} [role=img]').getAttribute('aria-label')")
            self.assertRegex(said, r"^[A-Z][A-Za-z ]+: .*\d")
        self.assert_named()
        self.assert_clean()

    def test_without_uplot_it_says_so_and_shows_the_rest(self):
        self.browser.call("Network.setBlockedURLs", urls=["*/uplot.js"])
        self.open("#fleet")
        self.browser.wait_for("document.querySelectorAll('.stage').length === 2")
        self.assertIn("no plots", self.browser.text("#plots-missing"))
        self.assertEqual([problem for problem in self.browser.problems if "uplot.js" not in problem], [])

    def test_it_goes_on_by_itself(self):
        self.open("#fleet")
        rows = self.browser.eval("document.querySelectorAll('#request-rows tr').length")
        self.fill()
        self.browser.wait_for(f"document.querySelectorAll('#request-rows tr').length === {rows + 2}")

    def test_who_stays_sees_each_request_once(self):
        self.open("#fleet")
        self.fill()
        self.browser.wait_for("document.querySelector('#request-rows tr')?.innerText.includes('seen-1')")
        self.browser.click("#to-chat")
        self.browser.click("#to-fleet")
        numbers = self.browser.eval("[...document.querySelectorAll('#request-rows tr')].length")
        known = self.browser.eval(f"{kFleet}.then((fleet) => fleet.requests.length)")
        self.assertEqual(numbers, known)


class Failure(PageCase):
    @classmethod
    def setUpClass(cls):
        cls.workers = [testing.worker(testing.smollm2_package()) for _ in range(2)]
        for worker in cls.workers:
            cls.addClassCleanup(worker.close)
        cls.arguments = ("--workers", testing.addresses(*cls.workers))
        super().setUpClass()

    def test_a_chain_that_fails_is_told(self):
        self.open()
        self.send_along(ignore_eos=True, max_tokens=900)
        self.ask("Tell me a story.")
        self.browser.wait_for("document.querySelector('.is-assistant .text')?.innerText.length > 5")
        self.workers[1].close()
        self.browser.wait_for(f"{kIsIdle} && document.querySelector('.problem')?.innerText.length > 5")
        self.assertGreater(len(self.browser.text(".is-assistant .text")), 5, "what came stays")
        self.browser.wait_for("document.querySelector('#status').dataset.kind === 'failed'")
        self.browser.click("#to-fleet")
        self.browser.wait_for("document.querySelector('#fleet-state').innerText.includes('has failed')")
        self.browser.wait_for("document.querySelector('#request-rows .bad')?.innerText === 'failed'")
        self.browser.reload()
        self.browser.click("#to-chat")
        self.browser.wait_for("document.querySelector('#welcome-model').textContent.includes('has failed')")
        self.assertTrue(self.browser.eval("document.querySelector('#composer-send').disabled"))


class Looks(PageCase):
    def open_both(self, check):
        """With a conversation of everything, and with requests in the log."""
        self.browser.goto(self.service.url + "/")
        self.browser.eval("sessionStorage.setItem('paceline.conversation', %s)" % json.dumps(json.dumps([
            {"role": "user", "content": "Show me all of it, and a_very_long_word_" + "w" * 90},
            {"role": "assistant", "content": kRich, "reasoning": "What is all of it?",
             "facts": {"tokens": 9, "firstMs": 12, "tokensPerSecond": 20}},
            {"role": "assistant", "content": "", "reasoning": "", "problem": "The server failed."}])))
        self.browser.reload()
        self.browser.wait_for("document.querySelectorAll('article').length === 3")
        self.service.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2})
        self.service.post("/v1/chat/completions", {"messages": []})
        self.browser.eval(kChecks)
        with self.subTest("chat"):
            check()
        self.browser.click("#to-fleet")
        self.browser.wait_for("document.querySelectorAll('.stage').length === 2")
        self.browser.wait_for("document.querySelectorAll('#request-rows .bad').length")
        with self.subTest("fleet"):
            check()

    def test_light_colours_have_contrast(self):
        self.open_both(lambda: self.assert_readable(20))

    def test_dark_colours_have_contrast(self):
        self.browser.look(1280, 800, dark=True)
        self.open_both(lambda: self.assert_readable(20))
        back = self.browser.eval("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        self.assertLess(max(back), 60, "dark is dark")

    def test_the_contrast_check_sees_pale_text(self):
        self.open()
        self.browser.eval("document.querySelector('.hello').style.color = '#bbbbbb'")
        self.assertEqual(len(self.browser.eval("checks.paleTexts().found")), 1)

    def test_a_phone_has_no_sideways_scrolling(self):
        def check():
            self.assertEqual(self.browser.eval("checks.tooWide()"), [])
            self.assertEqual(self.browser.eval("document.scrollingElement.scrollWidth"), 360)
        self.browser.look(360, 740, mobile=True, scale=2)
        self.open_both(check)
        self.browser.eval("""document.body.append(
          Object.assign(document.createElement('p'), {textContent: 'x'.repeat(200)}))""")
        self.assertIn("P#.", self.browser.eval("checks.tooWide()"), "the check sees what is too wide")

    def test_everything_has_a_name(self):
        self.open_both(self.assert_named)

    def test_a_theme_change_is_followed(self):
        self.open("#fleet")
        self.browser.wait_for("checks.drawnPixels('#plot-kv', '--series-1') > 3")
        self.browser.look(1280, 800, dark=True)
        self.browser.wait_for("checks.drawnPixels('#plot-kv', '--series-1') > 3")


class Files(PageCase):
    def test_headers_and_caching(self):
        response = self.service.get("/")
        self.assertEqual(response.status, 200)
        self.assertEqual(response.headers["content-type"], "text/html; charset=utf-8")
        self.assertIn("default-src 'none'", response.headers["content-security-policy"])
        again = self.service.request("GET", "/", **{"If-None-Match": response.headers["etag"]})
        self.assertEqual((again.status, again.body), (304, b""))
        packed = self.service.request("GET", "/assets/uplot.js", **{"Accept-Encoding": "gzip"})
        self.assertEqual(packed.headers["content-encoding"], "gzip")
        self.assertLess(len(packed.body), len(self.service.get("/assets/uplot.js").body) / 2)
        self.assertEqual(self.service.get("/assets/other.js").status, 404)
        head = self.service.request("HEAD", "/")
        self.assertEqual((head.status, head.body), (200, b""))

    def test_a_page_of_another_site_is_refused(self):
        response = self.service.request("GET", "/", **{"Host": "elsewhere.example"})
        self.assertEqual(response.status, 403)

    def test_an_open_page_does_not_fill_the_log(self):
        self.service.get("/fleet")
        self.service.get("/v1/models")
        deadline = time.monotonic() + kTimeout
        while "/v1/models" not in self.service.server.log():  # it comes after the answer
            self.assertLess(time.monotonic(), deadline, self.service.server.log())
            time.sleep(0.05)
        self.assertNotIn("/fleet", self.service.server.log())


class Keys(PageCase):
    """Where keys are set, what the page shows is behind them."""

    @classmethod
    def setUpClass(cls):
        with tempfile.NamedTemporaryFile("w", suffix=".keys", delete=False) as file:
            file.write(f"desk:{hashlib.sha256(b'sk-right').hexdigest()}\n")
        cls.addClassCleanup(Path(file.name).unlink)
        cls.arguments = ("--stages", 2, "--api-keys", file.name)
        super().setUpClass()

    def give(self, key: str):
        self.browser.wait_for("document.querySelector('#key-dialog').open")
        self.assertEqual(self.browser.eval("document.activeElement.id"), "key-input")
        self.browser.type(key)
        self.browser.press("Enter")

    def test_the_page_asks_for_a_key(self):
        self.assertEqual(self.service.get("/fleet").status, 401)
        self.browser.goto(self.service.url + "/")
        self.give("sk-wrong")
        self.browser.wait_for("document.querySelector('#key-problem').innerText.includes('did not take')")
        self.give("sk-right")
        self.browser.wait_for("document.querySelector('#status').dataset.kind === 'ready'")
        self.send_along(max_tokens=4)
        self.ask("Hello")
        self.browser.wait_for(f"{kIsIdle} && document.querySelector('.facts')")
        self.browser.click("#to-fleet")
        self.browser.wait_for("document.querySelector('#request-rows tr')?.innerText.includes('desk')")
        self.assertEqual([problem for problem in self.browser.problems if "401" not in problem], [])
        self.assertNotIn("sk-right", "".join(self.browser.requests))
        self.browser.reload()
        self.browser.wait_for("document.querySelector('#status').dataset.kind === 'ready'")

    def test_who_would_rather_not_is_not_asked_each_second(self):
        self.browser.goto(self.service.url + "/")
        self.browser.wait_for("document.querySelector('#key-dialog').open")
        self.browser.press("Escape")
        self.browser.wait_for("!document.querySelector('#key-needed').hidden")
        asked = len([url for url in self.browser.requests if "/fleet" in url])
        self.browser.wait_for("new Promise((done) => setTimeout(() => done(true), 4500))")
        self.assertFalse(self.browser.eval("document.querySelector('#key-dialog').open"))
        self.assertEqual(len([url for url in self.browser.requests if "/fleet" in url]), asked)
        self.browser.click("#key-ask")
        self.give("sk-right")
        self.browser.wait_for("document.querySelector('#status').dataset.kind === 'ready'")


if __name__ == "__main__":
    unittest.main()
