"""The compiled inner loops of the bootstrap."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrant._math.jit import njit

Vector: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]
Counts: TypeAlias = NDArray[np.uint8]  # (r, N), or (N,) of one resample: how often each sample was drawn
Places: TypeAlias = NDArray[np.int32]
Uniform: TypeAlias = NDArray[np.float32]

ECE, ADAPTIVE, SQUARED, MAXIMUM = 0, 1, 2, 3  # columns of the result
GUIDE = 64  # entries with start indices in a table
BLOCK = 16  # samples whose sums are kept together
NEAR = 1 << 11  # samples whose columns stay in the cache


@njit
def count_drawn(numbers: NDArray[np.uint32], row: Counts) -> int:
    """Count in ``row`` the places that numbers draw, as NumPy's ``integers`` does; return the number drawn.

    References:
        Lemire, "Fast Random Integer Generation in an Interval", ACM Transactions on Modeling and Computer
        Simulation 29, 2019 (the numbers that draw none would favour some places).
    """
    size, half, kept = np.uint64(len(row)), np.uint64(32), 0
    least = (np.uint64(1 << 32) - size) % size
    for number in numbers:
        product = np.uint64(number) * size
        if np.uint64(np.uint32(product)) >= least:
            row[product >> half] += np.uint8(1)
            kept += 1
    return kept


@njit(fastmath={"reassoc", "contract"})
def add_products(counts: Counts, columns: Matrix, sums: Matrix) -> None:
    """Add ``counts`` ``(r, N)`` times ``columns`` ``(k, N)`` to ``sums`` ``(r, k)``."""
    for start in range(0, counts.shape[1], NEAR):
        for r in range(counts.shape[0]):
            drawn = counts[r, start : start + NEAR]
            for k in range(columns.shape[0]):
                column = columns[k, start : start + NEAR]
                total = 0.0
                for i in range(len(drawn)):
                    total += drawn[i] * column[i]
                sums[r, k] += total


@njit
def add_to_cells(counts: Counts, index: Places, residuals: Vector, sums: Matrix) -> None:
    """Add residuals ``(N,)`` to the sums ``(r, K)`` of their cells, as often as the resample drew them."""
    for r in range(counts.shape[0]):
        cell, total = index[0], 0.0  # in ascending order, many neighbours share a cell
        for i in range(counts.shape[1]):
            if index[i] != cell:
                sums[r, cell] += total
                cell, total = index[i], 0.0
            total += counts[r, i] * residuals[i]
        sums[r, cell] += total


@njit
def fill_tables(probs: Vector, starts: Indices, tables: Vector) -> None:
    """P(at most k events occur) of each group, k = 0 to its size, one table after the other."""
    for group in range(len(starts) - 1):
        start, size = starts[group], starts[group + 1] - starts[group]
        table = tables[start + group : start + group + size + 1]
        table[0] = 1.0
        for i in range(size):
            p = probs[start + i]
            table[i + 1] = table[i] * p
            for k in range(i, 0, -1):
                table[k] = table[k] * (1.0 - p) + table[k - 1] * p
            table[0] *= 1.0 - p
        for k in range(size):
            table[k + 1] += table[k]
        table[size] = 2.0  # whatever rounding left of it: no uniform number lies beyond


@njit
def draw_counts(uniform: Uniform, tables: Vector, starts: Indices, guide: Indices, counts: Matrix) -> None:
    """Numbers ``(G, r)`` that occur: the least k whose table entry exceeds the uniform number ``(G, r)``."""
    num_groups, num_draws = uniform.shape
    for group in range(num_groups):
        start, size = starts[group], starts[group + 1] - starts[group]
        table = tables[start + group : start + group + size + 1]
        if size == 1:
            for r in range(num_draws):
                counts[group, r] = 0.0 if uniform[group, r] < table[0] else 1.0
            continue
        k = 0
        for place in range(
            len(guide)
        ):  # where to start in the table, by the first bits of the uniform number
            while table[k] <= place / len(guide):
                k += 1
            guide[place] = k
        for r in range(num_draws):
            k = guide[int(uniform[group, r] * len(guide))]
            while table[k] <= uniform[group, r]:
                k += 1
            counts[group, r] = k


@njit
def add_errors(
    counts: Counts,
    targets: Matrix,
    order: Places,
    ties: Indices,
    edges: Indices,
    mass: Vector,
    residuals: Vector,
    sums: Matrix,
    errors: Matrix,
) -> None:
    """Add the ``errors`` ``(r, 4)`` of each resample; all but the maximum times the resample's weight.

    ``counts`` ``(r, N)`` are in the order of the rows. ``mass`` and ``residuals`` (mass times outcome minus
    confidence) ``(N,)`` are in the ``order`` of the confidences, ties in that of the mass. There, ``ties``
    ``(N, 2)`` are where the tie of a sample begins and ends, and ``edges`` ``(B + 1,)`` the bins of equal
    width. ``targets`` ``(r, B - 1)`` are the cumulative masses that the inner bins of equal mass must reach;
    such a bin ends with the first copy of a sample that reaches its target.

    Between ties the cumulative residual R(u) is a straight line in the cumulative mass u, because tied
    samples share their mean; a bin of equal mass from u to v contributes abs(R(v) - R(u)). Cumulative
    ``sums`` ``(blocks + 1, 2)`` of mass and residual are kept at every 16th sample; the few needed between
    these are completed.
    """
    num_blocks = len(sums) - 1
    for r in range(counts.shape[0]):
        row = counts[r]
        _sum_blocks(row, order, mass, residuals, sums)
        last_mass, last_residual = 0.0, 0.0
        for edge in edges[1:]:
            at_mass, at_residual = _sums_before(edge, row, order, mass, residuals, sums)
            if at_mass > last_mass:
                gap = abs(at_residual - last_residual)
                errors[r, ECE] += gap
                errors[r, SQUARED] += gap * gap / (at_mass - last_mass)
                errors[r, MAXIMUM] = max(errors[r, MAXIMUM], gap / (at_mass - last_mass))
            last_mass, last_residual = at_mass, at_residual
        block, at_last_end = 0, 0.0
        for target in targets[r]:
            while block < num_blocks and sums[block + 1, 0] < target:
                block += 1
            if block == num_blocks:
                break
            reached, place = _reaching(target, block, row, order, mass, sums)
            copies = max(math.ceil((target - reached) / mass[place]), 1)
            end = reached + min(copies, row[order[place]]) * mass[place]
            low_mass, low = _sums_before(ties[place, 0], row, order, mass, residuals, sums)
            high_mass, high = _sums_before(ties[place, 1], row, order, mass, residuals, sums)
            at_end = low + (end - low_mass) / (high_mass - low_mass) * (high - low)
            errors[r, ADAPTIVE] += abs(at_end - at_last_end)
            at_last_end = at_end
        errors[r, ADAPTIVE] += abs(sums[num_blocks, 1] - at_last_end)


@njit(inner=True)
def _sum_blocks(row: Counts, order: Places, mass: Vector, residuals: Vector, sums: Matrix) -> None:
    """Write the mass and residual before each block, and after the last, into ``sums``."""
    whole = len(order) // BLOCK
    for block in range(len(sums) - 1):
        total, residual = 0.0, 0.0
        if block < whole:
            for k in range(BLOCK):  # of known length: twice as fast
                i = block * BLOCK + k
                drawn = row[order[i]]
                total += drawn * mass[i]
                residual += drawn * residuals[i]
        else:
            for i in range(block * BLOCK, len(order)):
                drawn = row[order[i]]
                total += drawn * mass[i]
                residual += drawn * residuals[i]
        sums[block + 1, 0] = sums[block, 0] + total
        sums[block + 1, 1] = sums[block, 1] + residual


@njit(inner=True)
def _reaching(
    target: float, block: int, row: Counts, order: Places, mass: Vector, sums: Matrix
) -> tuple[float, int]:
    """The mass before the sample of a block that reaches the target, and that sample's place."""
    within, before, place = 0.0, sums[block, 0], block * BLOCK
    for i in range(block * BLOCK, min((block + 1) * BLOCK, len(order))):
        before, place = sums[block, 0] + within, i
        within += row[order[i]] * mass[i]
        if sums[block, 0] + within >= target:
            break
    return before, place


@njit(inner=True)
def _sums_before(
    stop: int, row: Counts, order: Places, mass: Vector, residuals: Vector, sums: Matrix
) -> tuple[float, float]:
    """Cumulative mass and residual before ``stop``, summed as in the blocks, so empty bins have no mass."""
    block = stop // BLOCK
    total, residual = 0.0, 0.0
    for i in range(block * BLOCK, stop):
        drawn = row[order[i]]
        total += drawn * mass[i]
        residual += drawn * residuals[i]
    return sums[block, 0] + total, sums[block, 1] + residual


def isotonic_curves(points: Vector, weights: Vector, sums: Matrix, positions: Vector) -> Matrix:
    """Isotonic fits ``(r, P)`` at ascending positions, of weighted outcome sums ``(r, n)`` at points."""
    curves = np.empty((len(sums), len(positions)))
    last, weight, total = np.empty(len(points), np.int64), np.empty(len(points)), np.empty(len(points))
    _isotonic_curves(points, weights, sums, positions, last, weight, total, curves)
    return curves


@njit
def _isotonic_curves(
    points: Vector,
    weights: Vector,
    sums: Matrix,
    positions: Vector,
    last: Indices,  # place at which each step ends
    weight: Vector,
    total: Vector,
    curves: Matrix,
) -> None:
    for r in range(len(sums)):
        top = -1
        for i in range(len(points)):
            mass, happened = weights[i], sums[r, i]
            while top >= 0 and total[top] * mass >= happened * weight[top]:
                mass += weight[top]
                happened += total[top]
                top -= 1
            top += 1
            last[top], weight[top], total[top] = i, mass, happened
        step = 0
        for p in range(len(positions)):
            x = positions[p]
            while step < top and x > points[last[step]]:
                step += 1
            curves[r, p] = total[step] / weight[step]
            if step > 0 and x < points[last[step - 1] + 1]:  # straight between the steps
                start, end = points[last[step - 1]], points[last[step - 1] + 1]
                before = total[step - 1] / weight[step - 1]
                curves[r, p] = before + (curves[r, p] - before) / (end - start) * (x - start)


@njit
def add_drawn_labels(
    uniform: Uniform,
    probs: Matrix,
    bins: Indices,
    places: Indices,
    mass: Vector,
    classes: Indices,
    shares: Vector,
    cells: Indices,
    stack: Indices,
    sums: Matrix,
) -> None:
    """Draw the label of each sample from its probabilities ``(N, C)`` by uniform numbers ``(N, r)``.

    The mass of a sample is added to ``sums`` ``(M, r)`` where it is drawn: at the ``places`` ``(C, B)`` of
    its class and of the bin of the probability that the sample states for it. The ``classes`` ``(C,)`` follow
    each other in this order.

    References:
        Walker, "An Efficient Method for Generating Discrete Random Variables with General Distributions", ACM
        Transactions on Mathematical Software 3, 1977.
    """
    num_samples, num_classes = probs.shape
    for i in range(num_samples):
        total = 0.0
        for k in classes:
            total += probs[i, k]
        for j in range(num_classes):
            k = classes[j]
            shares[j] = probs[i, k] / total * num_classes
            cells[j, 0] = places[k, bins[i, k]]
        _share_out(shares, cells, stack)
        for r in range(uniform.shape[1]):
            place = uniform[i, r] * num_classes
            j = int(place)
            sums[cells[j, int(place - j >= shares[j])], r] += mass[i]


@njit(inner=True)
def _share_out(shares: Vector, cells: Indices, stack: Indices) -> None:
    """Fill the intervals of classes with ``shares`` below one, their mean, from those above.

    The share of its own class remains in each, and the second of its ``cells`` gets the rest.
    """
    below, above = 0, len(shares)
    for j in range(len(shares)):
        if shares[j] < 1.0:
            stack[below] = j
            below += 1
        else:
            above -= 1
            stack[above] = j
    while below > 0 and above < len(shares):
        below -= 1
        j, k = stack[below], stack[above]
        cells[j, 1] = cells[k, 0]
        shares[k] -= 1.0 - shares[j]
        if shares[k] < 1.0:
            above += 1
            stack[below] = k
            below += 1
    for j in range(below):  # rounding left them
        shares[stack[j]] = 1.0
    for j in range(above, len(shares)):
        shares[stack[j]] = 1.0


@njit(inner=True)
def _first_beyond(wanted: float, table: Vector) -> int:
    """The least k whose entry in a long ascending table exceeds a number; the last at the latest."""
    low, high = 0, len(table) - 1
    while low < high:
        middle = (low + high) // 2
        if table[middle] > wanted:
            high = middle
        else:
            low = middle + 1
    return low


@njit
def add_exceptions(
    place: Indices,
    steps: Uniform,
    uniform: Uniform,
    probs: Matrix,
    bins: Indices,
    places: Indices,
    mass: Vector,
    classes: Indices,
    ends: Vector,
    usual: Vector,
    sums: Matrix,
) -> None:
    """Like `add_drawn_labels`, for a likely top class: only draws of another class are drawn.

    The number of draws between two of them is geometric, made from exponential ``steps``; ``uniform`` numbers
    of the same size choose the class. The mass of the top class in a draw without exceptions is added to
    ``usual`` ``(M,)``. The start is at ``place``, a sample and a draw; on return it is where the steps ran
    out.
    """
    num_samples, num_classes = probs.shape
    num_draws = sums.shape[1]
    used = 0
    for i in range(place[0], num_samples):
        top = classes[0]
        for k in classes:
            if probs[i, k] > probs[i, top]:
                top = k
        others = 0.0
        for j in range(num_classes):
            if classes[j] != top:
                others += probs[i, classes[j]]
            ends[j] = others
        cell = places[top, bins[i, top]]
        r = place[1]
        place[1] = 0
        if used == len(steps):
            place[0] = i
            return
        if r == 0:
            usual[cell] += mass[i]
        if others <= 0.0:
            continue
        rate = math.log1p(others / probs[i, top])  # of the steps: the log of the total over the most probable
        while True:
            if used == len(steps):
                place[0], place[1] = i, r
                return
            step = steps[used] / rate
            if step >= num_draws - r:
                used += 1
                break
            r += int(step)
            wanted = uniform[used] * others
            used += 1
            k = classes[_first_beyond(wanted, ends)]
            sums[cell, r] -= mass[i]
            sums[places[k, bins[i, k]], r] += mass[i]
            r += 1
    place[0] = num_samples


@njit
def rank_negatives(
    scores: Vector,
    positive: NDArray[np.bool_],
    mass: Vector,
    ranked: Vector,
    ends: Indices,
    reached: Vector,
    below: Vector,
    right: Vector,
) -> None:
    """Write the share of the positives that each negative is ranked ``right`` against; ties count one half.

    ``ranked`` ``(P,)`` are the scores of the positives in ascending order, few of one class, ``ends`` where
    the tie of each ends, and ``reached`` ``(P + 1,)`` the masses up to each. A half of a negative's mass is
    added to ``below`` ``(P + 1,)`` where its tie begins, and a half where it ends.
    """
    for i in range(len(scores)):
        if not positive[i]:
            first = _number_below(scores[i], ranked)
            last = first
            if first < len(ranked) and ranked[first] == scores[i]:
                last = ends[first]
            right[i] = 1 - (reached[first] + reached[last]) / (2 * reached[-1])
            below[first] += mass[i] / 2
            below[last] += mass[i] / 2


@njit(inner=True)
def _number_below(value: float, ranked: Vector) -> int:
    """Number of ascending entries below a value, without branches."""
    base, size = 0, len(ranked)
    while size > 1:
        half = size // 2
        base += half * int(ranked[base + half - 1] < value)
        size -= half
    return base + int(ranked[base] < value)
