"""Traces by OTLP over HTTP: what a receiver of the test's own gets of a real server."""

import http.server
import json
import threading
import time
import unittest

import serving
import paceline_testing as testing

kTrace, kParent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
kSecret = "violet elephants"


class Receiver(http.server.BaseHTTPRequestHandler):
    """Answers what its server is told to, and keeps what came."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked += 1
        if self.server.status == 200:
            self.server.bodies.append((self.path, self.headers["Content-Type"], body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


def value_of(span: dict, key: str):
    found = [entry["value"] for entry in span["attributes"] if entry["key"] == key]
    return next(iter(found[0].values())) if found else None


class TraceTest(unittest.TestCase):
    def setUp(self):
        self.receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        self.receiver.status, self.receiver.asked, self.receiver.bodies = 200, 0, []
        threading.Thread(target=self.receiver.serve_forever, daemon=True).start()
        self.addCleanup(self.receiver.server_close)
        self.addCleanup(self.receiver.shutdown)
        self.service = serving.Service(
            "--otlp-endpoint", f"http://127.0.0.1:{self.receiver.server_address[1]}",
            package=serving.tiny_package())
        self.addCleanup(self.service.close)

    def ask(self, **headers) -> serving.Response:
        body = {"messages": [{"role": "user", "content": kSecret}], "max_tokens": 16, "ignore_eos": True}
        return self.service.request("POST", "/v1/chat/completions", json.dumps(body).encode(),
                                    **{"Content-Type": "application/json", **headers})

    def wait_for(self, holds, seconds: float = 20) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            self.assertLess(time.monotonic(), deadline, self.receiver.bodies)
            time.sleep(0.05)

    def spans(self) -> list[dict]:
        found = []
        for path, kind, body in self.receiver.bodies:
            self.assertEqual((path, kind), ("/v1/traces", "application/json"))
            for resource in json.loads(body)["resourceSpans"]:
                for scope in resource["scopeSpans"]:
                    found += scope["spans"]
        return found

    def test_a_request_in_its_clients_trace(self):
        answer = self.ask(traceparent=f"00-{kTrace}-{kParent}-01").json()
        self.wait_for(lambda: len(self.spans()) >= 4)
        spans = {span["name"]: span for span in self.spans()}
        whole = spans["POST /v1/chat/completions"]
        self.assertEqual((whole["traceId"], whole["parentSpanId"]), (kTrace, kParent))
        self.assertEqual(value_of(whole, "gen_ai.request.model"), serving.kModel)
        self.assertEqual(int(value_of(whole, "gen_ai.usage.input_tokens")),
                         answer["usage"]["prompt_tokens"])
        self.assertEqual(int(value_of(whole, "gen_ai.usage.output_tokens")), 16)
        for name in ("queue", "prefill", "decode"):
            self.assertEqual(spans[name]["parentSpanId"], whole["spanId"])
            self.assertLessEqual(int(whole["startTimeUnixNano"]), int(spans[name]["startTimeUnixNano"]))
            self.assertLessEqual(int(spans[name]["endTimeUnixNano"]), int(whole["endTimeUnixNano"]))
        sent = b"".join(body for _, _, body in self.receiver.bodies)
        for text in (kSecret, answer["choices"][0]["message"]["content"]):
            self.assertNotIn(json.dumps(text)[1:-1].encode(), sent)

    def test_a_receiver_that_is_away_costs_nothing_and_is_told_later(self):
        self.receiver.status = 503
        for _ in range(3):
            self.assertEqual(self.ask().status, 200)
        self.wait_for(lambda: self.receiver.asked > 1)
        self.receiver.status = 200
        self.wait_for(lambda: len(self.spans()) == 12)
        # The count is made just after the answer to the batch.
        self.wait_for(lambda: self.service.metrics()["trace_spans_exported_total"] == 12)
        self.assertEqual(self.service.metrics()["trace_spans_dropped_total"], 0)

    def test_what_is_left_is_sent_at_the_end(self):
        self.assertEqual(self.ask().status, 200)
        self.service.close()
        self.assertEqual(len(self.spans()), 4)


if __name__ == "__main__":
    unittest.main()
