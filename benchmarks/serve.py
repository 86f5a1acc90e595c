"""What ``calibrant serve`` bears: many visitors at once, and files that mean harm.

Run: ``python benchmarks/serve.py``, some minutes; ``--requests`` and ``--hostile`` set how much is sent.
200 visitors ask ``/predict`` at the same time, over and over, about images of 64 × 64 pixels; a network of
three layers answers. Beside it stands the same work without a server: decoding, network and calibrator on
batches of 32 in one process. Then hostile files are sent, each of which must be refused in one sentence
while the server stays as it is.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import io
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from environment import environment, write
from PIL import Image
from visitors import load

from calibrant.predictions import Predictions
from calibrant.web.limits import Limits
from calibrant.web.model import load_classifier
from calibrant.web.settings import ModelSettings
from calibrant.web.uploads import Upload

VISITORS, SIDE, BATCH = 200, 64, 32
BAR = {"lost": 0, "share_of_bare": 0.25, "grown_megabytes": 64, "hostile_not_refused": 0, "bytes_written": 0}
NETWORK = """
from torch import nn


def small():
    return nn.Sequential(nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
"""


def images(count: int) -> list[bytes]:
    """Different images as PNG files."""
    generator, found = np.random.default_rng(0), list[bytes]()
    for _ in range(count):
        content = io.BytesIO()
        pixels = generator.integers(0, 255, (SIDE, SIDE, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(content, format="png")
        found.append(content.getvalue())
    return found


def hostile(image: bytes) -> list[tuple[str, str, bytes]]:
    """A path, a name and a content for each kind of harm; none of them is a file that can be answered."""
    many = io.BytesIO()
    with zipfile.ZipFile(many, "w") as archive:
        for number in range(20_000):
            archive.writestr(f"{number}.npy", b"")
    zeros, bomb = io.BytesIO(), bytearray(image)
    np.savez_compressed(zeros, logits=np.zeros((1 << 23, 20)))  # 1.3 GB of numbers
    bomb[16:24] = (60_000).to_bytes(4, "big") * 2  # pixels; the checksum is wrong, too
    million = b"PK\x05\x06" + bytes(4) + b"\xff" * 12 + bytes(2)
    svg = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    return [
        ("/predict", "cut.png", image[: len(image) // 2]),
        ("/predict", "bomb.png", bytes(bomb)),
        ("/predict", "script.svg", svg),
        ("/predict", "page.png", b"<html><script>alert(1)</script>"),
        ("/predict", "poly.gif", b"GIF89a/*" + bytes(40) + b"*/=1;alert(1)"),
        ("/predict", "noise.jpg", b"\xff\xd8\xff" + os.urandom(4000)),
        ("/evaluate", "many.npz", many.getvalue()),
        ("/evaluate", "million.npz", million),
        ("/evaluate", "zeros.npz", zeros.getvalue()),
        ("/evaluate", "zeros.csv.gz", gzip.compress(bytes(3 << 29), 1)),
        ("/evaluate", "../../etc/cron.d/evil.csv", b"label,prob\n7,9\n"),
        ("/evaluate", "C:\\windows\\evil.csv", b"<script>alert(1)</script>"),
        ("/evaluate", "x" * 3000 + ".csv", b"a,b\n1,2\n"),
        ("/evaluate", "deep.json", b"[" * 1_000_000),
        ("/evaluate", "line.csv", b"label,prob\n" + b"1" * 10_000_000),
        ("/evaluate", "evil.pt", b"cos\nsystem\n(S'touch /tmp/ran'\ntR."),
        ("/evaluate", "head.safetensors", b"\xff" * 7 + b"\x7f{"),
        ("/evaluate", "image.exe", image),
        ("/evaluate", "empty.csv", b""),
        ("/evaluate", "cut.parquet", b"PAR1" + os.urandom(500)),
    ]


def family(process: int) -> list[int]:
    """A process and all that it started."""
    children = Path(f"/proc/{process}/task/{process}/children")
    found = [process]
    for child in children.read_text(encoding="ascii").split() if children.exists() else []:
        found += family(int(child))
    return found


def megabytes(process: int) -> float:
    """Memory of a family of processes."""
    pages = (Path(f"/proc/{each}/statm").read_text(encoding="ascii").split()[1] for each in family(process))
    return sum(map(int, pages)) * os.sysconf("SC_PAGE_SIZE") / 2**20


def written(process: int) -> int:
    """Bytes that a family of processes sent to disks."""
    texts = (Path(f"/proc/{each}/io").read_text(encoding="ascii") for each in family(process))
    return sum(int(re.findall(r"^write_bytes: (\d+)", text, re.MULTILINE)[0]) for text in texts)


def cpu_seconds(process: int) -> float:
    """What one process has used of the cores."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def loaded(address: str, server: int, files: list[bytes], requests: int) -> dict[str, Any]:
    """The visitors' answers, and what each process used of the two cores for one of them."""
    processes = family(server)
    before = {each: cpu_seconds(each) for each in processes}
    found = asyncio.run(load(address, files, requests=requests, visitors=VISITORS))
    used = [1000 * (cpu_seconds(each) - before[each]) / requests for each in processes]
    return {**found, "server_cpu_ms": used[0], "network_cpu_ms": max(used[1:]), "all_cpu_ms": sum(used)}


async def harm(address: str, count: int) -> dict[str, Any]:
    """Hostile files, twenty at a time."""
    kinds, together = hostile(images(1)[0]), asyncio.Semaphore(20)
    statuses, wrong = dict[str, int](), list[str]()
    async with httpx.AsyncClient(base_url=address, timeout=300) as client:

        async def send(number: int) -> None:
            path, name, content = kinds[number % len(kinds)]
            async with together:
                try:
                    answer = await client.post(path, files={"file": (name, content)})
                except httpx.HTTPError as error:
                    wrong.append(f"{name[:40]}: {error!r}")
                    return
            status = str(answer.status_code)
            statuses[status] = statuses.get(status, 0) + 1
            sentence = answer.json().get("error", "")
            if not 400 <= answer.status_code < 500 or not sentence or "\n" in sentence:
                wrong.append(f"{name[:40]}: {status} {answer.text[:100]}")

        await asyncio.gather(*(send(number) for number in range(count)))
        healthy = (await client.get("/health")).status_code == 200
    return {
        "sent": count,
        "kinds": len(kinds),
        "statuses": statuses,
        "not_refused": wrong,
        "healthy": healthy,
    }


def bare(folder: Path, files: list[bytes], count: int) -> float:
    """Images a second without a server: decoding, network, calibrator, intervals."""
    sys.path.insert(0, str(folder))
    settings = ModelSettings(model="own_network:small", predictions=folder / "p.npz", size=SIDE)
    classifier, limits = load_classifier(settings), Limits()
    began = time.perf_counter()
    for start in range(0, count, BATCH):
        batch = [Upload("image.png", files[number % len(files)]) for number in range(start, start + BATCH)]
        classifier.predictions(batch, limits, lambda *_: None)
    return count / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--hostile", type=int, default=500)
    parser.add_argument("--no-write", action="store_true", help="Print only.")
    given = parser.parse_args()
    files = images(64)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "own_network.py").write_text(NETWORK, encoding="utf-8")
        generator = np.random.default_rng(0)
        scores = generator.normal(size=(1000, 10))
        labels = (scores + generator.gumbel(size=scores.shape)).argmax(1)
        Predictions(logits=3 * scores, labels=labels).save(folder / "p.npz")
        network = ["--model", "own_network:small", "--predictions", "p.npz", "--size", str(SIDE)]
        server = subprocess.Popen(
            [sys.executable, "-m", "calibrant", "serve", "--port", "0", *network],
            cwd=folder,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        try:
            assert server.stdout is not None  # noqa: S101
            address = re.findall(r"http://\S+", server.stdout.readline())[0]
            print(loaded(address, server.pid, files, 400))  # until all is loaded and compiled
            asyncio.run(harm(address, 40))
            before, disk = megabytes(server.pid), written(server.pid)
            content: dict[str, Any] = {
                "environment": environment("calibrant", "fastapi", "uvicorn", "torch", "pillow"),
                "load_before": os.getloadavg()[0],
                "load": loaded(address, server.pid, files, given.requests),
                "after_load_megabytes": megabytes(server.pid) - before,
                "harm": asyncio.run(harm(address, given.hostile)),
                "grown_megabytes": megabytes(server.pid) - before,
                "bytes_written": written(server.pid) - disk,
                "bar": BAR,
            }
        finally:
            server.terminate()
            server.wait()
        content["bare_per_second"] = bare(folder, files, max(BATCH, given.requests // 4))
    print(content)
    if not given.no_write:
        print("written:", write("serve", content))


if __name__ == "__main__":
    main()
