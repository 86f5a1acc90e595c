"""A network is asked about images, and its answers are repaired as its predictions would be."""

import base64
import io
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from calibrant import InputError, fit
from calibrant.calibrators import (
    Calibrator,
    HistogramBinning,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
)
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.predictions import Predictions
from calibrant.web.app import create_app
from calibrant.web.limits import Limits, ModelSettings
from calibrant.web.predicting import Model
from calibrant.web.uploads import Upload
from calibrant_lab.data import Geometry, Preparation, load
from calibrant_lab.data.table import to_unit
from calibrant_lab.training import Recipe, Run, train
from calibrant_lab.training.data import split_as
from calibrant_lab.web.classifier import Classifier, Seen, refits
from calibrant_lab.web.model import ORDERS, class_names_of, load_classifier
from web_client import SMALL, Client, Here


class Colours(nn.Module):
    """Three maps, and logits that are their means: how red, green and blue an image is."""

    def __init__(self) -> None:
        super().__init__()
        self.maps = nn.Conv2d(3, 3, 1, bias=False)
        self.maps.weight.data = torch.eye(3).reshape(3, 3, 1, 1) * 4

    def forward(self, images: Tensor) -> Tensor:
        return self.maps(images).mean(dim=(2, 3))


def picture(colour: tuple[int, int, int] = (255, 0, 0), size: tuple[int, int] = (16, 16)) -> Image.Image:
    """An image of one colour whose left half is black."""
    image = Image.new("RGB", size, colour)
    image.paste((0, 0, 0), (0, 0, size[0] // 2, size[1]))
    return image


def png(image: Image.Image, form: str = "PNG") -> bytes:
    content = io.BytesIO()
    image.save(content, format=form)
    return content.getvalue()


def rows(*, multilabel: bool = False, seed: int = 0) -> Predictions:
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(300, 3))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(1)
    names = ["red", "green", "blue"]
    if multilabel:
        labels = (rng.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(int)
    return Predictions(logits=3 * logits, labels=labels, class_names=names)


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    """One that knows colours, with a calibrator and its refits."""
    given = rows()
    calibrator = TemperatureScaling().fit(given.scores, given.labels)
    seen = Seen(
        network=Colours().eval(), geometry=Geometry(size=8), preparation=Preparation.none(3), channels=3
    )
    return Classifier(
        name="colours",
        seen=seen,
        columns=None,
        class_names=("red", "green", "blue"),
        multilabel=False,
        calibrator=calibrator,
        refits=refits(calibrator, given, number=25),
        prevalence=(0.2, 0.3, 0.5),
        num_calibration=300,
        notice=None,
    )


class Asked(Here):
    """Computes with a classifier as first argument, as the processes of a network do."""

    def __init__(self, classifier: Classifier) -> None:
        self._classifier = classifier

    def run(self, function: Any, *args: Any) -> Any:
        return super().run(function, self._classifier, *args)


@pytest.fixture(scope="module")
def asked(classifier: Classifier) -> Client:
    model = Model(Asked(classifier), classifier.described(lambda *_: None))
    return Client(create_app(Here(), model=model, limits=replace(SMALL, pixels=10_000)))


def test_probabilities_are_those_of_network_and_calibrator(asked, classifier) -> None:
    """Raw is the softmax of the logits, calibrated what the calibrator makes of them, inside its interval."""
    answer = asked.post("/predict", files={"file": ("red.png", png(picture()))})
    (found,) = answer.json()["predictions"]
    logits = torch.tensor([[2.0, 0.0, 0.0]])  # half of the image is red, times four
    raw, calibrated = logits.softmax(1)[0], classifier.calibrator.predict_proba(logits)[0]
    assert [row["name"] for row in found["classes"]] == ["red", "green", "blue"]
    assert [row["raw"] for row in found["classes"]] == pytest.approx(raw.tolist(), rel=1e-5)
    assert [row["calibrated"] for row in found["classes"]] == pytest.approx(calibrated.tolist(), rel=1e-5)
    assert found["classes"][0]["calibrated"] < found["classes"][0]["raw"]
    for row, prevalence in zip(found["classes"], (0.2, 0.3, 0.5), strict=True):
        assert row["low"] < row["calibrated"] < row["high"]
        assert row["prevalence"] == prevalence


def test_a_batch_is_each_alone(asked) -> None:
    """Several images get the answers that each gets alone, and a wrong one among them only its sentence."""
    wide = png(picture((0, 0, 255), (40, 20)), "JPEG")
    contents = {"red.png": png(picture()), "no.png": b"GIF89a, or so it says", "wide.jpg": wide}
    files = [("file", each) for each in contents.items()]
    together = asked.post("/predict", files=files).json()["predictions"]
    alone = [asked.post("/predict", files=[file]).json() for file in files]
    assert "classes" in together[0]
    assert together[0]["classes"] == alone[0]["predictions"][0]["classes"]
    assert together[2]["classes"] == alone[2]["predictions"][0]["classes"]
    assert together[1] == {"name": "no.png", "error": alone[1]["error"]}
    assert (together[2]["width"], together[2]["height"]) == (40, 20)


def test_the_map_is_bright_where_the_class_is(asked) -> None:
    """Of an image whose right half is red, red is seen on the right; green is nowhere, which is said."""
    given = {"file": ("red.png", png(picture()))}
    (found,) = asked.post("/predict", files=given, data={"map": "likeliest"}).json()["predictions"]
    assert found["map_of"] == "red"
    seen = Image.open(io.BytesIO(base64.b64decode(found["map"].partition(",")[2])))
    opacity = np.asarray(seen)[:, :, 3]
    assert opacity.shape == (8, 8)
    assert opacity[:, 6].min() > 200
    assert opacity[:, 1].max() == 0
    (other,) = asked.post("/predict", files=given, data={"map": "green"}).json()["predictions"]
    assert (other["map_of"], other["map_empty"], found["map_empty"]) == ("green", True, False)
    wrong = asked.post("/predict", files=given, data={"map": "gren"})
    assert (wrong.status_code, "did you mean 'green'" in wrong.json()["error"]) == (422, True)


class Redness(Colours):
    """One logit: how red an image is."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images)[:, :1] - 1


def test_one_output_has_the_map_of_the_second_class(classifier) -> None:
    seen = replace(classifier.seen, network=Redness().eval())
    bare = dict.fromkeys(("calibrator", "refits", "prevalence"))
    alone = replace(classifier, seen=seen, class_names=("other", "red"), **bare)
    file = Upload("red.png", png(picture()))
    found = {name: alone.with_map(file, name, Limits(), lambda *_: None) for name in ("other", "red")}
    assert (found["red"]["map_of"], found["red"]["map_empty"]) == ("red", False)
    assert found["other"]["map_error"] == "this network has one output, whose map is that of red."


def test_the_event_of_a_calibrator_may_be_class_0(tmp_path) -> None:
    """The classes keep the order of the network's outputs, with intervals on their own side."""
    odds = np.random.default_rng(0).normal(size=300)
    labels = (odds + np.random.default_rng(1).logistic(size=300) > 0).astype(int)
    given = Predictions(logits=2 * odds, labels=labels, class_names=["other", "red"], positive_class=0)
    calibrator = fit(given, method="platt", every_row=True)
    assert isinstance(calibrator, Calibrator)
    calibrator.save(tmp_path / "c.safetensors")
    given.as_binary("red").save(tmp_path / "event.npz")
    files = {"predictions": tmp_path / "event.npz", "calibrator": tmp_path / "c.safetensors"}
    found = load_classifier(saved(tmp_path, **files, model=f"{__name__}:Redness", resamples=25))
    (answer,) = found.predictions([Upload("red.png", png(picture()))], Limits(), lambda *_: None)
    assert isinstance(answer, dict)
    right = float(calibrator.predict_proba([-1.0]))
    rows_of = {row["name"]: row for row in answer["classes"]}
    assert rows_of["red"]["raw"] == pytest.approx(1 / (1 + np.exp(-1)), rel=1e-5)
    assert [rows_of[name]["calibrated"] for name in ("other", "red")] == pytest.approx([right, 1 - right])
    for row in rows_of.values():
        assert row["low"] < row["calibrated"] < row["high"]


def bomb(width: int, height: int) -> bytes:
    """The start of a PNG file that says that it has so many pixels."""
    content = bytearray(png(picture()))
    content[16:24] = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    content[29:33] = zlib.crc32(content[12:29]).to_bytes(4, "big")
    return bytes(content)


IMAGES: dict[str, tuple[bytes, int, str]] = {
    "empty": (b"", 422, "empty"),
    "text": (b"hello", 422, "not an image"),
    "svg": (b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", 422, "not an image"),
    "pdf": (b"%PDF-1.7\n%", 422, "not an image"),
    "postscript": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", 422, "not an image"),
    "cut": (png(picture())[:50], 422, "x.png:"),
    "cut jpeg": (png(picture(size=(90, 90)), "JPEG")[:200], 422, "damaged"),
    "bomb": (bomb(60_000, 60_000), 413, "10,000 pixels"),
    "gigantic": (bomb(2**31 - 1, 2**31 - 1), 413, "10,000 pixels"),
    "no pixels": (bomb(0, 5), 422, "x.png:"),
}


@pytest.mark.parametrize("name", IMAGES)
def test_hostile_images(name, asked) -> None:
    """What is no image, is damaged, or would fill the memory is refused in one sentence."""
    content, status, said = IMAGES[name]
    answer = asked.post("/predict", files={"file": ("x.png", content)})
    assert said in answer.json()["error"]
    assert answer.status_code == status


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "I;16", "F"])
def test_kinds_of_images(mode, asked) -> None:
    """Images of every mode are looked at; grey and colour are told apart by the image."""
    image = picture().convert("L" if mode in {"I;16", "F"} else mode)
    image = image.convert("I").point(lambda value: 256 * value) if mode == "I;16" else image
    form = {"CMYK": "JPEG", "F": "TIFF"}.get(mode, "PNG")  # the content says what it is
    answer = asked.post("/predict", files={"file": ("x.png", png(image.convert(mode), form))})
    assert "classes" in answer.json()["predictions"][0]


def test_the_example_of_openapi(asked) -> None:
    """The example of ``/predict`` is an image, and is answered with the keys that the description shows."""
    described = asked.get("/openapi.json").json()["paths"]["/predict"]["post"]
    file = described["requestBody"]["content"]["multipart/form-data"]["example"]["file"]
    answer = asked.post("/predict", files={"file": (file["name"], base64.b64decode(file["content"]))})
    (expected,) = described["responses"]["200"]["content"]["application/json"]["example"]["predictions"]
    (found,) = answer.json()["predictions"]
    assert found["name"] == expected["name"]
    assert set(found["classes"][0]) == set(expected["classes"][0])


def test_without_a_network(client) -> None:
    answer = client.post("/predict", files={"file": ("x.png", png(picture()))})
    assert (answer.status_code, "--model" in answer.json()["error"]) == (404, True)


def saved(folder: Path, **changes: Any) -> ModelSettings:
    rows(multilabel=bool(changes.get("multilabel"))).save(folder / "p.npz")
    given = {"model": f"{__name__}:Colours", "predictions": folder / "p.npz", "size": 8, "resamples": 0}
    return ModelSettings(**given | changes)


@pytest.mark.parametrize(("multilabel", "method"), [(False, "temperature"), (True, "platt")])
def test_the_calibrator_comes_from_predictions(tmp_path, multilabel, method) -> None:
    """Without a file of a calibrator one is fitted on the predictions, which say how often classes occur."""
    found = load_classifier(saved(tmp_path, multilabel=multilabel))
    assert found.calibrator.name == method
    assert found.multilabel == multilabel
    assert found.num_calibration == 300
    labels = np.asarray(rows(multilabel=multilabel).labels)
    shares = labels.mean(0) if multilabel else np.bincount(labels) / 300
    assert found.prevalence == pytest.approx(tuple(shares))


def test_classes_are_matched_by_name(tmp_path) -> None:
    given = rows()
    calibrator = VectorScaling().fit(given.scores, given.labels)
    calibrator.class_names_ = ("Blue", "red", "green")
    calibrator.save(tmp_path / "c.safetensors")
    names = ("red", "green", "blue")
    settings = saved(tmp_path, predictions=None, calibrator=tmp_path / "c.safetensors", class_names=names)
    found = load_classifier(settings)
    (answer,) = found.predictions([Upload("red.png", png(picture()))], Limits(), lambda *_: None)
    assert isinstance(answer, dict)
    assert [row["name"] for row in answer["classes"]] == ["Blue", "red", "green"]
    assert max(answer["classes"], key=lambda row: row["raw"])["name"] == "red"
    mapped = found.with_map(Upload("red.png", png(picture())), "red", Limits(), lambda *_: None)
    assert mapped["map_of"] == "red"
    with pytest.raises(InputError, match="must hold the calibrator's class 'Blue'"):
        load_classifier(replace(settings, class_names=("red", "green", "yellow")))


def test_what_does_not_fit_is_said_before_the_server_listens(tmp_path) -> None:
    for changes, said in (
        ({"channels": 1}, "the network takes no images of this size"),
        ({"predictions": None}, "--class-names must say"),
        ({"ten_crop": True}, "--ten-crop needs --crop"),
        ({"model": f"{__name__}:Colour"}, "no function 'Colour'"),
    ):
        with pytest.raises(InputError, match=said):
            load_classifier(saved(tmp_path, **changes))


def pooled(input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """A network that takes images of any size."""
    maps = nn.Conv2d(input_shape[0], 8, 3, padding=1)
    return nn.Sequential(maps, nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, num_classes))


def a_run(folder: Path, model: str = f"{__name__}:pooled", **data: Any) -> Run:
    """A short training on digits of 8 × 8 pixels, unless other data are named."""
    content = {
        "model": model,
        "data": {"name": "digits", "train": 300, "calibration": 50} | data,
        "training": {"epochs": 1, "batch_size": 50},
        "hardware": {"accelerator": "cpu", "threads": 1},
    }
    return train(Recipe.read(content), folder, report=False)


@pytest.mark.parametrize("downsample", [1, 2])
def test_a_run_sees_images_as_in_its_training(tmp_path, downsample) -> None:
    """An upload is scaled to that size and averaged in the same way; larger digits give the same answers."""
    run = a_run(tmp_path / "run", downsample=downsample)
    found = load_classifier(ModelSettings(model=str(tmp_path / "run"), resamples=0))
    raw = split_as(run.recipe.data.model_copy(update={"downsample": 1}), load("digits")).test
    pixels = raw.inputs[torch.arange(30)]
    expected = run.predictions.test.probs[:30]
    for scale in (1, 4):
        large = pixels.repeat_interleave(scale, 2).repeat_interleave(scale, 3)
        shown = (255 * to_unit(large)).round().byte().numpy()[:, 0]
        files = [Upload(f"{k}.png", png(Image.fromarray(each))) for k, each in enumerate(shown)]
        answers = found.predictions(files, Limits(), lambda *_: None)
        given = torch.tensor([[row["raw"] for row in each["classes"]] for each in answers])
        torch.testing.assert_close(given, expected.float(), rtol=0, atol=0.01 if scale == 1 else 0.1)


def test_a_run_that_cannot_be_served_says_so(tmp_path, rng) -> None:
    path = tmp_path / "d.npz"
    for shape, model in (((300, 6), "mlp"), ((300, 6, 6), f"{__name__}:pooled")):
        np.savez(path, x_train=rng.normal(size=shape).astype(np.float32), y_train=np.arange(300) % 3)
        run = a_run(tmp_path / model[-4:], model, name=str(path), train=150)
        settings = ModelSettings(model=str(run.folder.path), resamples=0)
        with pytest.raises(InputError, match="was not trained on images with values in"):
            load_classifier(settings)
    for name, value in (("size", 8), ("channels", 1), ("mean", (0.5,)), ("ten_crop", True)):
        with pytest.raises(InputError, match=f"--{name.replace('_', '-')} is not for a run"):
            load_classifier(replace(settings, **{name: value}))


def test_ten_crops_are_averaged(tmp_path) -> None:
    file = Upload("x.png", png(picture(size=(9, 9))))
    networks = (load_classifier(saved(tmp_path, size=9, crop=4, ten_crop=ten)) for ten in (True, False))
    (ten,), (one,) = (each.predictions([file], Limits(), lambda *_: None) for each in networks)
    assert isinstance(ten, dict)
    assert isinstance(one, dict)
    image = torch.from_numpy(np.array(picture(size=(9, 9)))).permute(2, 0, 1)[None] / 255
    crops = [image[:, :, top : top + 4, left : left + 4] for top in (0, 5) for left in (0, 5)]
    crops.append(image[:, :, 2:6, 2:6])
    probs = torch.stack([Colours()(crop).softmax(1)[0] for crop in crops]).mean(0)
    assert [row["raw"] for row in ten["classes"]] == pytest.approx(probs.tolist(), abs=1e-5)
    assert ten["classes"][0]["raw"] != pytest.approx(one["classes"][0]["raw"], abs=1e-3)


def test_refits_of_patients_are_wider() -> None:
    logits, labels = rows().scores[:30], rows().labels[:30]
    copies = torch.arange(30).repeat_interleave(8)
    calibrator = TemperatureScaling().fit(logits, labels)
    widths: list[float] = []
    for clusters in (None, copies.tolist()):
        given = Predictions(logits=logits[copies], labels=labels[copies], clusters=clusters)
        spread = refits(calibrator, given, number=40)
        low, high = spread.interval(logits[:1])
        widths.append(float((high - low).max()))
    assert widths[1] > 1.5 * widths[0]


@pytest.mark.parametrize("kind", ["multiclass", "multilabel", "binary"])
def test_intervals_are_those_of_each_refit(kind) -> None:
    given = rows(multilabel=kind == "multilabel")
    scores, labels = given.scores[:60], torch.as_tensor(given.labels)[:60]
    if kind == "binary":
        scores, labels = scores[:, 0], labels == 0
    form = Predictions(logits=scores, labels=labels.long())
    scaling = TemperatureScaling() if kind == "multiclass" else PlattScaling()
    other = VectorScaling() if kind == "multiclass" else HistogramBinning()
    for calibrator in (scaling, other):
        spread = refits(fit_quietly(calibrator, Labelled.of(form)), form, number=4)
        found = torch.stack([torch.as_tensor(each.predict_proba(scores[:7])) for each in spread.calibrators])
        expected = torch.quantile(found, torch.tensor([0.025, 0.975], dtype=torch.float64), dim=0)
        assert torch.allclose(torch.stack(spread.interval(scores[:7])), expected, rtol=0, atol=1e-12)
        assert (spread._maps is None) == (calibrator is other)


def test_orders_of_findings() -> None:
    """CheXNet's fourteen findings are ChestX-ray14's in another order; TorchXRayVision has all of them."""
    assert sorted(ORDERS["chexnet"]) == sorted(ORDERS["chestxray14"])
    assert ORDERS["chexnet"] != ORDERS["chestxray14"]
    assert set(ORDERS["chestxray14"]) < set(ORDERS["torchxrayvision"])
    assert class_names_of("CheXNet") == ORDERS["chexnet"]
    with pytest.raises(InputError, match="one of chexnet, torchxrayvision, chestxray14; got 'cat'"):
        class_names_of("cat")
    with pytest.raises(InputError, match="must differ; got 'cat' twice"):
        class_names_of("cat, dog, cat")
