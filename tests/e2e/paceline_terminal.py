"""A program with a terminal of its own, for tests of what people see and type.

Not a test itself. Python's standard library only.
"""

import fcntl
import os
import pty
import re
import select
import subprocess
import termios
import time

import paceline_testing as testing


class Terminal:
    """`paceline ARGUMENTS` with a terminal of its own."""

    def __init__(self, *arguments):
        self._master, slave = pty.openpty()
        self.settings_before = termios.tcgetattr(slave)
        self.process = subprocess.Popen(
            [testing.binary(), *map(str, arguments)],
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        self.slave = slave  # kept open: what the program did to the terminal can be looked at
        self.seen = ""

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.slave)
        os.close(self._master)

    def press_ctrl_c(self) -> None:
        """As a user does: the terminal sends the signal to all processes in the foreground."""
        self.type("\x03")

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def read(self, timeout: float) -> bool:
        """Takes what comes; False at the end or where nothing came in time."""
        if not select.select([self._master], [], [], timeout)[0]:
            return False
        try:
            self.seen += os.read(self._master, 4096).decode(errors="replace")
        except OSError:  # the other side has ended
            return False
        return True

    def wait_for(self, pattern: str, timeout: float = 120.0) -> str:
        """What was shown up to the end of the match; takes it away."""
        deadline = time.monotonic() + timeout
        while not (match := re.search(pattern, self.seen)):
            if not self.read(max(0.0, deadline - time.monotonic())):
                raise AssertionError(f"no {pattern!r} in {self.seen!r}")
        taken, self.seen = self.seen[: match.end()], self.seen[match.end() :]
        return taken
