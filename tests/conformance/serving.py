"""A running `paceline serve` for the tests of this folder, and plain HTTP without a client library.

Not a test itself. paceline_testing.py in tests/e2e starts and ends the processes.
"""

import contextlib
import functools
import http.client
import json
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
import paceline_testing as testing  # noqa: E402

kModel = "smollm2"
kContext = 1024


class Response:
    def __init__(self, status: int, headers, body: bytes):
        self.status = status
        self.headers = {name.lower(): value for name, value in headers}
        self.body = body

    def json(self):
        return json.loads(self.body)

    def events(self) -> list:
        """Of a stream; comments are left out."""
        text = self.body.decode()
        assert text.endswith("\n\n"), text[-200:]
        events = [event for event in text.split("\n\n")[:-1] if not event.startswith(":")]
        data = [event.removeprefix("data: ") for event in events]
        return [item if item == "[DONE]" else json.loads(item) for item in data]


@functools.cache
def tiny_package() -> Path:
    """SmolLM2's vocabulary and template before 4 small layers of random weights: text that says
    nothing, a hundred times as fast."""
    package = testing.temporary_directory() / "random"
    gguf = package.with_suffix(".gguf")
    subprocess.run([sys.executable, testing.kSourceDir / "bench/random_gguf.py", "--base",
                    testing.smollm2_gguf(), "--out", gguf], check=True, stdout=subprocess.DEVNULL)
    testing.run("compile", gguf, "-o", package).check()
    gguf.unlink()
    return package


class Service:
    def __init__(self, *arguments, package: Path | None = None):
        self.start("--served-model-name", kModel, package or testing.smollm2_package(), *arguments)

    def start(self, *arguments):
        if "--state-dir" not in arguments:  # never the user's own
            state = tempfile.mkdtemp(prefix="state-", dir=testing.temporary_directory())
            arguments = ("--state-dir", state, *arguments)
        self.server = testing.Server(
            "serve", *arguments, "--port", "0", *([] if "--ctx" in arguments else ["--ctx", kContext]),
            "--profile", "exact")
        self.url = self.server.address
        parts = urllib.parse.urlsplit(self.url)
        self.host, self.port = parts.hostname, parts.port
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + testing.kTimeout
        while self.get("/health").status != 200:
            if time.monotonic() > deadline or not self.server.is_running():
                raise AssertionError(f"not ready\n{self.server.log()}")
            time.sleep(0.1)

    def close(self) -> None:
        self.server.close()

    def connect(self, timeout: float = 120.0) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def request(self, method: str, path: str, body: bytes | None = None, **headers) -> Response:
        with contextlib.closing(self.connect()) as connection:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return Response(response.status, response.getheaders(), response.read())

    def get(self, path: str, **headers) -> Response:
        return self.request("GET", path, **headers)

    def metrics(self, **headers) -> dict[str, float]:
        """By series, without the prefix: 'node_up{node="a"}'."""
        text = self.get("/metrics", **headers).body.decode()
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        series = [line.removeprefix("paceline_").rpartition(" ") for line in lines]
        return {name: float(value) for name, _, value in series}

    def post(self, path: str, body) -> Response:
        """`body`: bytes as they are, else as JSON."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.request("POST", path, raw, **{"Content-Type": "application/json"})


class Models(Service):
    """With the models that the arguments name, none of its own."""

    def __init__(self, *arguments):
        self.start(*arguments)


@functools.cache
def service() -> Service:
    """One for a test process; ended with it."""
    import atexit

    started = Service()
    atexit.register(started.close)
    return started


def clients(started: Service):
    """The official client twice: each response validated strictly, and not."""
    import openai

    arguments = {"base_url": started.url + "/v1", "api_key": "none", "max_retries": 0}
    return openai.OpenAI(_strict_response_validation=True, **arguments), openai.OpenAI(**arguments)
