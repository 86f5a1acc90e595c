"""Train by a recipe: initial checks, processes, and the work of each."""

from __future__ import annotations

import copy
import gc
import logging
import os
import shlex
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from calibrant._math.errors import ConvergenceError, InputError, clause, users_frame
from calibrant.calibrators import build as build_calibrator
from calibrant_lab.data import Dataset, build_augmentation
from calibrant_lab.models import build as build_model
from calibrant_lab.models import load_weights
from calibrant_lab.training import seeds
from calibrant_lab.training.curvature import write_requested
from calibrant_lab.training.data import Job, TrainingData, named_file, preparation, read_training_data
from calibrant_lab.training.engine import Engine
from calibrant_lab.training.listener import Listener
from calibrant_lab.training.loss import (
    LabelsParts,
    build_loss,
    build_regularizer,
    check_task,
    warn_of_dying_gradients,
)
from calibrant_lab.training.neutral import check_convention
from calibrant_lab.training.processes import Interruption
from calibrant_lab.training.recipe import HardwareSection, InitialSection, Recipe
from calibrant_lab.training.run import Run, RunFolder, load_run
from calibrant_lab.training.run_report import run_facts, write_results
from calibrant_lab.training.samples import check_batches, network_shape
from calibrant_lab.training.schedule import build_optimiser
from calibrant_lab.training.shift import shifted, shifted_logits, shifts

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def begin_with(model: nn.Module, settings: InitialSection) -> None:
    """Load initial weights into the network if the recipe names a file."""
    if not settings.weights:
        return
    load_weights(model, named_file("initial.weights", settings.weights, "weights"), skip=settings.skip)


class TrainingInterrupted(KeyboardInterrupt):
    """Ctrl-C stopped a training; everything is saved, and the message tells how to resume."""


def train(
    recipe: Recipe,
    folder: str | os.PathLike[str],
    *,
    listener: Listener | None = None,
    command: str | None = None,
    data: TrainingData | None = None,
    report: bool = True,
) -> Run:
    """Train by a recipe in a directory, or resume its training.

    The directory gets ``recipe.toml`` (with every default), ``environment.json``, ``metrics.jsonl`` (a line
    per epoch) and ``checkpoint.pt``. At the end it gets ``predictions.npz`` (logits of the calibration and
    test split), ``report.html`` and ``evaluation.json``. If the recipe names out-of-distribution samples, it
    also gets ``out_of_distribution.npz`` and ``.json``; with corruptions ``shift/*.npz`` and ``shift.json``.
    If it penalises curvature or minimises sharpness, it gets ``cost.json`` (a step against one of plain
    cross-entropy). A killed process loses the epoch it was in, Ctrl-C not even that; calling this again
    resumes from there, on one CPU to the same bits.

    Args:
        recipe: Settings of the training.
        folder: The directory; created if it does not exist.
        listener: Observer of the progress.
        command: The command line to record, if there was one.
        data: The recipe's data, if they are in memory already.
        report: Evaluate the finished network with intervals and write a report; else its predictions are
            written last, and ``Run.evaluation`` is None.

    Returns:
        The finished run.

    Raises:
        InputError: If the recipe cannot be carried out, or the directory belongs to another one or is in use.
        ConvergenceError: If the loss or the logits stopped being finite.
        TypeError: If ``recipe`` is not a recipe.
        TrainingInterrupted: After Ctrl-C or SIGTERM, once everything is saved.

    Note:
        Torch's global generators are left as they were. With several processes each takes its share of every
        batch; a loss of a whole batch (such as MMCE) then sees the share, which the run reports.
    """
    if not isinstance(recipe, Recipe):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"`recipe` must be a Recipe; got {type(recipe).__name__}: read a file with calibrant.load_recipe."
        )
    listener = listener or Listener()
    run_folder = RunFolder(folder)
    warn_of_dying_gradients(recipe.loss)
    data = data or read_training_data(recipe)
    dataset = data.dataset
    # These are built here once so that their errors come before anything is written.
    for shift in [] if dataset.multilabel else shifts(recipe)[:1]:
        shifted(recipe, dataset, shift)
    preparation(recipe.data, dataset)
    build_augmentation(recipe.data.augment, dataset.input_shape, side=recipe.data.crop)
    input_shape = network_shape(recipe, dataset)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seeds.derived(recipe.seed, seeds.WEIGHTS))
        model = build_model(
            recipe.model, input_shape=input_shape, num_classes=dataset.num_classes, vectors=dataset.vectors
        )
        loss = build_loss(recipe, dataset)
    check_task(recipe, dataset, loss)
    if not run_folder.checkpoint.is_file():
        begin_with(model, recipe.initial)
    build_regularizer(recipe, model, loss)
    build_optimiser(recipe.optimiser, model)
    check_convention(recipe, model)
    _rehearse(recipe, dataset, model, loss, input_shape)
    fabric = _fabric(recipe)
    run_folder.check(recipe)
    rest: dict[str, Any] = {"folder": run_folder, "listener": listener, "command": command, "report": report}
    job = Job(**vars(data), recipe=recipe, model=model, loss=loss, **rest)
    try:
        generators = [fabric.device] if fabric.device.type == "cuda" else []
        # Spawned processes receive Ctrl-C themselves, and this one has to wait for them.
        waiting = Interruption() if recipe.hardware.devices > 1 else nullcontext()
        alone = nullcontext() if _is_one_of_many(recipe.hardware) else run_folder.locked()
        with alone, torch.random.fork_rng(devices=generators), waiting:
            run_folder.claim(recipe)
            # As an argument Fabric would look into the job, and fails on frozen data classes.
            outcome: bool | Exception = fabric.launch(partial(_work, job=job))
    finally:
        listener.stop()
    if isinstance(outcome, Exception):
        raise outcome
    if not outcome:
        epochs = len(load_run(folder).rows)
        again = shlex.join(["calibrant", "train", str(run_folder.path)])
        raise TrainingInterrupted(
            f"stopped after {epochs} complete epoch{'s' * (epochs != 1)}; everything is saved, and `{again}` "
            "resumes from there."
        )
    return load_run(folder)


def _fabric(recipe: Recipe) -> Fabric:
    try:
        from lightning_fabric import Fabric
    except ModuleNotFoundError as error:
        raise InputError(
            "training needs lightning-fabric, which the extra `train` brings: pip install 'calibrant[train]'."
        ) from error
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # advice in each run of a sweep

    hardware, strategy = recipe.hardware, recipe.hardware.strategy
    if strategy == "auto" and hardware.devices * hardware.nodes > 1:
        # Spawned, which works from any program, or by a launcher.
        strategy = "ddp" if _is_one_of_many(hardware) else "ddp_spawn"
    settings: dict[str, Any] = {"precision": recipe.training.precision, "num_nodes": hardware.nodes}
    try:
        return Fabric(
            accelerator=hardware.accelerator, devices=hardware.devices, strategy=strategy, **settings
        )
    except (ValueError, RuntimeError, TypeError) as error:
        raise InputError(
            f"this machine cannot do what [hardware] asks for: {str(error).splitlines()[0]}"
        ) from error


def _is_one_of_many(hardware: HardwareSection) -> bool:
    """Return True if other processes were launched for this training."""
    if hardware.devices * hardware.nodes == 1:
        return False
    launched = hardware.nodes > 1 or "TORCHELASTIC_RUN_ID" in os.environ or "SLURM_NTASKS" in os.environ
    return launched or hardware.strategy == "ddp"


def _work(fabric: Fabric, *, job: Job) -> bool | Exception:
    """Run one process's part; return user errors, which must cross processes."""
    if fabric.world_size > 1:  # arguments are in memory that all processes share
        job = replace(job, model=copy.deepcopy(job.model), loss=copy.deepcopy(job.loss))
    threads = torch.get_num_threads()
    torch.set_num_threads(job.recipe.hardware.threads or threads)
    try:
        return _carry_out(fabric, job)
    except (InputError, ConvergenceError) as error:
        return error
    except Exception as error:
        if fabric.world_size == 1 or users_frame(error) is None:
            raise
        # An exception would become a traceback of torch's.
        return InputError(f"your code fails: {clause(error)}.")
    finally:
        torch.set_num_threads(threads)
        if fabric.world_size > 1:
            # Threads of the group, if left until the interpreter exits, may abort it.
            gc.collect()  # the wrapped model refers to itself, and keeps the group alive
            torch.distributed.destroy_process_group()


def _carry_out(fabric: Fabric, job: Job) -> bool:
    """Train and evaluate the network; return False on Ctrl-C."""
    engine = Engine(fabric, job)
    engine.restore()
    kind = fabric.device.type
    device = torch.cuda.get_device_name(fabric.device) if kind == "cuda" else kind
    processes = fabric.world_size
    facts = run_facts(job.recipe, job.dataset, job.model, device=device, processes=processes)
    first = engine.processes.first
    if first:
        # This comes first: with it, the folder holds a run, whatever is missing.
        job.folder.note_session(
            command=job.command, device=device, processes=processes, data_sha256=job.sha256
        )
        job.folder.write_rows(engine.state.history)
        job.listener.start(epoch=engine.state.epoch, epochs=job.recipe.training.epochs, facts=facts)
    finished = engine.fit()
    last_written = job.folder.evaluation if job.report else job.folder.predictions
    if finished and not last_written.is_file():
        wanted = ("calibration", "test") if job.foreign is None else ("calibration", "test", "foreign")
        logits = {name: engine.final_logits(name) for name in wanted}
        shifted = shifted_logits(job, engine.samples, engine.inference)
        if first:
            cost = engine.learner.cost(engine.batches(0)[0])
            if cost is not None:
                job.folder.write_json(job.folder.cost, cost)
            write_requested(job, fabric.device)
            write_results(job, logits, facts, shifted)
    if first:
        job.listener.stop()
    return finished


def _rehearse(
    recipe: Recipe, dataset: Dataset, model: nn.Module, loss: nn.Module, input_shape: tuple[int, ...]
) -> None:
    """Check process counts and calibrators, and try a custom network and loss."""
    hardware = recipe.hardware
    elsewhere = torch.cuda.is_available() or torch.backends.mps.is_available()  # Fabric counts these
    cores = max(2, os.cpu_count() or 1)
    if (hardware.accelerator == "cpu" or not elsewhere) and hardware.devices > cores:
        raise InputError(
            f"`hardware.devices` must be at most {cores}, a process for each core; got {hardware.devices}."
        )
    check_batches(recipe, len(dataset.train), model)
    for text in recipe.evaluation.calibrators:
        build_calibrator(text)
    if ":" in recipe.model:
        _check_answers(recipe.model, dataset, model, input_shape)
    if ":" in recipe.loss.partition("(")[0]:
        _check_loss(recipe, dataset, model, loss)


def _check_answers(name: str, dataset: Dataset, model: nn.Module, input_shape: tuple[int, ...]) -> None:
    rows = dataset.train.inputs[torch.arange(2)]
    inputs = rows if rows.dtype == torch.int32 else torch.zeros((2, *input_shape))
    training = model.training
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            logits = model.eval()(inputs)
    except Exception as error:
        raise InputError(
            f"{name} must take samples of shape {input_shape}; it fails: {clause(error)}."
        ) from error
    finally:
        model.train(training)
    shape = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
    if shape != (2, dataset.num_classes):
        raise InputError(
            f"{name} must give logits of shape (N, {dataset.num_classes}), one for each class of "
            f"{dataset.name}; for 2 samples it gives {shape}."
        )


def _check_loss(recipe: Recipe, dataset: Dataset, model: nn.Module, loss: nn.Module) -> None:
    name, classes = recipe.loss, dataset.num_classes
    trained = [key for key, each in loss.named_parameters() if each.requires_grad]
    if trained:
        raise InputError(
            f"{name} has parameters that no optimiser trains ({', '.join(trained)}); put them into the "
            "network, or make them buffers with register_buffer."
        )
    if isinstance(model, LabelsParts):  # only a training shows what its logits are of
        return
    size = min(recipe.training.batch_size, len(dataset.train))
    size -= size == classes  # (C, C) and (C,) would broadcast
    logits = torch.randn(size, classes, generator=torch.Generator().manual_seed(0), requires_grad=True)
    labels = "(N, C)" if dataset.multilabel else "(N,)"
    task = f"must map logits (N, {classes}) and labels {labels} to their loss"
    try:
        with torch.random.fork_rng(devices=[]):
            value = copy.deepcopy(loss)(logits, dataset.train.labels[:size])
    except Exception as error:
        raise InputError(f"{name} {task}; it fails: {clause(error)}.") from error
    if not isinstance(value, torch.Tensor) or value.shape != () or not value.requires_grad:
        shape = f"shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
        raise InputError(
            f"{name} {task}, one number (a tensor of shape ()) with a gradient: its mean over the samples; "
            f"it gives {shape}{'' if getattr(value, 'requires_grad', True) else ' without a gradient'}."
        )
