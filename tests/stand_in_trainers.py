"""Stand-ins for the loops of Lightning and transformers: what callbacks and pages rely on, and no more."""

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn


class LightningModule(nn.Module):
    device = torch.device("cpu")

    def __init__(self) -> None:
        super().__init__()
        self.logged: dict[str, Any] = {}

    def log(self, name: str, value: Any, **_: Any) -> None:
        self.logged[name] = value

    def log_dict(self, values: dict[str, Any], **_: Any) -> None:
        self.logged |= values


class LightningTrainer:
    """Calls the methods of modules and callbacks in Lightning's order."""

    sanity_checking = False

    def __init__(self, *, max_epochs: int, callbacks: Sequence[Any] = (), **_: Any) -> None:
        self.max_epochs, self.callbacks = max_epochs, callbacks
        self.state = SimpleNamespace(fn=None)

    def fit(self, module: Any, train: Any, validation: Any) -> None:
        """Train and validate; the check before the training is a validation of a batch."""
        self.state.fn, self.sanity_checking = "fit", True
        self._run(module, [next(iter(validation))], "validation")
        self.sanity_checking = False
        optimizer = module.configure_optimizers()
        for _ in range(self.max_epochs):
            for number, batch in enumerate(train):
                optimizer.zero_grad()
                module.training_step(batch, number).backward()
                optimizer.step()
            self._run(module, validation, "validation")

    def test(self, module: Any, batches: Any, *, ckpt_path: str | Path, **_: Any) -> None:
        self.state.fn = "test"
        for callback in self.callbacks:
            callback.load_state_dict(torch.load(ckpt_path)["callbacks"][type(callback).__qualname__])
        self._run(module, batches, "test")

    def _run(self, module: Any, batches: Any, name: str) -> None:
        for number, batch in enumerate(batches):
            with torch.no_grad():
                outputs = getattr(module, f"{name}_step")(batch, number)
            for callback in self.callbacks:
                getattr(callback, f"on_{name}_batch_end")(self, module, outputs, batch, number, 0)
        for callback in self.callbacks:
            getattr(callback, f"on_{name}_epoch_end")(self, module)
        self.callback_metrics = module.logged = {
            key: float(value.compute()) if isinstance(value, nn.Module) else value
            for key, value in module.logged.items()
        }

    def save_checkpoint(self, path: str | Path) -> None:
        torch.save(
            {"callbacks": {type(each).__qualname__: each.state_dict() for each in self.callbacks}}, path
        )


class TransformersTrainer:
    """Two epochs of one step, in which only the callbacks and the given functions do something."""

    def __init__(self, *, model: Any, args: Any, callbacks: Sequence[Any], **given: Any) -> None:
        self.model, self.args, self.callbacks = model, args, callbacks
        self.given = SimpleNamespace(**given)
        self.state = SimpleNamespace(global_step=0, best_model_checkpoint=None)

    def train(self) -> None:
        self._tell("on_train_begin")
        for _ in range(2):
            outputs, labels = self._outputs(self.given.train_dataset)
            self.loss = self.given.compute_loss_func(outputs, labels, num_items_in_batch=len(labels))
            self.state.global_step += 1
            self.evaluate()
            folder = Path(self.args.output_dir) / f"checkpoint-{self.state.global_step}"
            folder.mkdir(parents=True)
            self.state.best_model_checkpoint = self.state.best_model_checkpoint or str(folder)
            self._tell("on_save")
        self._tell("on_train_end")

    def evaluate(self, dataset: Any = None, metric_key_prefix: str = "eval") -> dict[str, float]:
        """Metrics under the names that the Trainer gives them."""
        outputs, labels = self._outputs(dataset or self.given.eval_dataset)
        prediction = SimpleNamespace(predictions=outputs["logits"].numpy(), label_ids=labels.numpy())
        found = self.given.compute_metrics(prediction)
        self._tell("on_evaluate")
        return {f"{metric_key_prefix}_{name}": value for name, value in found.items()}

    def _outputs(self, dataset: Any) -> tuple[Any, Tensor]:
        batch = {name: torch.stack([torch.as_tensor(row[name]) for row in dataset]) for name in dataset[0]}
        labels = batch.pop("labels")
        outputs = self.model(**batch)
        logits = outputs["logits"] if isinstance(outputs, dict) else outputs.logits
        return {"logits": logits.detach()}, labels

    def _tell(self, event: str) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(self.args, self.state, None)


def lightning() -> ModuleType:
    made = ModuleType("lightning")
    made.LightningModule, made.Trainer = LightningModule, LightningTrainer
    return made


def training_arguments(output_dir: str, **given: Any) -> SimpleNamespace:
    return SimpleNamespace(output_dir=output_dir, should_save=True, **given)
