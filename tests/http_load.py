#!/usr/bin/env python3
"""1,000 idle keep-alive connections beside 200 streams at once: all get all bytes, and the idle ones still answer.

usage: http_load.py PROGRAM, which is src/http's load server. Prints what it took; exits 1 where a byte is missing.
"""

import argparse
import asyncio
import os
import resource
import subprocess
import sys
import time

IDLE = 1000
STREAMS = 200
EVENTS = 100
REQUEST = "GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def hello(reader, writer) -> None:
    writer.write(REQUEST.format("/hello").encode())
    head = await reader.readuntil(b"\r\n\r\n")
    body = await reader.readexactly(len(b'"hello"'))
    if not head.startswith(b"HTTP/1.1 200 ") or body != b'"hello"':
        raise ValueError(f"not the answer to /hello: {head!r} {body!r}")


async def stream(port: int, number: int) -> float:
    """Reads one stream to its last chunk; gives the longest time between two events."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(REQUEST.format(f"/stream?id={number}").encode())
    await reader.readuntil(b"\r\n\r\n")
    body, longest, before = b"", 0.0, time.monotonic()
    while True:
        size = int(await reader.readuntil(b"\r\n"), 16)
        chunk = await reader.readexactly(size + 2)
        now = time.monotonic()
        longest, before = max(longest, now - before), now
        if size == 0:
            break
        body += chunk[:-2]
    expected = b"".join(b"data: %d-%d\n\n" % (number, event) for event in range(EVENTS))
    if body != expected:
        raise ValueError(f"stream {number}: {len(body)} of {len(expected)} bytes, or others")
    writer.close()
    return longest


def cpu_seconds(pid: int) -> float:
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid: int) -> float:
    return int(open(f"/proc/{pid}/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


async def load(port: int, pid: int) -> None:
    idle = []
    for _ in range(IDLE):
        idle.append(await asyncio.open_connection("127.0.0.1", port))
        await hello(*idle[-1])
    began, cpu = time.monotonic(), cpu_seconds(pid)
    longest = await asyncio.gather(*(stream(port, number) for number in range(STREAMS)))
    seconds = time.monotonic() - began
    print(f"{STREAMS} streams of {EVENTS} events beside {IDLE} idle connections: {seconds:.2f} s, "
          f"{cpu_seconds(pid) - cpu:.2f} s of CPU, longest gap {max(longest) * 1000:.0f} ms, "
          f"{memory_mib(pid):.0f} MiB")
    for reader, writer in idle:
        await hello(reader, writer)
    for _, writer in idle:
        writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    program = parser.parse_args().program
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, 4096), limit))
    server = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        asyncio.run(load(int(server.stdout.readline()), server.pid))
        server.stdin.close()
        last = server.stdout.read().strip()
        if last != "cut 0" or server.wait(timeout=10) != 0:
            sys.exit(f"the server's end: {last!r}, exit code {server.returncode}")
    finally:
        server.kill()


if __name__ == "__main__":
    main()
