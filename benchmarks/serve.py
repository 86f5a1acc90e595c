"""What ``calibrant serve`` bears: many visitors at once, and files that mean harm.

Run: ``python benchmarks/serve.py``, some minutes; ``--requests`` and ``--hostile`` set how much is sent.
200 visitors ask ``/predict`` at the same time, over and over, about images of 64 × 64 pixels; a network of
three layers answers. Beside it stands the same work without a server: decoding, network and calibrator on
batches of 32 in one process. Visitors, server and network share two cores, so the results also say what each
of them used for one request. Then hostile files are sent, each of which must be refused in one sentence while
the server stays as it is. In the end the time from an image to its map is taken: without a server, over HTTP
and in a browser, if there is one.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from environment import environment, write
from PIL import Image
from visitors import load

from calibrant.predictions import Predictions
from calibrant.web.limits import Limits, ModelSettings
from calibrant.web.uploads import Upload
from calibrant_lab.web.model import load_classifier

VISITORS, SIDE, BATCH = 200, 64, 32
BAR = {
    "lost": 0,
    "share_of_bare": 0.25,
    "grown_megabytes": 64,
    "hostile_not_refused": 0,
    "bytes_written": 0,
    "page_seconds": 1,
}
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


MAPS, LABELS = 7, 14


def maps(folder: Path, tests: Path) -> dict[str, Any]:
    """Seconds from an upload to its map: DenseNet-121, 14 labels, 224 pixels; and until the page is there."""
    import torch

    torch.set_num_threads(1)
    generator = np.random.default_rng(0)
    labels = (generator.random((500, LABELS)) < 0.3).astype(int)
    names = [f"label {number}" for number in range(LABELS)]
    Predictions(logits=generator.normal(size=(500, LABELS)), labels=labels, class_names=names).save(
        folder / "labels.npz"
    )
    picture = Image.fromarray(generator.integers(0, 255, (512, 512, 3), dtype=np.uint8))
    picture.save(folder / "x-ray.png")
    content = (folder / "x-ray.png").read_bytes()
    options = {"model": "densenet(depth=121)", "size": 224}
    classifier = load_classifier(ModelSettings(**options, predictions=folder / "labels.npz", resamples=20))
    pixels = torch.rand(1, 3, 224, 224)

    def forward() -> None:
        with torch.no_grad():
            classifier.seen.network(pixels)

    def mapped() -> None:
        classifier.with_map(Upload("x-ray.png", content), "likeliest", Limits(), lambda *_: None)

    found: dict[str, Any] = {"network_alone": median_of(forward), "map_without_a_server": median_of(mapped)}
    with (
        serving(folder, [*_typed(options), "--predictions", "labels.npz"]) as (address, _),
        httpx.Client() as client,
    ):

        def asked() -> None:
            files = {"file": ("x-ray.png", content)}
            client.post(f"{address}predict", files=files, data={"map": "likeliest"}, timeout=60)

        found["map_over_http"] = median_of(asked)
        return found | in_browser(address, folder, tests)


def _typed(options: dict[str, Any]) -> list[str]:
    return [word for name, value in options.items() for word in (f"--{name}", str(value))]


def in_browser(address: str, folder: Path, tests: Path) -> dict[str, float]:
    """Seconds from a choice of file to the map on the screen, and to the page; nothing without Chromium."""
    sys.path.insert(0, str(tests))
    from chromium import CHROMIUM, Browser

    if CHROMIUM is None:
        return {}
    ready, shown = "document.getElementById('image-file')", "document.getElementById('image-map').complete"
    (folder / "profile").mkdir()
    browser, pages, found = Browser(folder / "profile"), list[float](), list[float]()
    try:
        for _ in range(MAPS):
            browser.show("about:blank")
            began = time.perf_counter()
            browser.send("Page.navigate", url=address)
            browser.wait(ready)
            pages.append(time.perf_counter() - began)
            began = time.perf_counter()
            browser.choose("#image-file", folder / "x-ray.png")
            browser.wait(f"document.getElementById('image-map').src && {shown}")
            found.append(time.perf_counter() - began)
    finally:
        browser.close()
    return {
        "map_on_the_page": float(np.median(found)),
        "page": float(np.median(pages)),
        "slowest_page": max(pages),
    }


def median_of(work: Callable[[], None]) -> float:
    """Seconds, the first time not counted."""
    took: list[float] = []
    for _ in range(MAPS + 1):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return float(np.median(took[1:]))


@contextmanager
def serving(folder: Path, options: list[str]) -> Iterator[tuple[str, int]]:
    """The address and the process of a server."""
    server = subprocess.Popen(
        [sys.executable, "-m", "calibrant", "serve", "--port", "0", *options],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    try:
        assert server.stdout is not None  # noqa: S101
        yield re.findall(r"http://\S+", server.stdout.readline())[0], server.pid
    finally:
        server.terminate()
        server.wait()


def bare(folder: Path, files: list[bytes], count: int) -> float:
    """Images a second without a server, on one thread or two: decoding, network, calibrator, intervals."""
    import torch

    sys.path.insert(0, str(folder))
    settings = ModelSettings(model="own_network:small", predictions=folder / "p.npz", size=SIDE)
    classifier, limits, found = load_classifier(settings), Limits(), list[float]()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        began = time.perf_counter()
        for start in range(0, count, BATCH):
            batch = [
                Upload("image.png", files[number % len(files)]) for number in range(start, start + BATCH)
            ]
            classifier.predictions(batch, limits, lambda *_: None)
        found.append(count / (time.perf_counter() - began))
    return max(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--hostile", type=int, default=500)
    parser.add_argument("--no-write", action="store_true", help="Print only.")
    given = parser.parse_args()
    files = images(64)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "own_network.py").write_text(NETWORK, encoding="utf-8")
        generator = np.random.default_rng(0)
        scores = generator.normal(size=(1000, 10))
        labels = (scores + generator.gumbel(size=scores.shape)).argmax(1)
        Predictions(logits=3 * scores, labels=labels).save(folder / "p.npz")
        network = ["--model", "own_network:small", "--predictions", "p.npz", "--size", str(SIDE)]
        content: dict[str, Any] = {
            "environment": environment("calibrant", "fastapi", "uvicorn", "httptools", "torch", "pillow"),
            "load_before": os.getloadavg()[0],
            "bare_per_second": bare(folder, files, max(BATCH, given.requests // 10)),
        }
        with serving(folder, network) as (address, server):
            print(loaded(address, server, files, 400))  # until all is loaded and compiled
            asyncio.run(harm(address, 40))
            before, disk = megabytes(server), written(server)
            content |= {
                "load": loaded(address, server, files, given.requests),
                "after_load_megabytes": megabytes(server) - before,
                "harm": asyncio.run(harm(address, given.hostile)),
                "grown_megabytes": megabytes(server) - before,
                "bytes_written": written(server) - disk,
            }
        content |= {"maps": maps(folder, Path(__file__).parents[1] / "tests"), "bar": BAR}
    print(content)
    if not given.no_write:
        print("written:", write("serve", content))


if __name__ == "__main__":
    main()
