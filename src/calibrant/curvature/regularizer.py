"""Training with low curvature: any loss plus a multiple of its Hessian's trace, and sharpness-aware steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from calibrant._math.checks import check_at_least, check_choice
from calibrant._math.errors import InputError
from calibrant.curvature.differentiation import check_mean_loss, wide
from calibrant.curvature.parametric_model import Loss, trained_parameters
from calibrant.curvature.penalties import (
    LastLayer,
    Seen,
    gauss_newton_trace,
    hutchinson_trace,
    last_layer_trace,
    samples_coupled,
)

Estimator: TypeAlias = Literal["hutchinson", "gauss-newton", "last-layer"]
Negative: TypeAlias = Literal["keep", "clip"]


class Penalised(NamedTuple):
    """A batch's objective and its parts."""

    total: Tensor
    """Objective for ``backward``."""
    loss: Tensor
    """The loss alone."""
    trace: Tensor | None
    """The estimated trace; None where this batch is not penalised."""


class CurvatureRegularizer(nn.Module):
    r"""Any loss plus a multiple of the trace of its Hessian by the network's parameters.

    .. math:: L + \beta\, \widehat{\operatorname{Tr}}(\nabla_\theta^2 L), \qquad \beta = \texttt{weight}

    A drop-in for the loss: it takes the logits that ``model`` gave, with their graph, and the labels. The
    network runs once per step as usual, so running statistics of batch normalisation are updated once, and
    loss and trace see the same batch statistics and the same mask of dropout. The penalty is the one that
    Kimura and Naganuma propose; the trace is not divided by the number of parameters. Three estimates:

    * "hutchinson": :math:`v^\top H v` for random signs *v*, by differentiating the gradient once more
      (Pearlmutter). Unbiased for the trace of the Hessian, for every loss and network that can be
      differentiated three times.
    * "gauss-newton": unbiased for the trace of :math:`J^\top B J`, where *J* is the derivative of the logits
      by the parameters and *B* the loss's Hessian by the logits. This is the Hessian without the
      curvature of the network itself. Where every sample counts by itself and the network has at least
      64 K³ parameters (K logits a sample) it is :math:`\|J^\top B^{1/2} v\|^2`. That takes one more backward
      pass through the network (two where *B* has negative eigenvalues as well, as with focal loss). Otherwise
      it is :math:`(J^\top v)^\top (J^\top B v)`, two passes, with the samples balanced for a small variance.
      *v* holds a sign for each logit.
    * "last-layer": the trace of the last linear layer's block in closed form,
      :math:`\sum_i \operatorname{Tr}(B_i)\,(\|h_i\|^2 + 1)` with :math:`h_i` the layer's input and 1 for its
      bias. It is deterministic and needs no second pass through the network. It is exact for that block of
      the Hessian (which equals that of the Gauss-Newton matrix) if the logits ``(N, C)`` are what a
      ``nn.Linear`` returns, used once. The loss must be a (weighted) mean over samples of a function of
      their own logits: cross-entropy, the focal family, Brier, label smoothing. A loss of a whole
      batch is refused. Small features with large weights make this block flat while the rest of the Hessian
      grows, so watch the whole trace and add weight decay.

    Args:
        model: The network that gives the logits; it is not changed. For "last-layer" a hook on its last
            linear layer records the layer's input, for as long as this object lives.
        loss: Logits and labels to the mean loss of a batch; nothing else is known of it.
        weight: The factor β of the trace.
        estimator: See above.
        every: Penalise the first of each ``every`` batches, ``every`` times as strongly: the mean objective,
            and with it the meaning of ``weight``, stays the same at a fraction of the cost.
        num_probes: Number of random vectors that are averaged, for "hutchinson" and "gauss-newton".
        negative: If the Hessian is indefinite, an estimate can be negative, like the trace itself.
            "keep" leaves it, which is unbiased and rewards negative curvature; "clip" counts it as zero
            for value and gradient, which biases the penalty upward.
        parameters: Names of parameters or modules whose block counts; default all that are not frozen.
            For "last-layer": the name of the layer, default the linear layer that was added last.
        seed: Seed of the random vectors; those of the n-th batch are a function of the seed and n.

    Raises:
        InputError: If an argument is out of its range, a name is unknown, nothing is trained, the logits do
            not come from ``model``, or something cannot be differentiated often enough.

    Note:
        In evaluation mode (its own, ``regularizer.eval()``) and where the logits carry no graph, the loss
        alone is returned and no batch is counted. Nothing is left on the network except what ``backward`` on
        the result leaves. Frozen parameters are left out; tied ones count once, with all their uses.

        Fused attention has no second derivative: run the network in ``with
        torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)``; neither has a network compiled
        by ``torch.compile`` ("last-layer" works with fused attention). Under automatic mixed precision in
        float16 the inner gradients are not scaled and may vanish.

        Under several processes with ``DistributedDataParallel`` each estimates from its own share of the
        batch; a trace is linear, so the averaged gradient is that of the whole batch's penalty (without
        "clip"). With one seed "hutchinson" uses the same vector everywhere and gives just what one process
        would; for "gauss-newton" give each process a seed of its own.

        ``state_dict`` holds the number of batches so far, so a resumed training draws what an undisturbed one
        would have drawn.

    References:
        Kimura and Naganuma, "Geometric Insights into Focal Loss: Reducing Curvature for Enhanced Model
        Calibration", Pattern Recognition Letters 189, 2025. Hutchinson, "A stochastic estimator of the trace
        of the influence matrix", 1990. Schraudolph 2002 (Gauss-Newton products). Karras et al., "Analyzing
        and Improving the Image Quality of StyleGAN", CVPR 2020, appendix B (every k-th batch, k times).

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from calibrant.curvature import CurvatureRegularizer
        >>> model = nn.Linear(1, 2, bias=False)
        >>> _ = nn.init.zeros_(model.weight)
        >>> inputs, labels = torch.ones(4, 1), torch.tensor([0, 1, 0, 1])
        >>> criterion = CurvatureRegularizer(model, nn.CrossEntropyLoss(), weight=0.1, estimator="last-layer")
        >>> total = criterion(model(inputs), labels)  # log 2 + 0.1 * Tr [[.25, -.25], [-.25, .25]]
        >>> total.backward()
        >>> round(total.item(), 4)
        0.7431
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        *,
        weight: float,
        estimator: Estimator = "hutchinson",
        every: int = 1,
        num_probes: int = 1,
        negative: Negative = "keep",
        parameters: str | Iterable[str] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_choice("estimator", estimator, ("hutchinson", "gauss-newton", "last-layer"))
        check_choice("negative", negative, ("keep", "clip"))
        if not 0 <= weight < math.inf:
            raise InputError(f"`weight` must be finite and not negative; got {weight}.")
        check_at_least("every", every, 1)
        check_at_least("num_probes", num_probes, 1)
        self.loss: Loss = loss
        self.weight, self.every, self.num_probes, self.seed = weight, every, num_probes, seed
        self.estimator: Estimator = estimator
        self.negative: Negative = negative
        self.calls = 0
        """Batches so far."""
        self._names = (parameters,) if isinstance(parameters, str) else parameters and tuple(parameters)
        self._model = (model,)  # in a tuple, so that its parameters are not this module's
        self._depends = False
        self._coupled: bool | None = None
        trained_parameters(model, self._names)
        self._last = LastLayer(model, self._names) if estimator == "last-layer" else None

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Objective of a batch; call ``backward`` on it.

        Raises:
            InputError: See the class.
        """
        return self.penalised(logits, labels).total

    def penalised(self, logits: Tensor, labels: Tensor) -> Penalised:
        """Objective of a batch, with loss and trace separately.

        Raises:
            InputError: See the class.
        """
        loss = self.loss(logits, labels)
        check_mean_loss(loss)
        if not (self.training and logits.requires_grad and logits.numel()):
            return self._without_trace(loss)
        number, self.calls = self.calls, self.calls + 1
        if number % self.every or self.weight == 0:
            return self._without_trace(loss)
        trace = self._trace(loss, logits, number).to(loss.dtype)
        counted = trace.clamp(min=0) if self.negative == "clip" else trace
        return Penalised(loss + self.weight * self.every * counted, loss, trace)

    def get_extra_state(self) -> dict[str, int]:
        """The number of batches so far, for ``state_dict``."""
        return {"calls": self.calls}

    def set_extra_state(self, state: dict[str, int]) -> None:
        """Resume from a saved number of batches."""
        self.calls = int(state["calls"])

    def _without_trace(self, loss: Tensor) -> Penalised:
        if self._last is not None:
            self._last.forget()
        return Penalised(loss, loss, None)

    def _trace(self, loss: Tensor, logits: Tensor, number: int) -> Tensor:
        seen = Seen(loss, logits, trained_parameters(self._model[0], self._names))
        self._check_dependence(seen)
        try:
            if self.estimator == "hutchinson":
                return hutchinson_trace(seen, self._generator(logits.device, number), self.num_probes)
            coupled = self._samples_are_coupled(seen)
            if self._last is None:
                generator = self._generator(logits.device, number)
                return gauss_newton_trace(seen, generator, self.num_probes, coupled=coupled)
            if coupled:
                raise InputError(
                    '`estimator="last-layer"` is for losses in which every sample counts by itself; this one '
                    'couples the samples of a batch: use "hutchinson" or "gauss-newton".'
                )
            return last_layer_trace(seen, self._last.lengths(logits))
        except RuntimeError as error:
            raise _explained(self.estimator, error) from error

    def _samples_are_coupled(self, seen: Seen) -> bool:
        """Check once, on the first batch with at least two samples."""
        if self._coupled is None and len(seen.logits) > 1:
            self._coupled = samples_coupled(seen)
        return bool(self._coupled)

    def _check_dependence(self, seen: Seen) -> None:
        if self._depends:
            return
        ones = torch.ones_like(seen.logits)
        # Annotated by torch as never None, but None stands for no dependence.
        found: Any = torch.autograd.grad(seen.logits, seen.values, ones, retain_graph=True, allow_unused=True)
        if all(each is None for each in found):
            raise InputError("`logits` must come from the `model` that was given; they do not depend on it.")
        self._depends = True

    def _generator(self, device: torch.device, number: int) -> torch.Generator:
        state = np.random.SeedSequence([self.seed, number]).generate_state(1, np.uint64)
        return torch.Generator(device).manual_seed(int(state[0] >> np.uint64(1)))


def _explained(estimator: str, error: RuntimeError) -> Exception:
    """Error with a remedy if torch has no further derivative; other errors unchanged."""
    said = str(error).splitlines()[0].rstrip(".")
    if not any(word in said.lower() for word in ("derivative for", "double backward", "differentiable once")):
        return error
    return InputError(
        f'`estimator="{estimator}"` differentiates more often than something here allows: {said}. Attention '
        "has further derivatives inside `with torch.nn.attention.sdpa_kernel(SDPBackend.MATH)`; compiled "
        "networks have none."
    )


class SAM:
    r"""Sharpness-aware minimisation around any optimiser.

    .. math:: w \leftarrow \text{optimiser's step with } \nabla L(w + \epsilon), \qquad
              \epsilon = \rho\, \nabla L(w) / \|\nabla L(w)\|_2

    over all parameters of the optimiser that have a gradient. Both passes see the same batch, the same random
    numbers (dropout's masks) and the same buffers; afterwards the buffers, such as batch normalisation's
    running statistics, are those that the first pass left. Weight decay and momentum act at *w*, as the
    optimiser does them. With ``rho=0`` a step is that of the optimiser alone, to the bit.

    Args:
        model: The network, for its buffers.
        optimiser: Any optimiser of its parameters; its learning rate may be scheduled as usual.
        rho: Length of the step to the worst point; 0.05 in the paper.

    Raises:
        InputError: If ``rho`` is negative or not finite.

    Note:
        A step costs two passes forward and backward. With ``DistributedDataParallel`` the first gradient is
        that of all processes together, so that several do what one does; the paper lets each process climb
        along its own. Not for scaled gradients (``GradScaler``).

    References:
        Foret, Kleiner, Mobahi and Neyshabur, "Sharpness-Aware Minimization for Efficiently Improving
        Generalization", ICLR 2021, algorithm 1.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from calibrant.curvature import SAM
        >>> model = nn.Linear(1, 1, bias=False)
        >>> _ = nn.init.ones_(model.weight)
        >>> sam = SAM(model, torch.optim.SGD(model.parameters(), lr=0.1), rho=0.5)
        >>> loss = sam.step(lambda: model(torch.ones(1, 1)).square().sum())
        >>> loss.item(), round(model.weight.item(), 4)  # 1 - 0.1 * 2 * (1 + 0.5)
        (1.0, 0.7)
    """

    def __init__(self, model: nn.Module, optimiser: Optimizer, *, rho: float = 0.05) -> None:
        if not 0 <= rho < math.inf:
            raise InputError(f"`rho` must be finite and not negative; got {rho}.")
        self.model, self.optimiser, self.rho = model, optimiser, rho

    def step(self, loss: Callable[[], Tensor]) -> Tensor:
        """Make one whole step, then clear the gradients.

        Args:
            loss: Runs the network on the batch and returns the loss; called twice.

        Returns:
            The loss before the step, detached.
        """

        def backward() -> Tensor:
            value = loss()
            value.backward()
            return value

        first = self.gradients(backward)
        self.optimiser.step()
        self.optimiser.zero_grad()
        return first

    def gradients(self, backward: Callable[[], Tensor]) -> Tensor:
        """Set the gradient at the worst nearby point, for a loop that clips and steps by itself.

        Args:
            backward: Runs the network on the batch, calls ``backward`` on the loss and returns it; called
                twice.

        Returns:
            The loss before the step, detached.
        """
        before = _buffers(self.model)
        gpus = {value.device for value in self.model.parameters() if value.device.type == "cuda"}
        self.optimiser.zero_grad()
        with torch.random.fork_rng(gpus), torch.enable_grad():  # the second pass draws the same numbers
            first = backward().detach()
        after = _buffers(self.model)
        try:
            with self._climbed(), torch.enable_grad():
                self.optimiser.zero_grad()
                _put_buffers(self.model, before)
                backward()
        finally:
            _put_buffers(self.model, after)
        return first

    @contextmanager
    def _climbed(self) -> Generator[None]:
        """Move to the worst nearby point; afterwards restore the exact values."""
        found = [value for group in self.optimiser.param_groups for value in group["params"]]
        values: list[Tensor] = [value for value in found if value.grad is not None]
        with torch.no_grad():
            kept = [value.clone() for value in values]
            slopes = [value.grad for value in values if value.grad is not None]
            if slopes:
                scale = self.rho / _length(slopes).clamp(min=1e-12)
                for value, slope in zip(values, slopes, strict=True):
                    value.add_((slope * scale.to(slope.device)).to(value.dtype))
        try:
            yield
        finally:
            with torch.no_grad():
                for value, old in zip(values, kept, strict=True):
                    value.copy_(old)


def _length(tensors: list[Tensor]) -> Tensor:
    place, dtype = tensors[0].device, wide(tensors[0])
    each = [torch.linalg.vector_norm(tensor, dtype=dtype).to(place) for tensor in tensors]
    return torch.linalg.vector_norm(torch.stack(each))


def _buffers(model: nn.Module) -> list[Tensor]:
    return [buffer.detach().clone() for buffer in model.buffers()]


@torch.no_grad()
def _put_buffers(model: nn.Module, saved: list[Tensor]) -> None:
    for buffer, value in zip(model.buffers(), saved, strict=True):
        buffer.copy_(value)
