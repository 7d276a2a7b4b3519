"""What an installation brings: packages, the size of what is downloaded, and the size on disk.

Each is installed by pip into an environment of its own, which has nothing else; the floor is pydantic, which all of them need.
The wheel of mcprev is built from this checkout; packages are as the index has them on that day. On disk are the files of the
packages, without the byte code that Python adds. mcp and FastMCP always bring what HTTP needs, which is an extra here.
`--peer REQUIREMENT` adds another library, such as `mcp==2.3.0`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Final

from report import Peer, progress, show

ROOT: Final = Path(__file__).parents[1]
COUNT: Final = """
import json
from importlib.metadata import distributions
found = [each for each in distributions() if each.name not in ("pip", "setuptools")]
files = [file.locate() for each in found for file in each.files or () if file.suffix != ".pyc"]
print(json.dumps([len(found), sum(file.stat().st_size for file in files if file.is_file())]))
"""


def pip(python: Path | str, *arguments: str) -> None:
    """Run pip of an interpreter; raise if it fails."""
    command = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True, stdout=sys.stderr)


def measure(peer: Peer, requirement: str, folder: Path) -> None:
    """Download and install a requirement, and count what came."""
    wheels = folder / "wheels"
    pip(sys.executable, "download", "--dest", str(wheels), requirement)
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    pip(python, "install", "--no-compile", "--no-index", "--find-links", str(wheels), requirement)
    counted = subprocess.run([python, "-c", COUNT], check=True, capture_output=True, text=True).stdout
    packages, size = json.loads(counted)
    peer.add("packages", packages)
    peer.add("download MB", sum(path.stat().st_size for path in wheels.iterdir()) / 1e6)
    peer.add("on disk MB", size / 1e6)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", action="append", default=[], help="the requirement of another library")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
        [wheel] = folder.glob("*.whl")
        requirements = {"pydantic": "pydantic", "mcprev": str(wheel), "mcprev[http]": f"{wheel}[http]"}
        requirements |= {peer.replace("==", " "): peer for peer in options.peer}
        peers = [Peer(name, []) for name in requirements]
        for number, (peer, requirement) in enumerate(zip(peers, requirements.values(), strict=True), 1):
            measure(peer, requirement, folder / str(number))
            progress(number, len(peers))
    show(peers)


if __name__ == "__main__":
    main()
