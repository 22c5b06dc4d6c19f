#!/usr/bin/env python3
"""Makes the seeds of every fuzz target anew, by the encoders of the build given.

usage: make_corpus.py BUILD
Inputs whose name begins with `found-` stay: they are what runs found on their way.
"""

import subprocess
import sys
from pathlib import Path

from run_fuzz import CORPUS, environment, fixed_addresses, programs


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__.strip())
        return 2
    for program in programs(Path(sys.argv[1]).resolve(), []):
        if program.name.endswith("_canary"):
            continue
        folder = CORPUS / program.name
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            if not old.name.startswith("found-"):
                old.unlink()
        command = [*fixed_addresses(), str(program), f"--make-corpus={folder}"]
        subprocess.run(command, check=True, env=environment())
        sizes = [f.stat().st_size for f in folder.iterdir()]
        print(f"{program.name:<20} {len(sizes):3} files, {sum(sizes)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
