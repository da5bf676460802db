"""The chat: answers, stop, keyboard, settings, keys; and Markdown."""

import hashlib
import json
import tempfile
import unittest
from pathlib import Path

from browser import kShift
from page_testing import PageCase, kFleet, kIsIdle, kLast, kTextOfLast, serving


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
