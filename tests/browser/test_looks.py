"""How the page looks: contrast, width, names; and the files that it is made of."""

import json
import time
import unittest

from browser import kTimeout
from page_testing import PageCase, kChecks

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


if __name__ == "__main__":
    unittest.main()
