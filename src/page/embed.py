#!/usr/bin/env python3
"""Writes the page's files as C++: usage: embed.py OUTPUT.cc FILE...

A file is served as /assets/NAME, index.html as /. Those with the ending of a library's minified
file lose it: uPlot.iife.min.js is /assets/uplot.js.
"""

import gzip
import hashlib
import pathlib
import sys

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


def path_of(file: pathlib.Path) -> str:
    if file.name == "index.html":
        return "/"
    name = file.name.lower().replace(".iife", "").replace(".min", "")
    return f"/assets/{name}"


def as_array(name: str, data: bytes) -> str:
    lines = []
    for start in range(0, len(data), 24):
        lines.append(",".join(str(byte) for byte in data[start:start + 24]))
    return f"constexpr unsigned char {name}[] = {{\n" + ",\n".join(lines or ["0"]) + "};\n"


def view(name: str, data: bytes) -> str:
    return f"{{reinterpret_cast<const char*>({name}), {len(data)}}}"


def main() -> None:
    output, files = pathlib.Path(sys.argv[1]), [pathlib.Path(file) for file in sys.argv[2:]]
    arrays, rows = [], []
    for number, file in enumerate(files):
        data = file.read_bytes()
        packed = gzip.compress(data, 9, mtime=0)
        plain_name, packed_name = f"kFile{number}", f"kFile{number}Gzipped"
        arrays += [f"// {file.name}\n", as_array(plain_name, data), as_array(packed_name, packed)]
        etag = f'\\"{hashlib.sha256(data).hexdigest()[:24]}\\"'
        rows.append(f'      {{"{path_of(file)}", "{TYPES[file.suffix]}", "{etag}",\n'
                    f"       {view(plain_name, data)},\n       {view(packed_name, packed)}}},\n")
    text = ("// Made by src/page/embed.py; do not edit.\n"
            '#include "page/page.h"\n\nnamespace paceline::page {\nnamespace {\n\n'
            + "".join(arrays) +
            "\n}  // namespace\n\nstd::span<const Asset> assets() {\n"
            "  static const Asset kAssets[] = {\n" + "".join(rows) +
            "  };\n  return kAssets;\n}\n\n}  // namespace paceline::page\n")
    output.write_text(text)


if __name__ == "__main__":
    main()
