"""Carrying out a recipe, from data to report."""

from __future__ import annotations

import copy
import gc
import json
import os
import shlex
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from calibrant import losses
from calibrant._math.errors import CalibrantWarning, ConvergenceError, InputError
from calibrant._math.text_form import parse_call
from calibrant.data import Dataset, Part, build_augmentation
from calibrant.evaluation import evaluate
from calibrant.models import build as build_model
from calibrant.models import imported
from calibrant.predictions import Predictions, load_predictions
from calibrant.reports import write_report
from calibrant.reports.commands import with_commands
from calibrant.training import seeds
from calibrant.training.data import read_data, read_foreign
from calibrant.training.engine import Engine, Job, class_weights, preparation
from calibrant.training.interruption import Interruption
from calibrant.training.listener import Listener
from calibrant.training.recipe import Recipe
from calibrant.training.recipe_sections import HardwareSection
from calibrant.training.regularised import build_regularizer
from calibrant.training.run import Run, RunFolder, load_run
from calibrant.training.run_report import detection_of, run_facts, run_sections

if TYPE_CHECKING:
    from lightning_fabric import Fabric

DYING_GRADIENTS = 7.0


class TrainingInterrupted(KeyboardInterrupt):
    """Ctrl-C stopped a training; everything is saved, and the message says how to go on."""


def train(
    recipe: Recipe,
    folder: str | os.PathLike[str],
    *,
    listener: Listener | None = None,
    command: str | None = None,
) -> Run:
    """Carry out a recipe in a directory, or go on with what was begun there.

    The directory gets ``recipe.toml`` (with every default), ``environment.json``, ``metrics.jsonl`` (a line
    per epoch), ``checkpoint.pt``, and in the end ``predictions.npz`` (logits of the calibration and test
    split), ``report.html`` and ``evaluation.json``; where the recipe names samples of another kind, also
    ``out_of_distribution.npz`` and ``out_of_distribution.json``; where it penalises curvature or minimises
    sharpness, ``cost.json`` (a step against one of plain cross-entropy). A killed process loses the epoch it
    was in, Ctrl-C not even that; calling this again goes on from there, on one CPU to the same bits.

    Args:
        recipe: What to train.
        folder: Where to; made if need be.
        listener: Told how it goes.
        command: The command line to record, if there was one.

    Returns:
        The finished run.

    Raises:
        InputError: If the recipe cannot be carried out, or another one made the directory.
        ConvergenceError: If the loss or the logits stopped being finite.
        TrainingInterrupted: If Ctrl-C or SIGTERM came; after everything was saved.

    Note:
        Torch's global generators are left as they were. With several processes each takes its share of every
        batch; a loss of a whole batch (such as MMCE) then sees the share.
    """
    listener = listener or Listener()
    run_folder = RunFolder(folder)
    warn_of_dying_gradients(recipe.loss)
    dataset = read_data(recipe.data)
    foreign: Part | None = None
    if recipe.evaluation.out_of_distribution:
        name = recipe.evaluation.out_of_distribution
        foreign = read_foreign(name, dataset, downsample=recipe.data.downsample)
    # What is wrong with these is said before anything is written.
    preparation(recipe.data, dataset)
    build_augmentation(recipe.data.augment, dataset.input_shape)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seeds.derived(recipe.seed, seeds.WEIGHTS))
        model = build_model(recipe.model, input_shape=dataset.input_shape, num_classes=dataset.num_classes)
        loss = build_loss(recipe, dataset)
    build_regularizer(recipe, model, loss)  # what it refuses is refused before anything is written
    fabric = _fabric(recipe)
    run_folder.claim(recipe)
    job = Job(
        recipe=recipe,
        dataset=dataset,
        foreign=foreign,
        data_sha256=dataset.sha256(),
        model=model,
        loss=loss,
        folder=run_folder,
        listener=listener,
        command=command,
    )
    try:
        generators = [fabric.device] if fabric.device.type == "cuda" else []
        # Where processes are spawned they get Ctrl-C themselves, and this one has to wait for them.
        waiting = Interruption() if recipe.hardware.devices > 1 else nullcontext()
        with torch.random.fork_rng(devices=generators), waiting:
            launch: Callable[..., bool | Exception] = fabric.launch
            outcome = launch(_work, _Sealed(job))
    finally:
        listener.stop()
    if isinstance(outcome, Exception):
        raise outcome
    if not outcome:
        epochs = len(load_run(folder).rows)
        again = shlex.join(["calibrant", "train", str(run_folder.path)])
        raise TrainingInterrupted(
            f"stopped after {epochs} whole epochs; all is saved, `{again}` goes on from there."
        )
    return load_run(folder)


def build_loss(recipe: Recipe, dataset: Dataset) -> nn.Module:
    """The loss that a recipe names, as a mean over the batch (the engine makes a sum of it if need be).

    Raises:
        InputError: If there is no such loss, or it takes no class weights and the recipe asks for them.
    """
    if ":" in recipe.loss.partition("(")[0]:
        loss = imported(recipe.loss, {"num_classes": dataset.num_classes})
        if not isinstance(loss, nn.Module):
            raise InputError(f"{recipe.loss} must give a torch.nn.Module; got {type(loss).__name__}.")
    else:
        loss = losses.build(recipe.loss)
    if recipe.training.class_weights == "balanced":
        if not hasattr(loss, "weight"):
            raise InputError(f"{recipe.loss} takes no class weights; set training.class_weights to none.")
        loss.weight = class_weights(dataset.train, dataset.num_classes)
    return loss


def warn_of_dying_gradients(loss: str) -> None:
    """Say what is known of focal loss with a large exponent."""
    if ":" in loss.partition("(")[0]:
        return
    name, settings = parse_call(loss)
    given = [settings.get("gamma"), settings.get("initial_gamma"), *_several(settings.get("gammas"))]
    gammas = [gamma for gamma in given if isinstance(gamma, int | float)]
    if "focal" in name and max(gammas, default=0) >= DYING_GRADIENTS:
        warnings.warn(
            f"{loss}: with gamma of 7 or more gradients die around a probability of one half "
            "(their factor is .046 at gamma 7, .008 at 10).",
            CalibrantWarning,
            stacklevel=3,
        )


def _several(gammas: object) -> tuple[object, ...]:
    return tuple(gammas) if isinstance(gammas, tuple | list) else ()


def _fabric(recipe: Recipe) -> Fabric:
    """Fabric as the recipe wants it; its own complaints become one sentence."""
    try:
        from lightning_fabric import Fabric
    except ModuleNotFoundError as error:
        raise InputError(
            "training needs lightning-fabric, which the extra `train` brings: pip install 'calibrant[train]'."
        ) from error

    hardware = recipe.hardware
    settings: dict[str, Any] = {"precision": recipe.training.precision, "num_nodes": hardware.nodes}
    try:
        return Fabric(
            accelerator=hardware.accelerator,
            devices=hardware.devices,
            strategy=_strategy(hardware),
            **settings,
        )
    except (ValueError, RuntimeError, TypeError) as error:
        raise InputError(
            f"this machine cannot do what [hardware] asks for: {str(error).splitlines()[0]}"
        ) from error


def _strategy(hardware: HardwareSection) -> str:
    """How several processes come about: spawned, which works from any program, or by a launcher."""
    if hardware.strategy != "auto" or hardware.devices * hardware.nodes == 1:
        return hardware.strategy
    launched = hardware.nodes > 1 or "TORCHELASTIC_RUN_ID" in os.environ or "SLURM_NTASKS" in os.environ
    return "ddp" if launched else "ddp_spawn"


class _Sealed:
    """A job on its way to other processes; Fabric looks into data classes and fails at frozen ones."""

    def __init__(self, job: Job) -> None:
        self.job = job


def _work(fabric: Fabric, sealed: _Sealed) -> bool | Exception:
    """One process's part; errors that the user should read are handed back, across processes too."""
    job = sealed.job
    if fabric.world_size > 1:  # what was passed on lies in memory that all processes share
        job = replace(job, model=copy.deepcopy(job.model), loss=copy.deepcopy(job.loss))
    threads = torch.get_num_threads()
    torch.set_num_threads(job.recipe.hardware.threads or threads)
    try:
        return _carry_out(fabric, job)
    except (InputError, ConvergenceError) as error:
        return error
    finally:
        torch.set_num_threads(threads)
        if fabric.world_size > 1:
            _part_company()


def _part_company() -> None:
    """End what joins the processes: its threads, left to the end of an interpreter, may abort it."""
    gc.collect()  # the wrapped model refers to itself, and holds on to the group
    torch.distributed.destroy_process_group()


def _carry_out(fabric: Fabric, job: Job) -> bool:
    engine = Engine(fabric, job)
    engine.restore()
    if engine.first:
        job.folder.write_rows(engine.state.history)
        job.folder.note_session(
            command=job.command,
            device=_device_name(fabric.device),
            processes=fabric.world_size,
            data_sha256=job.data_sha256,
        )
        job.listener.start(
            epoch=engine.state.epoch, epochs=job.recipe.training.epochs, facts=_facts(job, fabric)
        )
    if not engine.fit():
        if engine.first:
            job.listener.stop()
        return False
    if not job.folder.evaluation.is_file():
        engine.use_kept_weights()
        wanted = ("calibration", "test") if job.foreign is None else ("calibration", "test", "foreign")
        logits = {name: engine.logits(name) for name in wanted}
        if engine.first:
            cost = engine.cost()
            if cost is not None:
                job.folder.write(job.folder.cost, json.dumps(cost, indent=2) + "\n")
            _judge(job, logits, _facts(job, fabric))
    if engine.first:
        job.listener.stop()
    return True


def _judge(job: Job, logits: dict[str, torch.Tensor], facts: dict[str, str]) -> None:
    """Predictions, report and, last because it says that all is done, the evaluation."""
    folder, settings = job.folder, job.recipe.evaluation
    parts = [job.dataset.calibration, job.dataset.test]
    Predictions(
        logits=torch.cat([logits["calibration"], logits["test"]]),
        labels=torch.cat([part.labels for part in parts]),
        split=torch.cat([torch.full((len(part),), place) for place, part in enumerate(parts)]),
        class_names=list(job.dataset.class_names),
    ).save(folder.predictions)
    predictions, foreign, detection = load_predictions(folder.predictions), None, None
    if job.foreign is not None:
        names = list(job.dataset.class_names)
        Predictions(logits=logits["foreign"], class_names=names).save(folder.foreign_predictions)
        foreign = load_predictions(folder.foreign_predictions)
        detection = detection_of(predictions, foreign, name=settings.out_of_distribution)
        folder.write(folder.detection, json.dumps(detection, indent=2) + "\n")
    evaluation = evaluate(
        predictions,
        calibrators=settings.calibrators or None,
        num_bins=settings.num_bins,
        bootstrap=settings.bootstrap,
        ood=foreign,
        seed=job.recipe.seed,
        command=job.command,
        progress=job.listener.stage,
    )
    sections = run_sections(
        load_run(folder.path),
        facts=facts,
        predictions=predictions,
        test=job.dataset.test,
        class_names=job.dataset.class_names,
        detection=detection,
    )
    write_report(evaluation, folder.report, after=sections)
    folder.write(folder.evaluation, with_commands(evaluation).to_json() + "\n")


def _facts(job: Job, fabric: Fabric) -> dict[str, str]:
    """What someone who watches should know."""
    return run_facts(
        job.recipe,
        job.dataset,
        num_parameters=sum(parameter.numel() for parameter in job.model.parameters()),
        device=_device_name(fabric.device),
        processes=fabric.world_size,
    )


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
