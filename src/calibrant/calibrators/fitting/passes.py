r"""Sums over all rows that a search asks for: as many at once as it likes, and one pass for each question.

So the scores may be anywhere: in a file that is read in pieces, or in many that are shared out. Parts that
are summed up by themselves are added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable
from itertools import chain, count
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from calibrant._math.newton import Expansion, Vector
from calibrant._math.shapes import Float
from calibrant.calibrators.fitting.likelihood import ratios_below
from calibrant.calibrators.fitting.samples import Block

ORDER = 6
"""Of the polynomials in log T."""
_COUNTS = 3  # sums that are no means
_FACTS = 6
_FACTORIALS = torch.tensor([math.factorial(power) for power in range(ORDER + 1)], dtype=torch.float64)


class Wanted(NamedTuple):
    """What is asked of a pass."""

    betas: tuple[float, ...] = ()
    """Inverse temperatures around which the likelihood is expanded."""
    points: tuple[tuple[float, float], ...] = ()
    """Temperatures and focal exponents at which two derivatives are wanted."""
    likelihoods: bool = False
    """Whether those of the logits as they are, and of infinite temperature, are wanted, too."""


class Facts(NamedTuple):
    """What the rows are like."""

    num_samples: int
    num_right: int
    num_varied: int
    """Rows whose logits are not all equal."""
    total_weight: float
    before: float
    """Mean negative log-likelihood of the logits as they are."""
    flat_slope: float
    """Its derivative by 1 / T where that is zero."""


class Looks(NamedTuple):
    """What a pass found, means over the rows."""

    facts: Facts
    jets: list[Vector]
    """At each inverse temperature b the likelihood at b (1 + u) as a polynomial in u, lowest power first."""
    expansions: list[Expansion]
    """At each point, by log T and the exponent."""


Found = TypeVar("Found")
Search: TypeAlias = Generator[Wanted, Looks, Found]
"""A search that asks for passes."""


def solved(search: Search[Found], sums: Callable[[Wanted], Vector]) -> tuple[Found, Facts, int]:
    """What a search finds by the sums of as many passes as it asks for, and what the rows are like."""
    facts: Facts | None = None
    wanted = next(search)._replace(likelihoods=True)
    for passes in count(1):
        found = looks_of(wanted, sums(wanted))
        facts = facts or found.facts
        try:
            wanted = search.send(found._replace(facts=facts))
        except StopIteration as done:
            return done.value, facts, passes
    raise AssertionError  # it counts on for ever


def looks_of(wanted: Wanted, sums: Vector) -> Looks:
    """What the sums of all rows say."""
    mass = float(sums[_COUNTS])
    means = sums[_COUNTS + 1 :] / mass
    rows, right, varied = (int(number) for number in sums[:_COUNTS])
    facts = Facts(rows, right, varied, mass, *means[:2].tolist())
    split = 2 + len(wanted.betas) * (ORDER + 1)
    expansions = [
        Expansion(row[0], np.array(row[1:3]), np.array([[row[3], row[4]], [row[4], row[5]]]))
        for row in means[split:].reshape(-1, 6).tolist()
    ]
    return Looks(facts, list(means[2:split].reshape(-1, ORDER + 1)), expansions)


def nothing(wanted: Wanted) -> Vector:
    """The sums of no rows."""
    return np.zeros(_FACTS + len(wanted.betas) * (ORDER + 1) + 6 * len(wanted.points))


def sums_of(blocks: Iterable[Block], wanted: Wanted, weight: float = 1.0) -> Vector:
    """Sums over some rows, each counted by its share of this weight."""
    sums = nothing(wanted)
    expansions = sums[_FACTS + len(wanted.betas) * (ORDER + 1) :].reshape(-1, 6)
    room: Tensor | None = None
    kept: list[list[Tensor]] = []
    for block in blocks:  # what goes over the table is done block by block, the rest for all rows at once
        room = torch.empty_like(block.below) if room is None or len(room) < len(block.below) else room
        numbers = [block.second[:, 0], block.wrong[:, 0], block.shares, _gaps(block)]
        numbers += [_moments(block, beta, room) for beta in wanted.betas]
        if wanted.likelihoods:
            numbers += [_mean_gaps(block, room), ratios_below(block, 1.0, room).sum(dim=1, keepdim=True)]
        kept.append(numbers)
        sums[2] += _num_varied(block)
        for sum_of_block, point in zip(expansions, wanted.points, strict=True):
            sum_of_block += _expansion(block, *point, room)
    second, wrong, shares, gap, *rest = (torch.cat(column) for column in zip(*kept, strict=True))
    sums[0], sums[1], sums[_COUNTS] = len(shares), int((~wrong).sum()), float(shares.sum())
    if wanted.likelihoods:
        *rest, flat, before = rest
        sums[_COUNTS + 1 : _FACTS] = shares @ _jet(before, second, gap, 1.0)[:, 0], shares @ (flat - gap)
    for number, (beta, moments) in enumerate(zip(wanted.betas, rest, strict=True)):
        at = _FACTS + number * (ORDER + 1)
        sums[at : at + ORDER + 1] = shares @ _jet(moments, second, gap, beta)
    sums[_COUNTS:] *= weight
    return sums


def side_by_side(first: Search[Found], second: Search[Found]) -> Search[tuple[Found, Found]]:
    """Two searches in the same passes."""
    searches, ends = (first, second), dict[int, Found]()
    asked = {number: next(search) for number, search in enumerate(searches)}
    while asked:
        found = yield Wanted(
            betas=tuple(chain(*(wanted.betas for wanted in asked.values()))),
            points=tuple(chain(*(wanted.points for wanted in asked.values()))),
        )
        jets, expansions = iter(found.jets), iter(found.expansions)
        for number, wanted in list(asked.items()):
            part = found._replace(
                jets=[next(jets) for _ in wanted.betas], expansions=[next(expansions) for _ in wanted.points]
            )
            try:
                asked[number] = searches[number].send(part)
            except StopIteration as done:
                ends[number] = done.value
                del asked[number]
    return ends[0], ends[1]


def _gaps(block: Block) -> Float[Tensor, " n"]:
    """Logit of the label minus that of the top class."""
    return torch.where(block.wrong, block.second + block.below.gather(1, block.truth), 0)[:, 0]


def _expansion(block: Block, temperature: float, gamma: float, room: Tensor) -> Vector:
    from calibrant.calibrators.fitting.class_objective import class_expansion  # compiled

    return class_expansion(block, ratios_below(block, 1 / temperature, room).numpy(), temperature, gamma)


def _num_varied(block: Block) -> int:
    """Rows whose logits are not all equal."""
    near = block.second[:, 0] == 0
    if not bool(near.any()):
        return len(near)
    others = int(block.below.shape[1] > 1)  # the top class has a place, and a huge negative number in it
    return int((~near).sum()) + int(((block.below[near] < 0).sum(dim=1) > others).sum())


def _mean_gaps(block: Block, room: Tensor) -> Float[Tensor, " n"]:
    """Mean over all classes of their logit minus the largest."""
    if block.below.shape[1] == 1:
        return block.second[:, 0] / 2
    width = block.below.shape[1]
    below = room[: len(block.below)].copy_(block.below).scatter_(1, block.top, 0)
    return below.sum(dim=1) / width + block.second[:, 0] * ((width - 1) / width)


def _moments(block: Block, beta: float, room: Tensor) -> Float[Tensor, "n K"]:
    """Odds of the others against the second class at b (1 + u), summed up: a polynomial in u."""
    from calibrant.calibrators.fitting.class_objective import set_moments  # compiled

    sums = torch.empty((len(block.below), ORDER + 1), dtype=torch.float64)
    set_moments(block.below.numpy(), ratios_below(block, beta, room).numpy(), beta, sums.numpy())
    return sums.div_(_FACTORIALS)


def _jet(
    moments: Float[Tensor, "n K"], second: Float[Tensor, " n"], gap: Float[Tensor, " n"], beta: float
) -> Float[Tensor, "n K"]:
    """Negative log-likelihood of each row at b (1 + u), a polynomial in u of the same order."""
    order, step = moments.shape[1] - 1, second * beta
    of_second = [step.exp()]  # odds of the second class against the top one
    for power in range(1, order + 1):
        of_second += [of_second[-1] * step / power]
    odds = [
        torch.stack([of_second[i] * moments[:, k - i] for i in range(k + 1)]).sum(0) for k in range(order + 1)
    ]
    jet, total = [odds[0].log1p()], 1 + odds[0]  # (1 + S) times the derivative of log(1 + S) is that of S
    for k in range(1, order + 1):
        jet += [(odds[k] - sum(j / k * jet[j] * odds[k - j] for j in range(1, k))) / total]
    for k in range(min(order, 1) + 1):
        jet[k] = jet[k] - beta * gap
    return torch.stack(jet, dim=1)
