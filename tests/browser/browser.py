"""A headless Chromium, driven by the DevTools protocol over a pipe: no driver, no library.

Not a test itself. It talks on file descriptors 3 (to the browser) and 4 (from it), messages end with a
zero byte. Everything is waited for by what the page shows, never for a length of time.
"""

import base64
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

# Far more than anything here takes, also on a machine that is busy with other things.
kTimeout = 240.0
kKeys = {
    "Enter": (13, "\r"), "Tab": (9, ""), "Escape": (27, ""), "ArrowRight": (39, ""), "ArrowLeft": (37, ""),
    "Space": (32, " "),
}
kShift = 8


def chromium() -> str:
    found = os.environ.get("PACELINE_CHROMIUM") or shutil.which("chromium")
    if not found:
        raise AssertionError("chromium: is not there; scripts/setup installs it")
    return found


class Browser:
    """One browser with one page. Ended by close(), by its own process alone."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="paceline-browser-")
        from_us, self.to_browser = os.pipe()
        self.from_browser, to_us = os.pipe()
        self.log = open(Path(self.profile, "chromium.log"), "w+b")
        arguments = [
            chromium(), "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={self.profile}",
            "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--no-default-browser-check",
            "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
            "--disable-default-apps", "--mute-audio", "--hide-scrollbars", "--force-color-profile=srgb",
            # Not even a name is looked up.
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "about:blank"]
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{from_us} 4>&{to_us}', "chromium", *arguments],
            pass_fds=(from_us, to_us), stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        os.close(from_us)
        os.close(to_us)
        self.number = 0
        self.answers: dict[int, queue.Queue] = {}
        self.lock = threading.Lock()
        self.requests: list[str] = []   # every address that the page asked for
        self.problems: list[str] = []   # what the console shows as an error, and exceptions
        self.is_over = False
        threading.Thread(target=self._read, daemon=True).start()
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.look(1280, 800)

    def close(self) -> None:
        try:
            os.close(self.to_browser)  # the browser ends with it
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.profile, ignore_errors=True)

    # The protocol

    def _read(self) -> None:
        rest = b""
        while True:
            data = os.read(self.from_browser, 1 << 20)
            if not data:
                break
            rest += data
            *messages, rest = rest.split(b"\0")
            for message in messages:
                self._take(json.loads(message))
        with self.lock:
            self.is_over = True
            for answer in self.answers.values():
                answer.put({"error": {"message": "the browser has ended"}})

    def _take(self, message: dict) -> None:
        if "id" in message:
            with self.lock:
                answer = self.answers.pop(message["id"], None)
            if answer:
                answer.put(message)
            return
        method, given = message["method"], message["params"]
        if method == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = given["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert"):
            self.problems.append(" ".join(str(value.get("value")) for value in given["args"]))
        elif method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.problems.append(f"{given['entry']['text']} {given['entry'].get('url', '')}")

    def call(self, method: str, **given) -> dict:
        answer: queue.Queue = queue.Queue()
        with self.lock:
            self.number += 1
            message = {"id": self.number, "method": method, "params": given}
            if self.session:
                message["sessionId"] = self.session
            if not self.is_over:
                self.answers[self.number] = answer
        try:
            if self.is_over:
                raise BrokenPipeError
            data = json.dumps(message).encode() + b"\0"
            while data:
                data = data[os.write(self.to_browser, data):]
            result = answer.get(timeout=kTimeout)
        except (queue.Empty, BrokenPipeError):
            self.log.seek(0)
            log = self.log.read()[-4000:].decode(errors="replace")
            raise AssertionError(f"{method}: no answer of the browser\n{log}")
        if "error" in result:
            raise AssertionError(f"{method}: {result['error']['message']}")
        return result["result"]

    # What a person does

    def goto(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def reload(self) -> None:
        self.eval("window.isOldPage = true")
        self.call("Page.reload")
        self.wait_for("!window.isOldPage && document.readyState === 'complete'")

    def look(self, width: int, height: int, dark: bool = False, mobile: bool = False, scale: float = 1) -> None:
        self.call("Emulation.setDeviceMetricsOverride",
                  width=width, height=height, deviceScaleFactor=scale, mobile=mobile)
        self.call("Emulation.setTouchEmulationEnabled", enabled=mobile)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"}])

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def press(self, key: str, modifiers: int = 0) -> None:
        code, text = kKeys[key]
        name = " " if key == "Space" else key
        given = {"key": name, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        if text:
            self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **given)
        else:
            self.call("Input.dispatchKeyEvent", type="rawKeyDown", **given)
        self.call("Input.dispatchKeyEvent", type="keyUp", **given)

    def click(self, selector: str) -> None:
        """In the middle of it, where a person would: what lies over it gets the click."""
        place = self.eval(f"""(() => {{
          const element = document.querySelector({json.dumps(selector)});
          element.scrollIntoView({{block: "nearest", behavior: "instant"}});
          const box = element.getBoundingClientRect();
          return [box.x + box.width / 2, box.y + box.height / 2];
        }})()""")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    # What the page shows

    def eval(self, script: str):
        result = self.call("Runtime.evaluate",
                           expression=script, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise AssertionError(f"{script}\n{details.get('exception', {}).get('description', details['text'])}")
        return result["result"].get("value")

    def wait_for(self, script: str):
        """Until it is true; gives what it is."""
        deadline = time.monotonic() + kTimeout
        while True:
            try:
                # An element is there or not; it has no value of its own.
                value = self.eval(
                    f"Promise.resolve({script}).then((value) => value instanceof Node ? true : value)")
            except AssertionError as error:
                # Between two pages there is nothing to ask.
                if "context" not in str(error) and "navigat" not in str(error):
                    raise
                value = None
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"never true: {script}\nproblems: {self.problems}\npage: {self.text('body')[:2000]}")
            time.sleep(0.05)

    def text(self, selector: str) -> str:
        return self.eval(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def screenshot(self, path) -> None:
        data = self.call("Page.captureScreenshot", format="png")["data"]
        Path(path).write_bytes(base64.b64decode(data))

    def accessible(self) -> list[dict]:
        """Role and name of what assistive technology sees."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [{"role": node.get("role", {}).get("value"), "name": node.get("name", {}).get("value", "")}
                for node in nodes if not node.get("ignored")]
