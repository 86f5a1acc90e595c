"""Callbacks log calibration each epoch and keep the temperature: in stand-ins, and in the real libraries."""

import copy
import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import calibrant
import stand_in_trainers
from calibrant import InputError, metrics
from calibrant.calibrators import TemperatureScaling
from calibrant.integrations import hugging_face
from calibrant.integrations.hugging_face import trainer_loss
from calibrant.integrations.lightning import CalibrationCallback
from calibrant.losses import FocalLoss

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries, and of fits to few samples

ERRORS = {
    "ece": metrics.expected_calibration_error,
    "smce": metrics.smooth_calibration_error,
    "nll": metrics.negative_log_likelihood,
}


def drawn(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Features, and classes whose logits are the first three of them."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 4, generator=generator)
    return inputs, torch.multinomial(inputs[:, :3].softmax(dim=1), 1, generator=generator)[:, 0]


def expected(prefix: str, logits: Tensor, labels: Tensor, calibrator: Any) -> dict[str, float]:
    probs = {"before": logits.double().softmax(dim=1), "after": calibrator.predict_proba(logits)}
    found = {
        f"{prefix}/{when}/{name}": float(error(of, labels))
        for when, of in probs.items()
        for name, error in ERRORS.items()
    }
    return found | {f"{prefix}/temperature": float(calibrator.temperature)}


def plain(metrics_: dict[str, Any], prefix: str) -> dict[str, float]:
    return {name: float(value) for name, value in metrics_.items() if name.startswith(prefix)}


@pytest.fixture(params=["stand-in", "real"])
def lightning(request: pytest.FixtureRequest) -> ModuleType:
    return stand_in_trainers.lightning() if request.param == "stand-in" else pytest.importorskip("lightning")


VALIDATION, TEST = drawn(300, 1), drawn(200, 2)


def lightning_run(
    lightning: Any, folder: Path, *callbacks: Any, returned: Callable[[Tensor, Tensor], Any] | None = None
) -> tuple[Any, Any]:
    """A trainer and a module whose logits are too large, after two epochs."""

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 3)

        def training_step(self, batch: Any, _number: int) -> Tensor:
            return nn.functional.cross_entropy(self.linear(batch[0]), batch[1])

        def validation_step(self, batch: Any, _number: int) -> Any:
            logits = 5 * self.linear(batch[0])
            return {"logits": logits, "labels": batch[1]} if returned is None else returned(logits, batch[1])

        test_step = validation_step

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), lr=0.05)

    torch.manual_seed(0)
    module = Module()
    trainer = lightning.Trainer(
        max_epochs=2, callbacks=list(callbacks), logger=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=folder, accelerator="cpu", devices=1,
    )  # fmt: skip
    trainer.fit(module, loader(drawn(200, 0)), loader(VALIDATION))
    return trainer, module


def loader(samples: tuple[Tensor, Tensor]) -> Any:
    return DataLoader(TensorDataset(*samples), batch_size=70)


def test_lightning_logs_and_keeps(lightning: Any, tmp_path: Path) -> None:
    calibration = CalibrationCallback()
    trainer, module = lightning_run(lightning, tmp_path, calibration)
    logits = 5 * module.linear(VALIDATION[0]).detach()
    assert calibration.calibrator is not None
    assert calibration.calibrator.temperature == TemperatureScaling().fit(logits, VALIDATION[1]).temperature
    logged = plain(trainer.callback_metrics, "calibration/")
    assert logged == pytest.approx(
        expected("calibration", logits, VALIDATION[1], calibration.calibrator), rel=1e-5
    )
    assert logged["calibration/after/nll"] < logged["calibration/before/nll"]

    trainer.save_checkpoint(tmp_path / "kept.ckpt")
    kept = torch.load(tmp_path / "kept.ckpt", weights_only=True)["callbacks"]["CalibrationCallback"]
    again = TemperatureScaling()
    again.load_state_dict(kept)
    assert torch.equal(again.predict_proba(logits), calibration.calibrator.predict_proba(logits))

    calibration.calibrator = TemperatureScaling().fit(logits[:9], VALIDATION[1][:9])
    trainer.test(module, loader(TEST), ckpt_path=str(tmp_path / "kept.ckpt"), verbose=False)
    logits = 5 * module.linear(TEST[0]).detach()
    assert plain(trainer.callback_metrics, "test_") == pytest.approx(
        expected("test_calibration", logits, TEST[1], again), rel=1e-5
    )


def test_lightning_steps_that_return_too_little(lightning: Any, tmp_path: Path) -> None:
    """A validation step is asked for both; logits that are NaN give NaN, and no temperature."""
    for returned, got in (
        (lambda _logits, _labels: None, "got NoneType"),
        (lambda z, _: {"logits": z}, "logits"),
    ):
        with pytest.raises(InputError, match=rf"`validation_step` must return .*{got}"):
            lightning_run(lightning, tmp_path, CalibrationCallback(), returned=returned)
    calibration = CalibrationCallback(prefix="c")
    trainer, _ = lightning_run(
        lightning, tmp_path, calibration, returned=lambda z, y: {"logits": z * math.nan, "labels": y}
    )
    logged = plain(trainer.callback_metrics, "c/")
    assert set(logged) == {f"c/{when}/{name}" for when in ("before", "after") for name in ERRORS}
    assert all(map(math.isnan, logged.values()))
    assert calibration.calibrator is None
    assert calibration.state_dict() == {}


def test_lightning_chooses_the_best_checkpoint(tmp_path: Path) -> None:
    """``ModelCheckpoint`` monitors a metric of the callback; the best has the temperature of its epoch."""
    lightning = pytest.importorskip("lightning")
    from lightning.pytorch.callbacks import ModelCheckpoint

    calibration = CalibrationCallback()
    best = ModelCheckpoint(tmp_path, monitor="calibration/before/nll", mode="max", save_top_k=1)
    trainer, module = lightning_run(lightning, tmp_path, best, calibration)
    last = copy.deepcopy(calibration.calibrator)
    trainer.validate(module, loader(VALIDATION), ckpt_path="best", verbose=False)
    logits = 5 * module.linear(VALIDATION[0]).detach()
    assert calibration.calibrator is not None
    assert last is not None
    assert calibration.calibrator.temperature == TemperatureScaling().fit(logits, VALIDATION[1]).temperature
    assert (calibration.calibrator.temperature != last.temperature) == ("epoch=0" in best.best_model_path)


class Scores(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(5.0))

    def forward(self, inputs: Tensor, labels: Tensor | None = None) -> Any:
        """Three logits from four features; the loss is another's."""
        del labels
        return {"logits": self.factor * inputs[:, :3]}


def rows(samples: tuple[Tensor, Tensor]) -> list[dict[str, Tensor]]:
    return [{"inputs": inputs, "labels": label} for inputs, label in zip(*samples, strict=True)]


@pytest.fixture(params=["stand-in", "real"])
def transformers(request: pytest.FixtureRequest) -> Any:
    """The Trainer and its arguments, or what stands in for them."""
    if request.param == "stand-in":
        return SimpleNamespace(
            Trainer=stand_in_trainers.TransformersTrainer,
            TrainingArguments=stand_in_trainers.training_arguments,
        )
    pytest.importorskip("accelerate")
    return pytest.importorskip("transformers")


def transformers_trainer(transformers: Any, folder: Path, calibration: Any, **settings: Any) -> Any:
    """A Trainer of two epochs, whose best is that with the higher log loss: the first."""
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), eval_strategy="epoch", save_strategy="epoch", num_train_epochs=2,
        learning_rate=0.5, per_device_train_batch_size=200, per_device_eval_batch_size=70, report_to=[],
        use_cpu=True, disable_tqdm=True, load_best_model_at_end=True,
        metric_for_best_model="calibration/before/nll", greater_is_better=True,
    )  # fmt: skip
    return transformers.Trainer(
        model=Scores(), args=arguments, train_dataset=rows(drawn(200, 0)), eval_dataset=rows(VALIDATION),
        compute_loss_func=trainer_loss(FocalLoss(gamma=1.0)), compute_metrics=calibration.compute_metrics,
        callbacks=[calibration],
    )  # fmt: skip


def test_transformers_log_and_keep(transformers: Any, tmp_path: Path) -> None:
    """Each checkpoint has its own temperature; that of the best model serves new samples after training."""
    calibration = hugging_face.CalibrationCallback()
    trainer = transformers_trainer(transformers, tmp_path, calibration)
    trainer.train()
    first, second = (
        calibrant.load_calibrator(tmp_path / f"checkpoint-{step}" / "calibrator.safetensors")
        for step in (1, 2)
    )
    assert trainer.state.best_model_checkpoint == str(tmp_path / "checkpoint-1")
    assert calibration.calibrator is not None
    logits = trainer.model(VALIDATION[0])["logits"].detach()
    fitted = TemperatureScaling().fit(logits, VALIDATION[1])
    assert calibration.calibrator.temperature == first.temperature == fitted.temperature
    if transformers.Trainer is not stand_in_trainers.TransformersTrainer:  # which does not learn
        assert second.temperature != first.temperature

    found = trainer.evaluate(rows(TEST), metric_key_prefix="test")
    logits = trainer.model(TEST[0])["logits"].detach()
    assert plain(found, "test_calibration") == pytest.approx(
        expected("test_calibration", logits, TEST[1], first), rel=1e-5
    )
    assert calibration.calibrator.temperature == first.temperature


def test_no_file_of_other_weights(tmp_path: Path) -> None:
    """A checkpoint without an evaluation of its own gets no temperature; nor is a folder made."""
    calibration = hugging_face.CalibrationCallback()
    args = SimpleNamespace(output_dir=str(tmp_path), should_save=True)
    calibration.on_train_begin()
    for step, evaluated in ((1, True), (2, False), (3, True)):
        if step < 3:
            (tmp_path / f"checkpoint-{step}").mkdir()
        if evaluated:
            prediction = SimpleNamespace(
                predictions=VALIDATION[0][:, :3].numpy(), label_ids=VALIDATION[1].numpy()
            )
            calibration.compute_metrics(prediction)
            calibration.on_evaluate(args, SimpleNamespace(global_step=step), None)
        calibration.on_save(args, SimpleNamespace(global_step=step), None)
    assert [path.parent.name for path in tmp_path.glob("*/*")] == ["checkpoint-1"]


def test_tokens_and_several_labels() -> None:
    """Tokens that are ignored do not count; several labels have a temperature each, which is not logged."""
    inputs, labels = VALIDATION
    calibration = hugging_face.CalibrationCallback()
    calibration.on_train_begin()
    whole = calibration.compute_metrics(SimpleNamespace(predictions=inputs[:, :3].numpy(), label_ids=labels))
    tokens, marks = torch.zeros(300, 2, 3), torch.full((300, 2), -100)
    tokens[:, 0], marks[:, 0] = inputs[:, :3], labels
    given = SimpleNamespace(predictions=(tokens.numpy(), "hidden states"), label_ids=marks.numpy())
    assert calibration.compute_metrics(given) == whole
    several = np.eye(3)[labels]
    found = calibration.compute_metrics(SimpleNamespace(predictions=inputs[:, :3].numpy(), label_ids=several))
    assert len(found) == 6
    assert calibration.calibrator is not None
    assert calibration.calibrator.temperature.shape == (3,)


def test_trainer_loss_of_parts_is_that_of_the_whole() -> None:
    """Micro-batches of different sizes add up to the mean over all labels, as tokens do."""
    inputs, labels = VALIDATION
    logits, loss = inputs[:, :3], FocalLoss(gamma=2.0)
    whole = loss(logits, labels)
    compute = trainer_loss(loss)
    assert compute((logits,), labels) == whole
    parts = [compute({"logits": logits[k]}, labels[k], 300) for k in (slice(40), slice(40, 300))]
    assert sum(parts) == pytest.approx(float(whole), rel=1e-6)
    marks = torch.stack([labels, torch.full_like(labels, -100)], dim=1)
    tokens = torch.stack([logits, logits], dim=1)
    assert float(compute({"logits": tokens}, marks, num_items_in_batch=300)) == pytest.approx(float(whole))


def test_accumulated_gradients(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    factors = []
    for size, steps in ((200, 1), (80, 3)):
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path), max_steps=1, per_device_train_batch_size=size, optim="sgd",
            gradient_accumulation_steps=steps, learning_rate=0.5, report_to=[], use_cpu=True,
            disable_tqdm=True, max_grad_norm=0.0,
        )  # fmt: skip
        model = Scores()
        transformers.Trainer(
            model=model, args=arguments, train_dataset=rows(drawn(200, 0)),
            compute_loss_func=trainer_loss(FocalLoss(gamma=1.0)),
        ).train()  # fmt: skip
        factors.append(model.factor.item())
    assert factors[0] == pytest.approx(factors[1], rel=1e-5)
    assert factors[0] < 4.9
