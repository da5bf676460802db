#!/usr/bin/env python3
"""Makes chat_golden.json: chat templates with what Python's Jinja renders of them.

usage: make_chat_golden.py [SMOLLM2.gguf]      (pip install jinja2 gguf)

The environment is set up as Hugging Face's apply_chat_template documents it. The templates are
written here in the manner of published ones; with a GGUF, its own template is there too.
"""

import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

OUTPUT = pathlib.Path(__file__).parent / "chat_golden.json"

CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "  Who rides in front?\n"},
    {"role": "assistant", "content": "<think>they change</think>The one whose turn it is."},
    {"role": "user", "content": "And <b>then</b> & \"after\"? \u4f60\u597d \U0001f600"},
]
TOOLS = [{"type": "function", "function": {
    "name": "weather", "description": "It's <today>", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]

TURNS = """{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = 'none' %}
{%- endif %}
{{- bos_token + '[S]' + system_message }}
{%- for message in messages %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('Roles must alternate user and assistant') }}
    {%- endif %}
    {{- '[' + message['role'][:1] | upper + ']' + message['content'] | trim + (eos_token if not loop.last else '') }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '[A]' }}
{%- endif %}
"""

THINKING = """{% for message in messages %}
    {% set content = message.content %}
    {% if message.role == "assistant" and '</think>' in content %}
        {% set content = content.split('</think>')[-1].lstrip('\\n') %}
    {% endif %}
<|{{ message.role }}|>
{{ content }}
{% endfor %}
{% if add_generation_prompt %}
<|assistant|>
{% if enable_thinking is defined and enable_thinking is false %}
<think>

</think>

{% endif %}
{% endif %}
"""

TOOL_LIST = """{%- macro arguments(parameters) -%}
    {%- for name, value in parameters.properties.items() -%}
        {{ name }}: {{ value.type }}{% if name in parameters.required %} (required){% endif %}
    {%- endfor -%}
{%- endmacro -%}
{% if tools %}
# Tools
{% for tool in tools %}
{{ tool | tojson }}
{{ tool.function | tojson(indent=4) }}
{{ tool.function.name }}({{ arguments(tool.function.parameters) }})
{% endfor %}
{% endif %}
{% set ns = namespace(count=0, last='') %}
{% for message in messages if message.role != 'system' %}
    {% set ns.count = ns.count + 1 %}
    {% set ns.last = message.role %}
{% endfor %}
{{ ns.count }} {{ ns.last }} {{ none }} {{ true }} {{ 1.5 }} {{ 7 // 2 }} {{ undefined_name }}|
{{- messages | map(attribute='role') | join(', ') }} {{ messages | length }}
{{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ 'a-b'.replace('-', '+') }} {{ 'x y'.title() }}
"""

TRAINING = """{% for message in messages %}
{% if message.role == 'assistant' %}
{% generation %}
{{ message.content }}{{ eos_token }}
{% endgeneration %}
{% else %}
{{ message.role }}: {{ message.content }}
{% endif %}
{% endfor %}"""


class Generation(jinja2.ext.Extension):
    """{% generation %} ... {% endgeneration %}: what is inside."""

    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)


def render(source, variables):
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    return environment.from_string(source).render(**variables)


def case(name, source, messages, add_generation_prompt=True, extra=None):
    variables = {"bos_token": "<s>", "eos_token": "</s>", **(extra or {}),
                 "messages": messages, "add_generation_prompt": add_generation_prompt}
    result = {"name": name, "source": source, "messages": messages,
              "add_generation_prompt": add_generation_prompt, "extra": extra or {}}
    try:
        return {**result, "text": render(source, variables)}
    except jinja2.exceptions.TemplateError as error:
        return {**result, "error": str(error)}


def main():
    cases = [
        case("turns", TURNS, CHAT),
        case("turns without system", TURNS, CHAT[1:3], add_generation_prompt=False),
        case("turns out of order", TURNS, CHAT[2:]),
        case("thinking", THINKING, CHAT),
        case("thinking off", THINKING, CHAT, extra={"enable_thinking": False}),
        case("tools", TOOL_LIST, CHAT, extra={"tools": TOOLS}),
        case("no tools", TOOL_LIST, []),
        case("training", TRAINING, CHAT),
    ]
    if len(sys.argv) > 1:
        import gguf

        source = gguf.GGUFReader(sys.argv[1]).fields["tokenizer.chat_template"].contents()
        cases.append(case("smollm2", source, CHAT))
        cases.append(case("smollm2 without system", source, CHAT[1:], add_generation_prompt=False))
    lines = ",\n".join(json.dumps(item) for item in cases)
    OUTPUT.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
