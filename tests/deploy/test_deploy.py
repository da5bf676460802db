"""What is in deploy/ as far as it can be checked without systemd running or Docker: the units are valid and keep
to what the documents say, and what the Dockerfile installs is what the program is linked to.

Python's standard library only. PACELINE_BINARY: the program.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

kSource = Path(__file__).resolve().parents[2]
kDeploy = kSource / "deploy"
kBinary = os.environ["PACELINE_BINARY"]
kMostExposure = 2.0
# By the package that has it, where that has another name.
kPackages = {"libcrypto.so.3": "libssl.so.3"}


def run(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run(list(map(str, arguments)), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


@unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
class Units(unittest.TestCase):
    def units(self):
        units = sorted(kDeploy.glob("*.service"))
        self.assertEqual([unit.name for unit in units], ["paceline-serve.service", "paceline-worker.service"])
        return units

    def test_they_are_valid(self):
        with tempfile.TemporaryDirectory() as directory:
            for unit in self.units():
                text = unit.read_text()
                self.assertIn("ExecStart=/usr/local/bin/paceline ", text)
                copy = Path(directory) / unit.name
                # Documentation and the program are not installed here.
                copy.write_text(re.sub("(?m)^Documentation=.*$", "", text)
                                .replace("/usr/local/bin/paceline", kBinary))
                outcome = run("systemd-analyze", "verify", copy)
                self.assertEqual((outcome.returncode, outcome.stdout), (0, ""), unit.name)

    def test_a_wrong_one_is_found(self):
        with tempfile.TemporaryDirectory() as directory:
            copy = Path(directory) / "wrong.service"
            copy.write_text("[Service]\nExecStart=/nowhere\nProtectSistem=strict\n")
            self.assertIn("ProtectSistem", run("systemd-analyze", "verify", copy).stdout)

    def test_little_is_exposed(self):
        for unit in self.units():
            outcome = run("systemd-analyze", "security", "--offline=true", "--no-pager", unit)
            found = re.search(r"Overall exposure level for \S+: ([\d.]+)", outcome.stdout)
            self.assertIsNotNone(found, outcome.stdout)
            self.assertLess(float(found[1]), kMostExposure, unit.name)


class Container(unittest.TestCase):
    def test_it_has_the_libraries_that_the_program_is_linked_to(self):
        dockerfile = (kDeploy / "Dockerfile").read_text()
        runtime = dockerfile.rpartition("FROM ")[2]
        linked = run("readelf", "-d", kBinary).stdout
        for library in re.findall(r"NEEDED.*\[(.+?)\]", linked):
            if re.match(r"lib(openvino|tbb|c|m|gcc_s|stdc\+\+|dl|pthread|rt)\.|ld-linux", library):
                continue  # copied, or in every image
            name, _, version = kPackages.get(library, library).removeprefix("lib").partition(".so.")
            package = re.compile(rf"\blib{re.escape(name)}-?{re.escape(version)}\b")
            self.assertRegex(runtime, package, f"{library}: no package of that name in the Dockerfile")

    def test_it_is_no_root_and_has_no_other_host(self):
        dockerfile = (kDeploy / "Dockerfile").read_text()
        self.assertRegex(dockerfile, r"(?m)^USER paceline$")
        self.assertEqual(re.findall(r"(?m)^FROM (\S+)", dockerfile), ["debian:bookworm-slim"] * 2)
        self.assertNotRegex(dockerfile, r"https?://")


class Dashboard(unittest.TestCase):
    """Names of metrics: the unit test of src/obs."""

    def test_its_panels_have_places_and_ids_of_their_own(self):
        dashboard = json.loads((kDeploy / "grafana/paceline.json").read_text())
        self.assertEqual(dashboard["uid"], "paceline")
        panels = dashboard["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        taken = set()
        for panel in panels:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24, panel["title"])
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                     for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(cells & taken, panel["title"])
            taken |= cells
            if panel["type"] != "row":
                self.assertTrue(panel["targets"], panel["title"])


if __name__ == "__main__":
    unittest.main()
