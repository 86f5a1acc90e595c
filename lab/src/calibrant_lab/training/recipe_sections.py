"""The tables of a recipe, each with its settings, their defaults and what they may be."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Size = Annotated[int, Field(ge=0)] | Annotated[float, Field(ge=0, lt=1)]


class Section(BaseModel):
    """A table of a recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    @field_validator("*", mode="before")
    @classmethod
    def _true_is_no_number(cls, value: object, info: ValidationInfo) -> object:
        several = value if isinstance(value, list | tuple) else (value,)
        if cls.model_fields[str(info.field_name)].annotation is bool:
            return value
        if any(isinstance(each, bool) for each in several):
            raise ValueError(f"`{info.field_name}` must not be true or false; give a value of its kind")
        return value


class DataSection(Section):
    """What to train on."""

    name: str = "digits"
    """A named set, the path of an ``.npz`` file, or of a folder of images or texts."""
    calibration: Size = 0.1
    """Training samples (a share if below 1) held out where the data have no such split."""
    test: Size = 0.2
    """The same for the test split."""
    policy: Size = 0
    """The same for a split that drives AdaFocal; 0: the calibration split drives it."""
    train: Annotated[int, Field(ge=0)] = 0
    """Keep only this many training samples; 0: all."""
    imbalance: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.0
    """Ratio of the first class's training samples to the last one's; 1: as they are."""
    downsample: Count = 1
    """Shrink images by this factor."""
    size: Annotated[int, Field(ge=0)] = 0
    """Scale images to so many pixels a side when they are decoded; 0: as they are."""
    channels: Literal[0, 1, 3] = 0
    """Make images grey (1) or coloured (3); 0: as they are."""
    crop: Annotated[int, Field(ge=0)] = 0
    """The network sees squares of so many pixels a side: random ones in training, the middle one or those of
    ``evaluation.views`` otherwise; 0: whole images."""
    memory: Positive = 4.0
    """Gigabytes up to which a split of images is decoded at once; larger ones are decoded as needed."""
    normalise: Literal["train", "none", "given"] = "train"
    """By the mean and deviation of the training samples, not at all, or by ``mean`` and ``std``."""
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    vectors: str = ""
    """For texts and trees: a file of word vectors, as GloVe comes or ``.npz``; its path, or its place inside
    the folder ``CALIBRANT_DATA``. If empty, no word has one."""
    augment: tuple[str, ...] = ()
    """Random changes to training images: ``crop(padding=4)``, ``flip``, and, where ``crop`` is given,
    ``resized-crop(area=(0.08, 1.0))``."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Decides which samples go into which split; independent of the seed of the training."""


def usual_rate(optimiser: str) -> float:
    """The learning rate that an optimiser has where none is given."""
    return {"sgd": 0.1, "adagrad": 0.01}.get(optimiser, 0.001)


class InitialSection(Section):
    """The weights to begin with."""

    weights: str = ""
    """A file that gives them by name: its path, or its place inside the folder ``CALIBRANT_DATA``. If empty,
    the seed draws them."""
    skip: tuple[str, ...] = ()
    """Parameters or modules that the seed draws all the same, such as the last layer for other classes."""

    @model_validator(mode="after")
    def _something_is_skipped(self) -> InitialSection:
        if self.skip and not self.weights:
            raise ValueError("`skip` goes with `weights`")
        return self


class OptimiserSection(Section):
    """How the weights are updated."""

    name: Literal["sgd", "adam", "adamw", "adagrad"] = "sgd"
    learning_rate: Positive = Field(default_factory=lambda known: usual_rate(known.get("name", "sgd")))
    """If it is not given: 0.1 for sgd, 0.01 for adagrad, 0.001 for adam and adamw."""
    weight_decay: NotNegative = 0.0
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """For sgd."""
    nesterov: bool = False
    """For sgd."""
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.999)
    """For adam and adamw."""
    plain: tuple[str, ...] = ()
    """Parameters or modules, such as ``words``, that plain gradient descent updates instead, without weight
    decay."""
    plain_rate: Positive = 0.1
    """Its learning rate, which the schedule changes alike."""
    clip_norm: NotNegative = 0.0
    """Gradients longer than this are scaled down to it; 0: never. Otherwise every epoch records the mean
    length before that (``gradient_norm``), penalties and the step aside of SAM included, and the share of
    samples whose batch was scaled down (``clipped``)."""

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> OptimiserSection:
        if self.nesterov and (self.name != "sgd" or self.momentum == 0):
            raise ValueError("`nesterov` goes with sgd and a momentum above 0")
        return self


class ScheduleSection(Section):
    """How the learning rate changes from epoch to epoch."""

    name: Literal["constant", "steps", "cosine", "plateau"] = "constant"
    milestones: tuple[Count, ...] = ()
    """For steps: completed epochs after which the rate is multiplied by ``factor``."""
    factor: Annotated[float, Field(gt=0, le=1)] = 0.1
    """For steps and plateau."""
    patience: Annotated[int, Field(ge=0)] = 5
    """For plateau: the rate is multiplied by ``factor`` after more epochs than this without a calibration NLL
    that is lower by 1e-4 of it, as torch's ``ReduceLROnPlateau`` does."""
    floor: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """For cosine: share of the rate that is left at the end."""
    warmup: Annotated[int, Field(ge=0)] = 0
    """Epochs in which the rate rises to its full value."""

    @model_validator(mode="after")
    def _milestones_rise(self) -> ScheduleSection:
        if (self.name == "steps") != bool(self.milestones):
            raise ValueError("`milestones` must be given for steps, and only there")
        if list(self.milestones) != sorted(set(self.milestones)):
            raise ValueError(f"`milestones` must rise; got {list(self.milestones)}")
        return self


class CurvatureSection(Section):
    """Lower the trace of the loss's Hessian too; see :class:`calibrant.curvature.CurvatureRegularizer`."""

    weight: NotNegative = 0.0
    """Weight of the trace beside the loss; 0: the loss alone."""
    estimator: Literal["hutchinson", "gauss-newton", "last-layer"] = "hutchinson"
    """Trace of the Hessian by a random vector, of the Gauss-Newton matrix, or of the last layer's block."""
    every: Count = 1
    """Penalise one of so many batches, so many times as strongly."""
    num_probes: Count = 1
    """Random vectors per batch, for hutchinson and gauss-newton."""
    negative: Literal["keep", "clip"] = "keep"
    """Whether a negative estimate is kept, or counts as zero."""
    parameters: tuple[str, ...] = ()
    """Names of the parameters or modules that are penalised; if empty, all."""


class SAMSection(Section):
    """Sharpness-aware minimisation around the optimiser; see :class:`calibrant.curvature.SAM`."""

    rho: NotNegative = 0.0
    """Length of the step to the worst nearby point, 0.05 in the paper; 0: the optimiser alone."""


class TrainingSection(Section):
    """The loop."""

    epochs: Count = 20
    batch_size: Annotated[int, Field(ge=2)] = 128
    """Counted over all processes."""
    class_weights: Literal["none", "balanced"] = "none"
    """Whether the loss weights classes by the inverse of their frequency (alpha); where samples have several
    labels, both answers of each label, as CheXNet does."""
    drop_last: bool = False
    """Leave out the last batch of an epoch where it is smaller than the others."""
    patience: Annotated[int, Field(ge=0)] = 0
    """Stop after this many epochs without a better one; 0: never."""
    keep: Literal["last", "best"] = "last"
    """Which weights are evaluated: those of the last epoch, or of the best."""
    keep_by: Literal["nll", "loss", "accuracy"] = "nll"
    """Which epoch is best: by the lowest calibration NLL after temperature scaling, by the lowest training
    loss on the calibration split, or the highest accuracy there; the first of equals."""
    precision: Literal["32-true", "64-true", "16-mixed", "bf16-mixed", "bf16-true"] = "32-true"


class HardwareSection(Section):
    """Where it runs; a run may be resumed elsewhere, but the same bits are promised on one CPU only."""

    accelerator: Literal["auto", "cpu", "gpu", "cuda", "mps"] = "auto"
    devices: Count = 1
    """Processes on this machine, one for each device."""
    nodes: Count = 1
    strategy: Literal["auto", "ddp", "ddp_spawn"] = "auto"
    """How several processes are started; auto: spawned on one machine, ddp on several."""
    threads: Annotated[int, Field(ge=0)] = 0
    """Per process, on a CPU; 0: torch's default. Small networks are fastest with one."""
    compile: bool = False
    """Compile the network with ``torch.compile``; on one device, each size of batch is checked once for the
    right gradients, which not every version gives."""
    channels_last: bool = False
    """Memory layout of images that some GPUs prefer."""
    resident: bool = True
    """Keep the data on the device."""


class RecordSection(Section):
    """What is recorded in addition."""

    dynamics: bool = False
    """Likelihood, entropy, errors and more on the train and test split, as in Mukhoti et al. (2020). On the
    calibration split they are recorded in any case."""
    every: Count = 1
    """Record dynamics every so many epochs."""
    samples: Annotated[int, Field(ge=0)] = 0
    """Number of training samples to record, evenly spaced; 0: all."""
    epochs: tuple[Count, ...] = ()
    """Epochs whose reliability and gradient norms are recorded; if empty, four evenly spaced ones."""


class ShiftSection(Section):
    """The test images under corruptions (Hendrycks and Dietterich, 2019), judged when the run is finished."""

    corruption: str | tuple[str, ...] = ()
    """Such as ``gaussian-noise``, or several, or ``all`` fifteen; if empty, none."""
    severities: tuple[Annotated[int, Field(ge=1, le=5)], ...] = (1, 2, 3, 4, 5)
    name: str = ""
    """``cifar10-c`` or ``cifar100-c`` for the published images; if empty, test images are corrupted."""
    samples: Annotated[int, Field(ge=0)] = 0
    """Take only so many images, evenly spaced; 0: all."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Decides the random numbers of corruptions that are computed."""


class ForeignSection(Section):
    """Samples of another kind, to be told from the test samples."""

    name: str = ""
    """Out-of-distribution data, named as in ``data.name``; if empty, none."""


class EvaluationSection(Section):
    """How the finished run is evaluated."""

    calibrators: tuple[str, ...] = ()
    """Such as ``temperature``; if empty, those that suit the predictions."""
    bootstrap: Annotated[int, Field(ge=2)] = 1000
    num_bins: Count = 15
    batch_size: Count = 512
    """Batch size where nothing is learned."""
    views: Literal["one", "ten-crop"] = "one"
    """What the finished network sees of calibration and test images: one view, or the corners and the middle
    and their mirror images (see ``data.crop``). Probabilities are averaged, and what is stored and calibrated
    are logits of the averages. After each epoch it is one view."""
    heat_maps: Annotated[int, Field(ge=0)] = 0
    """Grad-CAM maps of so many test images, as files and in the report; needs the extra ``heat-maps``."""
    sst_binary: Literal["renormalised", "struck"] = "renormalised"
    """For networks that learn a neutral class beside the two: whether the two are renormalised, or the
    neutral one is struck out and what is left need not sum to one; the report shows both."""
    out_of_distribution: str = ""
    """Another way to say ``foreign.name``."""

    @model_validator(mode="after")
    def _struck_are_confidences(self) -> EvaluationSection:
        if self.sst_binary == "struck" and (self.calibrators or self.out_of_distribution):
            raise ValueError(
                "`sst_binary` struck gives confidences, which go with neither `calibrators` nor "
                "`out_of_distribution`"
            )
        return self
