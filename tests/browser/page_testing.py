"""What the tests of the page share: a server, a browser of its own for each test, and what a person does.

Not a test itself.
"""

import json
import sys
import unittest
from pathlib import Path

for folder in ("conformance", "e2e"):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / folder))
import paceline_testing as testing  # noqa: E402, F401
import serving  # noqa: E402
from browser import Browser  # noqa: E402

kChecks = Path(__file__).with_name("page_checks.js").read_text()
kLast = "document.querySelector('#thread').lastElementChild"
kIsIdle = "!document.querySelector('#composer-send').classList.contains('is-stop')"
kFleet = "fetch('/fleet').then((answer) => answer.json())"
kTextOfLast = f"{kLast}.querySelector('.text').innerText"


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
