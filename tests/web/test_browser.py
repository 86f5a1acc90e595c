"""The page in a headless Chromium: what a visitor does, and what they see."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from calibrant.predictions import Predictions
from chromium import CHROMIUM, Browser, axe_source

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"),
]
WIDTHS = [(1280, False), (390, True)]
NETWORK = """
import torch
from torch import nn


def colours():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 3, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
"""
HOSTILE_NAME = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network, its predictions, whose names of classes are hostile, and an image."""
    made = tmp_path_factory.mktemp("page")
    (made / "own_network.py").write_text(NETWORK, encoding="utf-8")
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(300, 3))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(1)
    names = ["Pneumonia", HOSTILE_NAME, "none"]
    Predictions(logits=3 * logits, labels=labels, class_names=names).save(made / "p.npz")
    Image.fromarray(rng.integers(0, 255, (40, 60, 3), dtype=np.uint8)).save(made / "image.png")
    risks = 1 / (1 + np.exp(-logits[:, 0]))
    (made / "new.csv").write_text("id,risk\n1,0.25\n2,0.75\n", encoding="utf-8")
    rows = [f"{int(risk > cut)},{risk**3},{risk}" for risk, cut in zip(risks, rng.random(300), strict=True)]
    (made / "own.csv").write_text("\n".join(["died,risk,age", *rows]) + "\n", encoding="utf-8")
    (made / "wrong.csv").write_text("label,prob\n0,7\n1,-3\n", encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """Of a server that shows images to the network."""
    options = ["--port", "0", "--model", "own_network:colours", "--predictions", "p.npz", "--size", "16"]
    server = subprocess.Popen(
        [sys.executable, "-m", "calibrant", "serve", *options],
        cwd=folder,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        line = server.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line
        yield found[0]
    finally:
        server.terminate()
        server.wait(30)
        server.stdout.close()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    found = Browser(tmp_path)
    yield found
    found.close()


def check_page(browser: Browser, address: str) -> None:
    """Nothing is wider than the screen, complains, or comes from elsewhere; no script of a visitor ran."""
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    refused = "the server responded with a status of 4"
    assert [each for each in browser.complaints() if refused not in each] == []
    own = (address, "data:image/png", "blob:", "about:")
    assert [each for each in browser.addresses() if not each.startswith(own)] == []
    assert not [each for each in browser.said if each.get("method") == "Page.javascriptDialogOpening"]


@pytest.mark.parametrize(("width", "dark"), WIDTHS)
def test_predictions(width, dark, browser, address, folder) -> None:
    """A file that is chosen shows its report with downloads, a wrong one its sentence, two a comparison."""
    browser.show(address + "#predictions", width=width, dark=dark)
    browser.wait("document.getElementById('version').textContent")
    browser.choose("#predictions-files", folder / "p.npz")
    browser.wait("!document.getElementById('status').hidden")
    browser.wait("document.getElementById('report').clientHeight > 1000")
    report = "document.getElementById('report').contentDocument"
    assert "Overconfident" in browser.run(f"{report}.querySelector('h1').textContent")
    assert browser.run(f"{report}.querySelectorAll('script, img').length") == 0
    assert browser.run(f"{report}.documentElement.scrollWidth <= {report}.documentElement.clientWidth")
    links = browser.run("[...document.querySelectorAll('#downloads a')].map((link) => link.download)")
    assert links == ["p.html", "p.json", "temperature.safetensors"]
    assert browser.run("document.querySelectorAll('#downloads a')[2].href.startsWith('blob:')")
    assert browser.run("document.getElementById('status').hidden")
    assert browser.run("document.activeElement.id") == "result-title"
    browser.choose("#predictions-files", folder / "wrong.csv")
    browser.wait("!document.getElementById('error').hidden")
    assert browser.run("document.getElementById('error').textContent").startswith("wrong.csv: ")
    assert browser.run("document.getElementById('result').hidden")
    browser.choose("#predictions-files", folder / "p.npz", folder / "p.npz")
    browser.wait("!document.getElementById('result').hidden")
    check_page(browser, address)


def test_columns_are_chosen_and_the_file_is_judged_again(browser, address, folder) -> None:
    """An error names fields of the page; their lists hold the columns, and a change judges again."""
    browser.show(address + "#predictions")
    browser.wait("document.getElementById('version').textContent")
    browser.choose("#predictions-files", folder / "own.csv")
    browser.wait("!document.getElementById('error').hidden")
    said = browser.run("document.getElementById('error').textContent")
    assert ("“Label column” (under Options)" in said, "--" in said) == (True, False)
    assert browser.run("document.getElementById('options').open")
    assert browser.run("document.activeElement.name") == "label_column"
    listed = "[...document.getElementById('columns').options].map((each) => each.value)"
    assert browser.run(listed) == ["died", "risk", "age"]
    fill = (
        "(([name, text]) => {{ const field = document.querySelector(`[name=${{name}}]`); field.value = text;"
        " field.dispatchEvent(new Event('input')); field.dispatchEvent(new Event('change')); }})({})"
    )
    browser.run(fill.format('["label_column", "died"]'))
    browser.run(fill.format('["prob_columns", "risk"]'))
    browser.wait("!document.getElementById('result').hidden")
    assert browser.run("document.getElementById('error').hidden")
    browser.run("document.getElementById('apply').open = true")
    browser.choose("#apply-file", folder / "new.csv")
    browser.wait("document.querySelector('#applied a')")
    assert browser.run("document.querySelector('#applied a').download") == "new-calibrated.csv"
    assert browser.run("document.getElementById('apply-error').hidden")
    browser.run("document.querySelector('[name=group_column]').value = 'died, '")
    browser.run("document.querySelector('[name=group_column]').dispatchEvent(new Event('input'))")
    assert browser.run(listed)[1] == "died,risk"
    check_page(browser, address)


@pytest.mark.parametrize(("width", "dark"), WIDTHS)
def test_image(width, dark, browser, address, folder) -> None:
    """An image shows probabilities and a map; threshold, band, opacity and class do what they say."""
    browser.show(address, width=width, dark=dark)
    browser.wait("document.getElementById('image-file')")
    assert browser.run("document.querySelector('.notice').textContent").startswith("Not for clinical use")
    browser.choose("#image-file", folder / "image.png")
    browser.wait("!document.getElementById('image-result').hidden")
    browser.wait("document.getElementById('image-map').naturalWidth")
    rows = browser.run(
        "[...document.querySelectorAll('#image-table tbody tr')].map((row) => row.cells[0].textContent)"
    )
    assert set(rows) == {"Pneumonia", HOSTILE_NAME, "none"}
    move = "((input, value) => { input.value = value; input.dispatchEvent(new Event('input')); })"
    browser.run(f"{move}(document.getElementById('image-threshold'), 100)")
    assert browser.run("document.getElementById('image-answer').textContent").startswith("Not answered")
    browser.run(f"{move}(document.getElementById('image-threshold'), 10)")
    assert not browser.run("document.getElementById('image-answer').textContent").startswith("Not answered")
    browser.run(f"{move}(document.getElementById('image-opacity'), 20)")
    assert browser.run("document.getElementById('image-map').style.opacity") == "0.2"
    browser.run(
        "((choice) => { choice.value = 'none'; choice.dispatchEvent(new Event('change')); })"
        "(document.getElementById('image-class'))"
    )
    browser.wait("document.getElementById('image-map').alt === 'Where it sees none'")
    browser.run("document.querySelector('th.calibrated button').focus()")
    assert browser.run("document.getElementById('image-meaning').textContent").startswith("Calibrated:")
    browser.choose("#image-file", folder / "wrong.csv")
    browser.wait("!document.getElementById('image-error').hidden")
    assert "not an image" in browser.run("document.getElementById('image-error').textContent")
    check_page(browser, address)


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = axe_source(tmp_path_factory.mktemp("axe"))
    return found or pytest.skip("axe-core is not installed, and npm cannot fetch it")


@pytest.mark.parametrize(("width", "dark"), WIDTHS)
def test_nothing_keeps_people_out(width, dark, browser, address, folder, axe) -> None:
    """axe-core finds nothing on either view, before and after an answer, in light and dark."""

    def check(what: str) -> None:
        browser.run(axe)
        found = browser.run(
            "axe.run(document, {iframes: false}).then((found) => found.violations.map("
            "(each) => [each.id, each.impact, each.nodes.map((node) => node.html)]))"
        )
        assert found == [], what

    browser.show(address, width=width, dark=dark)
    browser.wait("document.getElementById('image-file')")
    check("the view of images")
    browser.choose("#image-file", folder / "image.png")
    browser.wait("document.getElementById('image-map')?.naturalWidth")
    check("an answer")
    browser.choose("#image-file", folder / "wrong.csv")
    browser.wait("!document.getElementById('image-error').hidden")
    check("an error")
    browser.run("location.hash = '#predictions'")
    browser.wait("!document.getElementById('predictions').hidden")
    browser.run("document.querySelector('details').open = true")
    check("the view of predictions")
    browser.choose("#predictions-files", folder / "p.npz")
    browser.wait("!document.getElementById('status').hidden")
    check("progress")
    browser.wait("!document.getElementById('result').hidden")
    check("a report")


def test_keyboard(browser, address) -> None:
    """The tab key reaches everything, in the order of the page, and every control has a name."""
    browser.show(address)
    browser.wait("document.getElementById('image-file')")
    reached: list[str] = []
    for _ in range(4):
        for kind in ("keyDown", "keyUp"):
            browser.send("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        reached.append(browser.run("((each) => each.id || each.textContent.trim())(document.activeElement)"))
    assert reached == ["Skip to the content", "Predictions", "Image", "image-file"]
    tree = browser.send("Accessibility.getFullAXTree")["nodes"]
    controls = {"button", "link", "textbox", "spinbutton", "slider", "combobox"}
    nameless = [
        each["role"]["value"]
        for each in tree
        if each.get("role", {}).get("value") in controls and not each.get("name", {}).get("value")
    ]
    assert nameless == []
