"""Whether others see what we say: a load generator (llmeter) and Prometheus, both not ours, beside a real server.

    third_party.py [--prometheus DIRECTORY] [--environment DIRECTORY]

What must agree:
- tokens: llmeter's sums, our counters, and what Prometheus stored of them: exactly
- time to the first token, time per output token: llmeter's means and ours. The client sees what we see and, each
  time, the way through its own HTTP library and two threads of Python on the same cores, so it may be later by
  kClientSeconds (kClientShare of it where the machine is so busy that this is more), never earlier by more than a
  clock's rounding; per token it may differ by kTokenShare
- rates: Prometheus' rate(), added up over the run, gives the tokens within kRateShare, as the ends of its windows are
  extrapolated
- quantiles: histogram_quantile() and the same computed here of our own buckets, to rounding
- promtool finds nothing in /metrics, and every panel of the dashboard has data
A table, then one JSON line with `holds`.
"""

import argparse
import json
import re
import socket
import statistics
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

import serving
import paceline_testing as testing

kClients, kRequests, kTokens = 4, 12, 64
kScrape = 1  # seconds
kClientSeconds = 0.025
kClientShare = 0.1
kTokenShare = 0.05
kRateShare = 0.05
kWindow = 6  # seconds of rate()
kSelf = Path(__file__).resolve().parent


class Prometheus:
    def __init__(self, program: Path, target: str):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        directory = testing.temporary_directory() / "prometheus"
        directory.mkdir()
        (directory / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": f"{kScrape}s"},
            "scrape_configs": [{"job_name": "paceline", "static_configs": [{"targets": [target]}]}]}))
        self.url = f"http://127.0.0.1:{port}/api/v1/"
        self.process = subprocess.Popen(
            [program, f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/data",
             f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"])

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()

    def ask(self, expression: str, kind: str = "query", **options) -> list[dict]:
        query = urllib.parse.urlencode({"query": expression, **options})
        with urllib.request.urlopen(f"{self.url}{kind}?{query}") as response:
            return json.load(response)["data"]["result"]

    def value(self, expression: str) -> float:
        result = self.ask(expression)
        if len(result) != 1:
            raise SystemExit(f"{expression}: {len(result)} series")
        return float(result[0]["value"][1])

    def wait_for(self, expression: str, holds) -> None:
        deadline = time.monotonic() + 30
        while True:
            try:
                if holds(self.value(expression)):
                    return
            except (OSError, SystemExit):
                pass
            if time.monotonic() > deadline:
                raise SystemExit(f"Prometheus does not come to it: {expression}")
            time.sleep(0.2)


def quantile(share: float, metrics: dict[str, float], name: str) -> float:
    """As histogram_quantile() has it, of a histogram of one series."""
    buckets = sorted((float(re.search('le="(.+?)"', series)[1]), count)
                     for series, count in metrics.items() if series.startswith(name + "_bucket{"))
    rank = share * buckets[-1][1]
    below, before = 0.0, 0.0
    for bound, count in buckets:
        if count >= rank:
            return below + (bound - below) * (rank - before) / (count - before)
        below, before = bound, count
    raise AssertionError("there is a last bucket")


def difference(after: dict[str, float], before: dict[str, float], name: str) -> float:
    chosen = [series for series in after if series == name or series.startswith(name + "{")]
    return sum(after[series] - before.get(series, 0) for series in chosen)


def mean(after: dict[str, float], before: dict[str, float], name: str) -> float:
    return difference(after, before, name + "_sum") / difference(after, before, name + "_count")


def empty_panels(prometheus: Prometheus) -> list[str]:
    dashboard = json.loads((testing.kSourceDir / "deploy/grafana/paceline.json").read_text())
    empty = []
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"].replace("$__rate_interval", "30s").replace("$model", ".*")
            if not prometheus.ask(expression):
                empty.append(f"{panel['title']}: {expression}")
    return empty


def run_load(environment: Path, service: serving.Service, prometheus: Prometheus) -> tuple[dict, float]:
    """What llmeter measured, and the tokens by Prometheus' rate, from before the run until it is 0 again."""
    begin = time.time()
    load = subprocess.run(
        [environment / "bin/python", kSelf / "llmeter_load.py", service.url + "/v1", serving.kModel,
         *map(str, (kClients, kRequests, kTokens))],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)  # fmt: skip
    time.sleep(kWindow + 2 * kScrape)
    rates = prometheus.ask(f"sum(rate(paceline_generation_tokens_total[{kWindow}s]))", "query_range",
                           start=begin, end=time.time(), step=kScrape)  # fmt: skip
    return json.loads(load.stdout), kScrape * sum(float(value) for _, value in rates[0]["values"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prometheus", type=Path, default=Path("/usr/bin"), help="where prometheus and promtool are")
    parser.add_argument("--environment", type=Path, default=testing.kSourceDir / ".venv-third-party")
    arguments = parser.parse_args()
    service = serving.Service("--stages", 2, "--log-level", "warn")
    prometheus = Prometheus(arguments.prometheus / "prometheus", f"{service.host}:{service.port}")
    try:
        prometheus.wait_for("up", lambda up: up == 1)
        before = service.metrics()
        load, added_up = run_load(arguments.environment, service, prometheus)
        after = service.metrics()
        made = difference(after, before, "generation_tokens_total")
        prometheus.wait_for("paceline_generation_tokens_total",
                            lambda value: value == after[f'generation_tokens_total{{model="{serving.kModel}"}}'])
        lint = subprocess.run([arguments.prometheus / "promtool", "check", "metrics"], text=True,
                              input=service.get("/metrics").body.decode(),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        holds = judge(load, added_up, before, after, made, prometheus)
        empty = empty_panels(prometheus)
        print("panels without data:", empty or "none")
        print("promtool check metrics:", lint.stdout.strip() or "nothing")
        holds["panels"] = not empty
        holds["promtool"] = lint.returncode == 0 and not lint.stdout.strip()
    finally:
        prometheus.close()
        service.close()
    print(json.dumps({"name": "third_party", "holds": holds}))
    sys.exit(0 if all(holds.values()) else 1)


def judge(load: dict, added_up: float, before: dict, after: dict, made: float, prometheus: Prometheus) -> dict[str, bool]:
    responses = load["responses"]
    their = {name: [response[name] for response in responses] for name in responses[0]}
    first, per_token = statistics.mean(their["time_to_first_token"]), statistics.mean(their["time_per_output_token"])
    our_first = mean(after, before, "time_to_first_token_seconds")
    our_per_token = mean(after, before, "inter_token_latency_seconds")
    read = difference(after, before, "prompt_tokens_total")
    quantiles = {
        name: (quantile(0.9, after, name),
               prometheus.value(f"histogram_quantile(0.9, sum by (le) (paceline_{name}_bucket))"))
        for name in ("time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds")
    }
    stored = prometheus.value("sum(paceline_prompt_tokens_total)")
    rows = [("requests", len(responses), difference(after, before, "request_success_total")),
            ("prompt tokens", sum(their["num_tokens_input"]), read),
            ("generated tokens", sum(their["num_tokens_output"]), made),
            ("first token, mean ms", first * 1e3, our_first * 1e3),
            ("per token, mean ms", per_token * 1e3, our_per_token * 1e3),
            ("generated tokens (theirs: Prometheus' rate, added up)", added_up, made)]  # fmt: skip
    rows += [(f"90 % of {name} (theirs: Prometheus)", their_value, own) for name, (own, their_value) in quantiles.items()]
    print(f"{'':78}{'theirs':>12}{'ours':>12}")
    for name, theirs, ours in rows:
        print(f"{name:78}{theirs:>12.3f}{ours:>12.3f}")
    return {
        "no_errors": not any(their["error"]) and len(responses) == kClients * kRequests,
        "prompt_tokens": sum(their["num_tokens_input"]) == read,
        "generated_tokens": sum(their["num_tokens_output"]) == made == kClients * kRequests * kTokens,
        "stored_tokens": stored == sum(count for name, count in after.items() if name.startswith("prompt_tokens_total{")),
        "first_token": -0.001 <= first - our_first <= max(kClientSeconds, kClientShare * our_first),
        "per_token": abs(per_token / our_per_token - 1) <= kTokenShare,
        "rate": abs(added_up / made - 1) <= kRateShare,
        "quantiles": all(abs(own / other - 1) < 1e-9 for own, other in quantiles.values()),
    }


if __name__ == "__main__":
    main()
