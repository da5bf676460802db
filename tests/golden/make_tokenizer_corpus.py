#!/usr/bin/env python3
"""Writes tokenizer_corpus.json: the texts on which tokenizers are compared.

Each entry is {"text": ...}, or {"bytes": hex} for bytes that are no UTF-8.
"""

import json
import pathlib

HERE = pathlib.Path(__file__).parent

PROSE = [
    "",
    " ",
    "a",
    "Hello, World! How are you today?",
    " Hello  world ",
    "It's what we'd want, isn't it? THEY'VE SAID THEY'LL COME, I'M SURE.",
    "'s 't 're 've 'm 'll 'd 'S 'T 'RE 'VE 'M 'LL 'D '\u017f don\u2019t",
    "The riders change places in the wind, and the one in front goes to the back of the line.",
    "supercalifragilisticexpialidocious antidisestablishmentarianism",
    "camelCaseWord snake_case_word kebab-case-word SCREAMING_CASE XMLHttpRequest iPhone McDonald",
    "\u01c5ungla \u01c4UNGLA \u02b0mod \u00aaord na\u00efve caf\u00e9, Stra\u00dfe, \u00c5NGSTR\u00d6M",
    "https://example.org/a/b?c=d&e=f#g user@example.org",
    "\u201cquoted\u201d \u2018single\u2019 \u2014 dash \u2026 \u00ab\u00a0guillemets\u00a0\u00bb",
    "...!!!??? --- ### $$$ %%% @@@ ///\n//\r\n/ \\ | `code` ~~strike~~ **bold** __init__",
    "a" * 37 + " " + "ab" * 20,
]
CODE = [
    "for (int i = 0; i < 10; ++i) {\n\ttotal += values[i];\n}\n",
    "def f(x):\n    return x ** 2\n\n\nprint(f(12))  # 144\n",
    "#include <vector>\r\nint main() {\r\n  return 0;\r\n}\r\n",
    '{"key": [1, 2.5, null, true], "text": "\\u00e4"}',
    "SELECT a.id, COUNT(*) FROM t1 a WHERE a.x >= 3 AND b IN ('p','q') GROUP BY 1;--end",
    "<table><tr><td>1</td></tr></table>\n<h1>Title</h1>\n<code>x</code></div>",
    "fn main() -> Result<(), Box<dyn Error>> { let x: &'static str = \"s\"; Ok(()) }",
    "if [ -z \"$X\" ]; then\n  echo \"${X:-none}\" >&2\nfi\n\texit 1",
    "$x^2 + y^2 = z^2$ and \\frac{a}{b} \u2211 \u222b \u221e \u2248 \u2260",
]
DIGITS = [
    "1234567890",
    "In 1989 there were 31415926535 of 12, at 3.14 each: 1,000,000.00",
    "x1y22z333w4444 v55555u666666t7777777",
    "\u00bd \u00b2 \u0663\u0664\u0665 \u2167 \u0967\u0968\u0969\u096a \u4e00\u4e8c \u2460\u2461",
    "+1 (555) 010-9999 2024-06-01T12:34:56.789Z 0xDEADBEEF 1e-10",
]
SCRIPTS = [
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u4eca\u5929\u662f2024\u5e741\u67081\u65e5\u3002",
    "\u3053\u3093\u306b\u3061\u306f\u3001\u4e16\u754c\uff01\u30c6\u30b9\u30c8\u3067\u3059\u3002abc\u6f22\u5b57kana\u30ab\u30ca",
    "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4 \u1112\u1161\u11ab\u1100\u1173\u11af",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u0393\u03b5\u03b9\u03ac \u03a3\u03bf\u03c5. \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
    "\u0939\u093f\u0928\u094d\u0926\u0940 \u092e\u0947\u0902 \u0932\u093f\u0916\u093e \u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22 \u0ba4\u0bae\u0bbf\u0bb4\u0bcd",
    "\U00020000\U0002a6d6 \U0001d4d7\U0001d4ee\U0001d4f5 \uff21\uff22\uff43",
]
EMOJI = [
    "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f1e9\U0001f1ea!",
    "\u2764\ufe0f\U0001f44d\U0001f3fd1\ufe0f\u20e3 \U0001f9d1\u200d\U0001f4bb\U0001f3f4\U000e0067\U000e0062\U000e007f",
    "so\U0001f602\U0001f602funny\U0001f525 100\U0001f4af",
]
MARKS = [
    "e\u0301 \u00e9 A\u030a \u00c5 \u212b o\u0302\u0323 \u1ed9 n\u0303o",
    "Z\u0351\u036b\u0343a\u0313\u033dl\u0334g\u0322o\u0321 x\u0338=y",
    " \u0301start \u0301\u0301 a \u20dd",
    "\u0f40\u0f71\u0f72 \u0b95\u0bcb \u0dda \ufb01n \u2126 \u1e9b\u0323",
]
WHITESPACE = [
    "   leading and trailing   ",
    "tabs\tand\t\ttabs \t mixed\t",
    "\n",
    "\n\n\n",
    "a\n\n b\n  c\r\n\r\n d \n",
    "one\u00a0two\u3000three\u2003four\u2028five\u2029six\u0085seven\u1680eight",
    "zero\u200bwidth \ufeffbom\u2060 \u180emongolian soft\u00adhyphen",
    "a  b   c    d     e      f       g        h",
    " \n \n  \n\t\n x",
    "a\n" + "\n" * 12 + "b" + " " * 17 + "c" + "\t" * 9 + "d",
    " " * 31,
    "x" + " " * 30 + "y",
    "\t\t\tdeep\n\t\t\t\tdeeper",
    "\x0b\x0c\x1c\x1f control \x00 \x01 \x07 \x1b[0m bytes \x7f",
    "\u2581\u2581literal \u2581 escaped\u2581space \u2581",
]
SPECIAL = [
    "<|im_start|>user\nHello there<|im_end|>\n<|im_start|>assistant\n",
    "a<|im_end|>b <|im_end|> c  <|im_end|>\n\n<|im_end|>",
    "call <tool> now<tool>x <tool>\n y",
    "<|user|>\nHi <|user|> \t there<|end|>\n<|assistant|>\n\n",
    "<s>user: Hello</s> and <s> more <unk>",
    "<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n",
    "<|endoftext|><|begin_of_text|> <|im_start|",
    "[INST] Hi [/INST] <0x41> <0x0A>",
]
BROKEN = [
    b"a\xff\xe4\xbdz",
    b"\xf0\x9f\x98",
    b"\xf0\x9f\x98 \xf0\x9f\x98\x80\x80",
    b"\xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80 \xfe",
    b"ok \xe2\x82 ok \xe2\x82\xac ok\xe2",
    b"\x80\x81 latin caf\xe9 na\xefve",
]


def main():
    texts = PROSE + CODE + DIGITS + SCRIPTS + EMOJI + MARKS + WHITESPACE + SPECIAL
    entries = [{"text": text} for text in texts] + [{"bytes": raw.hex()} for raw in BROKEN]
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    (HERE / "tokenizer_corpus.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
