"""Loaded by schemathesis (SCHEMATHESIS_HOOKS): of the names of models that it makes up most become one that is
served, or nearly every request would end at the name."""

import schemathesis

kModel = "smollm2"
kMostBytes = 4096


@schemathesis.hook
def map_body(context, body):
    name = body.get("model") if isinstance(body, dict) else None
    # There the name is all that may be wrong.
    if context.operation.path == "/v1/models/load":
        return body
    # One that is too long is wrong by intent.
    if not isinstance(name, str) or len(name) > kMostBytes or len(name) % 8 == 7:
        return body
    return {**body, "model": kModel}
