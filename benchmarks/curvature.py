"""Top eigenvalue and trace of the Hessian: error against the exact matrix for the CPU time that was spent.

Run: ``python benchmarks/curvature.py``, for the peers in the environment of
``benchmarks/peers-curvature.txt``. A peer that is not there is left out and named in the result.

Two networks, a multilayer perceptron and a convolutional one with batch normalisation, are trained on
scikit-learn's digits for a while, as Hessians of untrained networks are unlike those that people ask about.
The exact matrix comes from torch's functional Hessian in float64; the methods run in float32, on one
batch and on three of unequal size. Every method runs at several budgets, in turn in one process on one
thread; CPU times are medians over the repeats, errors root mean squares of the relative error over them (each
repeat has its own seed). ``error_at_our_time`` is a method's smallest error among the budgets that
take no longer than ours does at its bar's budget.

A last table has the cost of a training step with each way of lowering curvature, in multiples of plain
cross-entropy.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from environment import environment, write
from torch import Tensor, nn

from calibrant.curvature import SAM, CurvatureRegularizer, hessian_trace, top_eigenvalues

Batches = list[tuple[Tensor, Tensor]]
# A network, its batches, a budget and a seed to a number.
Method = Callable[[nn.Module, Batches, Any, int], float]
PACKAGES = ("calibrant", "torch", "pyhessian", "hessian-eigenthings", "curvlinops-for-pytorch")
OURS = "calibrant"
LOSS = nn.CrossEntropyLoss()
SIZES = (256, 256, 100)
# Ours is at most so far off, and takes no longer than PyHessian as it comes.
EIGENVALUE_BAR = {"error": 1e-5, "no_slower_than": "PyHessian"}
# With 60 products ours is at most as far off as the best peer in the time that this takes.
PRODUCTS = [15, 30, 60, 120]
TRACE_PRODUCTS = 60
TRACE_BAR = {"products": TRACE_PRODUCTS, "no_less_exact_than_peers": True}


def mlp() -> nn.Module:
    """64 - 24 - 10 with tanh, 1810 parameters."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 24), nn.Tanh(), nn.Linear(24, 10))


def batch_norm_cnn() -> nn.Module:
    """Two convolutions with batch normalisation, 1946 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1, stride=2),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, padding=1, stride=2),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


NETWORKS: dict[str, Callable[[], nn.Module]] = {"MLP": mlp, "CNN with batch norm": batch_norm_cnn}


def digits() -> tuple[Tensor, Tensor]:
    """The first 612 digits, scaled to [0, 1]."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    count = sum(SIZES)
    inputs = torch.tensor(images[:count] / 16, dtype=torch.float32).view(-1, 1, 8, 8)
    return inputs, torch.tensor(labels[:count])


def trained(make: Callable[[], nn.Module], data: tuple[Tensor, Tensor], steps: int = 150) -> nn.Module:
    """A network after some steps of Adam, in evaluation mode."""
    torch.manual_seed(0)
    model = make().train()
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    order = torch.Generator().manual_seed(0)
    for _ in range(steps):
        rows = torch.randint(len(data[1]), (64,), generator=order)
        optimiser.zero_grad()
        LOSS(model(data[0][rows]), data[1][rows]).backward()
        optimiser.step()
    optimiser.zero_grad()
    return model.eval()


def exact(model: nn.Module, data: tuple[Tensor, Tensor]) -> tuple[float, float]:
    """Largest eigenvalue and trace of the dense Hessian in float64."""
    wide = copy.deepcopy(model).double()
    named = {name: value.detach() for name, value in wide.named_parameters()}
    inputs, labels = data[0].double(), data[1]

    def loss(flat: Tensor) -> Tensor:
        pieces = flat.split([value.numel() for value in named.values()])
        state = {n: p.view_as(v) for (n, v), p in zip(named.items(), pieces, strict=True)}
        return LOSS(torch.func.functional_call(wide, state, (inputs,)), labels)

    flat = torch.cat([value.reshape(-1) for value in named.values()])
    matrix: Any = torch.autograd.functional.hessian(loss, flat)
    return float(torch.linalg.eigvalsh(matrix)[-1]), float(matrix.trace())


def eigenvalue_methods() -> dict[str, tuple[Method, list[Any]]]:
    """Ways to the largest eigenvalue, each with its budgets; a budget of None is the method as it comes."""
    found: dict[str, tuple[Method, list[Any]]] = {
        OURS: (
            lambda model, data, budget, seed: top_eigenvalues(
                model, LOSS, data, seed=seed, **({} if budget is None else {"tolerance": budget})
            ).values[0],
            [1e-1, 1e-2, 1e-3, None],
        )
    }
    try:
        from pyhessian import hessian

        def power(model: nn.Module, data: Batches, budget: Any, seed: int) -> float:
            torch.manual_seed(seed)
            settings = {} if budget is None else {"maxIter": budget, "tol": 0.0}
            return _pyhessian(hessian, model, data).eigenvalues(**settings)[0][0]

        found["PyHessian"] = (power, [None, 5, 10, 20, 40, 80])
    except ImportError:
        pass
    try:
        from hessian_eigenthings import HessianOperator, lanczos

        def krylov(model: nn.Module, data: Batches, budget: Any, seed: int) -> float:
            operator = HessianOperator(model, data, _loss_of_model)
            return float(lanczos(operator, k=1, max_iter=budget, which="LA", seed=seed).eigenvalues[0])

        found["hessian-eigenthings"] = (krylov, [5, 8, 12, 16, 24, 32])
    except ImportError:
        pass
    try:
        from curvlinops import HessianLinearOperator
        from scipy.sparse.linalg import eigsh

        def arnoldi(model: nn.Module, data: Batches, budget: Any, seed: int) -> float:
            start = torch.randn(_size(model), generator=torch.Generator().manual_seed(seed)).numpy()
            operator = _curvlinops(HessianLinearOperator, model, data)
            values = eigsh(
                operator.to_scipy(), k=1, which="LA", v0=start, return_eigenvectors=False, **budget
            )
            return float(values[0])

        budgets = [{"ncv": 5, "tol": 1e-1}, {"ncv": 8, "tol": 1e-2}, {"ncv": 12, "tol": 1e-3}, {}]
        found["curvlinops"] = (arnoldi, budgets)
    except ImportError:
        pass
    return found


def trace_methods() -> dict[str, tuple[Method, list[Any]]]:
    """Ways to the trace, each with its numbers of products."""
    found: dict[str, tuple[Method, list[Any]]] = {}
    for method in ("xtrace", "hutch++", "hutchinson"):

        def ours(model: nn.Module, data: Batches, budget: Any, seed: int, method: Any = method) -> float:
            return hessian_trace(model, LOSS, data, method=method, num_matvecs=budget, seed=seed).value

        found[OURS if method == "xtrace" else f"{OURS}, {method}"] = (ours, PRODUCTS)
    try:
        from pyhessian import hessian

        def hutchinson(model: nn.Module, data: Batches, budget: Any, seed: int) -> float:
            torch.manual_seed(seed)
            settings = {} if budget is None else {"maxIter": budget, "tol": 0.0}
            values = _pyhessian(hessian, model, data).trace(**settings)
            return sum(values) / len(values)

        found["PyHessian"] = (hutchinson, [None, *PRODUCTS])
    except ImportError:
        pass
    try:
        from hessian_eigenthings import HessianOperator, trace

        def sketched(model: nn.Module, data: Batches, budget: Any, seed: int) -> float:
            operator = HessianOperator(model, data, _loss_of_model)
            return trace(operator, num_matvecs=budget, method="hutch++", seed=seed).estimate

        found["hessian-eigenthings"] = (sketched, PRODUCTS)
    except ImportError:
        pass
    try:
        from curvlinops import HessianLinearOperator, hutchpp_trace

        def meyer(model: nn.Module, data: Batches, budget: Any, seed: int) -> float:
            torch.manual_seed(seed)
            operator = _curvlinops(HessianLinearOperator, model, data)
            return float(hutchpp_trace(operator, num_matvecs=budget))

        found["curvlinops"] = (meyer, PRODUCTS)
    except ImportError:
        pass
    return found


def _pyhessian(make: Any, model: nn.Module, data: Batches) -> Any:
    model.zero_grad()  # it reads what lies in .grad
    if len(data) == 1:
        return make(model, LOSS, data=data[0], cuda=False)
    return make(model, LOSS, dataloader=data, cuda=False)


def _curvlinops(make: Any, model: nn.Module, data: Batches) -> Any:
    # Its check that data and model are deterministic costs several products.
    return make(model, LOSS, list(model.parameters()), data, check_deterministic=False)


def _loss_of_model(model: nn.Module, batch: Any) -> Tensor:
    return LOSS(model(batch[0]), batch[1])


def _size(model: nn.Module) -> int:
    return sum(value.numel() for value in model.parameters())


def measured(
    methods: dict[str, tuple[Method, list[Any]]], model: nn.Module, data: Batches, truth: float, repeats: int
) -> dict[str, list[dict[str, Any]]]:
    """CPU milliseconds and relative error of every method at every budget, in an order that changes."""
    runs = [(name, budget) for name, (_, budgets) in methods.items() for budget in budgets]
    models = {name: copy.deepcopy(model) for name in methods}
    seconds: dict[int, list[float]] = {place: [] for place in range(len(runs))}
    errors: dict[int, list[float]] = {place: [] for place in range(len(runs))}
    for repeat in range(repeats + 1):
        for turn in range(len(runs)):
            place = (turn + repeat) % len(runs)
            name, budget = runs[place]
            begun = time.process_time()
            value = methods[name][0](models[name], data, budget, repeat)
            took = time.process_time() - begun
            if repeat:  # the first round warms up
                seconds[place].append(took)
                errors[place].append(value / truth - 1)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in methods}
    for place, (name, budget) in enumerate(runs):
        found[name].append(
            {
                "budget": "as it comes" if budget is None else str(budget),
                "cpu_milliseconds": round(1e3 * statistics.median(seconds[place]), 3),
                "error": math.sqrt(statistics.fmean(error**2 for error in errors[place])),
            }
        )
    return found


def at_our_time(found: dict[str, list[dict[str, Any]]], ours: dict[str, Any]) -> dict[str, float | None]:
    """Every method's smallest error within our time; None where no budget is so small."""
    most = ours["cpu_milliseconds"]
    within = {
        name: [row["error"] for row in rows if row["cpu_milliseconds"] <= most]
        for name, rows in found.items()
    }
    return {name: min(errors, default=None) for name, errors in within.items()}


def steps(make: Callable[[], nn.Module], data: tuple[Tensor, Tensor], repeats: int) -> dict[str, float]:
    """CPU time of a training step on 128 samples, in multiples of one with plain cross-entropy."""
    torch.manual_seed(0)
    inputs, labels = data[0][:128], data[1][:128]
    runs: dict[str, Callable[[], object]] = {}
    for name in ("cross-entropy", "hutchinson", "gauss-newton", "last-layer", "SAM"):
        model = make().train()
        optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
        if name == "SAM":
            sam = SAM(model, optimiser)
            runs[name] = lambda sam=sam, model=model: sam.step(lambda: LOSS(model(inputs), labels))
            continue
        criterion: Any = LOSS
        if name != "cross-entropy":
            criterion = CurvatureRegularizer(model, LOSS, weight=1e-3, estimator=name)  # type: ignore[arg-type]

        def step(model: nn.Module = model, optimiser: Any = optimiser, criterion: Any = criterion) -> None:
            optimiser.zero_grad()
            criterion(model(inputs), labels).backward()
            optimiser.step()

        runs[name] = step
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for repeat in range(10 * repeats + 5):
        for name, run in runs.items():
            begun = time.process_time()
            run()
            if repeat >= 5:
                seconds[name].append(time.process_time() - begun)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    return {name: round(took / medians["cross-entropy"], 2) for name, took in medians.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    warnings.simplefilter("ignore")  # PyHessian's backward with a graph, on every call
    torch.set_num_threads(1)
    inputs, labels = data = digits()
    split = list(zip(inputs.split(list(SIZES)), labels.split(list(SIZES)), strict=True))
    ways = {"top eigenvalue": eigenvalue_methods(), "trace": trace_methods()}
    tasks: dict[str, Any] = {}
    for network, make in NETWORKS.items():
        model = trained(make, data)
        truths = dict(zip(ways, exact(model, data), strict=True))
        for batches in ([data], split):
            for question, methods in ways.items():
                name = f"{question}, {network}, {len(batches)} batch{'es' if len(batches) > 1 else ''}"
                found = measured(methods, model, batches, truths[question], repeats)
                ours = (
                    found[OURS][-1]
                    if question == "top eigenvalue"
                    else found[OURS][PRODUCTS.index(TRACE_PRODUCTS)]
                )
                tasks[name] = {
                    "question": question,
                    "parameters": _size(model),
                    "exact": truths[question],
                    "bar": EIGENVALUE_BAR if question == "top eigenvalue" else TRACE_BAR,
                    "ours": ours,
                    "error_at_our_time": at_our_time(found, ours),
                    "methods": found,
                }
                print(name, json.dumps(tasks[name], indent=1))
    content = {
        "environment": environment(*PACKAGES),
        "repeats": repeats,
        "threads": 1,
        "peers_not_installed": [
            name
            for name in ("PyHessian", "hessian-eigenthings", "curvlinops")
            if name not in ways["top eigenvalue"]
        ],
        "tasks": tasks,
        "step_times_cross_entropy": {name: steps(make, data, repeats) for name, make in NETWORKS.items()},
    }
    print("written:", write("curvature", content))


if __name__ == "__main__":
    main()
