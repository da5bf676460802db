"""Asks a server with llmeter: URL MODEL CLIENTS REQUESTS-OF-EACH TOKENS. Prints a JSON object: what llmeter measured
of each request, and of the whole run. Run by third_party.py, in the environment that has llmeter.
"""

import asyncio
import json
import sys

from llmeter.endpoints import OpenAICompletionStreamEndpoint
from llmeter.runner import Runner

kMeasured = ("time_to_first_token", "time_to_last_token", "time_per_output_token", "num_tokens_input",
             "num_tokens_output", "error")


def main() -> None:
    url, model = sys.argv[1:3]
    clients, requests, tokens = map(int, sys.argv[3:6])
    endpoint = OpenAICompletionStreamEndpoint(model, base_url=url, api_key="none", max_retries=0)
    payloads = [
        {"messages": [{"role": "user", "content": f"Tell me story number {i}."}], "max_tokens": tokens,
         "temperature": 0, "extra_body": {"ignore_eos": True}}
        for i in range(clients * requests)
    ]  # fmt: skip
    result = asyncio.run(Runner(endpoint, clients=clients).run(
        payload=payloads, n_requests=requests, disable_per_client_progress_bar=True,
        disable_clients_progress_bar=True))
    print(json.dumps({
        "responses": [{name: getattr(response, name) for name in kMeasured} for response in result.responses],
        "seconds": result.total_test_time,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
