"""Requests that schemathesis makes of docs/openapi.json, as the server gives it: no answer is a 5xx, none
differs from the description, and what the description does not allow is refused.

PACELINE_SCHEMATHESIS_CASES: how many at least; PACELINE_SCHEMATHESIS_PHASES: fuzzing and stateful unless
said otherwise. README.md has the command for 2,000.
"""

import hashlib
import json
import math
import os
import re
import subprocess
import unittest
from pathlib import Path

import serving
import paceline_testing as testing

kProgram = testing.kSourceDir / ".venv-conformance/bin/schemathesis"
kCases = int(os.environ.get("PACELINE_SCHEMATHESIS_CASES", "400"))
kPhases = os.environ.get("PACELINE_SCHEMATHESIS_PHASES", "fuzzing,stateful")
kSeed = os.environ.get("PACELINE_SCHEMATHESIS_SEED", "1")
kKey = "pk-of-the-test"
kOperations = 23
# What the description cannot say: which fields exclude each other, how many tokens a text has, which names
# there are. So a right request may be answered 400 or 404, and only then.
kConfiguration = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "401", "403", "404", "413"]

[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "413", "415"]

# In a form all is text, and a list without items is nothing: of a wrong type is little there.
[[operations]]
include-name = "POST /v1/files"
checks.negative_data_rejection.expected-statuses = ["200", "400", "401", "403", "404", "405", "413", "415"]
"""
# Arrays of more items than these take minutes to make, and a body that is too large to send.
kMostItems = 1000


def without_large_arrays(schema):
    if isinstance(schema, list):
        return [without_large_arrays(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: without_large_arrays(value) for name, value in schema.items()
            if not (name == "maxItems" and value > kMostItems)}


class SchemathesisTest(unittest.TestCase):
    def setUp(self):
        keys = testing.temporary_directory() / "keys"
        keys.write_text(f"test:{hashlib.sha256(kKey.encode()).hexdigest()}\n")
        self.service = serving.Service("--api-keys", keys, "--ctx", 128, "--log-level", "warn",
                                       package=serving.tiny_package())
        self.addCleanup(self.service.close)

    def run_cases(self, location: str, *arguments) -> subprocess.CompletedProcess:
        directory = testing.temporary_directory()
        configuration = directory / "schemathesis.toml"
        configuration.write_text(kConfiguration)
        return subprocess.run(
            [kProgram, "--config-file", configuration, "run", location,
             "-H", f"Authorization: Bearer {kKey}", "--checks", "all", "--continue-on-failure",
             "--seed", kSeed, "--generation-database", "none", "--request-timeout", "60",
             "--no-color", *arguments],
            cwd=directory, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "SCHEMATHESIS_HOOKS": "schemathesis_hooks",
                 "PYTHONPATH": str(Path(__file__).parent)})

    def test_a_wrong_description_is_found(self):
        described = self.service.get("/openapi.json").json()
        described["components"]["schemas"]["Version"]["required"].append("codename")
        del described["paths"]["/v1/files"]["get"]["responses"]["200"]
        wrong = testing.temporary_directory() / "wrong.json"
        wrong.write_text(json.dumps(described))
        outcome = self.run_cases(str(wrong), "--url", self.service.url, "--phases", "fuzzing",
                                 "--max-examples", "10", "--include-path", "/version",
                                 "--include-path", "/v1/files", "--exclude-method", "POST")
        self.assertEqual(outcome.returncode, 1, outcome.stdout)
        self.assertIn("codename", outcome.stdout, "an answer that is not as described")
        self.assertIn("Undocumented status code: 1", outcome.stdout)

    def test_no_5xx_and_nothing_that_is_not_described(self):
        described = testing.temporary_directory() / "described.json"
        schema = without_large_arrays(self.service.get("/openapi.json").json())
        del schema["paths"]["/v1/models/unload"]  # nobody would be answered from then on
        described.write_text(json.dumps(schema))
        outcome = self.run_cases(str(described), "--url", self.service.url, "--phases", kPhases,
                                 "--max-examples", str(math.ceil(kCases / kOperations)))
        self.assertEqual(outcome.returncode, 0, outcome.stdout)
        made = int(re.search(r"(\d+) generated", outcome.stdout)[1])
        self.assertGreaterEqual(made, kCases, outcome.stdout)
        # By the server's own count: it was asked as often, and nothing failed since it was ready.
        asked = {name: count for name, count in self.service.metrics(
            Authorization=f"Bearer {kKey}").items() if name.startswith("http_requests_total{")}
        self.assertGreaterEqual(sum(asked.values()), made)
        failed = [name for name in asked
                  if re.search('status="(5..|none)"', name) and 'route="/health"' not in name]
        self.assertEqual(failed, [])
        print(f"{made} cases, {int(sum(asked.values()))} requests")


if __name__ == "__main__":
    unittest.main()
