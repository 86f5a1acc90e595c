"""One of two processes that a launcher has started: trains by several recipes, one after the other.

Run as ``launched.py RANK FOLDER PORT PORT ...``: by each ``FOLDER/*/wanted.toml`` in ``run`` beside it, each
training with a port of its own.
"""

import os
import sys
from pathlib import Path

from calibrant_lab.training import load_recipe, train
from undrawn import drawing_nothing

if __name__ == "__main__":
    rank, folder, *ports = sys.argv[1:]
    # What torchrun sets.
    os.environ |= {"RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": "0", "WORLD_SIZE": "2"}
    os.environ |= {"LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_RUN_ID": "of-two"}
    with drawing_nothing():
        for wanted, port in zip(sorted(Path(folder).glob("*/wanted.toml")), ports, strict=True):
            os.environ["MASTER_PORT"] = port
            train(load_recipe(wanted), wanted.parent / "run")
