"""What is made of the order of probabilities: of all samples, and of cells that take their place."""

import pickle

import numpy as np
import pytest

from calibrant._math.fine_cells import NUM_COARSE, add_to_cells, coarse_of, folded, num_fine, rank_in_cells
from calibrant.evaluation.judging.reduce import reduce_predictions
from calibrant.evaluation.parts import ranked as module
from calibrant.evaluation.parts.ranked import (
    BinnedScores,
    ExactScores,
    _within,
    ordered_error,
    ranks_of,
    top_of,
)
from calibrant.evaluation.quantities import QUANTITIES, optional_keys
from calibrant.evaluation.quantity import EventError, EventInfluence
from calibrant.evaluation.resampling.event_cells import BIN_KINDS, BinnedEvents
from calibrant.evaluation.resampling.events import Events, binned_error, error_of_totals
from calibrant.evaluation.resampling.resamples import EventErrors
from calibrant.evaluation.source import samples_of
from calibrant.predictions import Predictions
from calibrant.predictions.partitioned import PartitionedPredictions

ORDERED = [
    each
    for each in QUANTITIES
    if isinstance(each.computed, EventInfluence)
    or (
        isinstance(each.computed, EventError) and BIN_KINDS.get(each.computed.kernel or "width l1") != "width"
    )
]
"""What bins of equal width do not know."""


@pytest.fixture
def none_kept(monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_KEPT", 0)
    monkeypatch.setattr(module, "MOST_EVENTS", 0)


def drawn(num_samples: int, *, round_to: int = 15) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities of an event, some 0 and some 1, what happened (label 0), and batches."""
    rng = np.random.default_rng(0)
    log_odds = 4 * rng.normal(size=num_samples)
    stated = np.round(1 / (1 + np.exp(-log_odds)), round_to)
    stated[:20] = np.repeat([0.0, 1.0], 10)
    happened = log_odds * 0.8 + rng.logistic(size=num_samples) > 0
    return stated[:, None], 1 - happened.astype(int), np.arange(num_samples) % 64


@pytest.mark.parametrize(
    ("top", "round_to", "weighted"),
    [(False, 2, False), (True, 2, True), (True, 15, False), (False, 15, True)],
)
def test_cells_tell_what_all_samples_do(top, round_to, weighted) -> None:
    stated, labels, batches = drawn(5000, round_to=round_to)
    weights = np.random.default_rng(1).integers(0, 3, len(stated)).astype(float) if weighted else None
    of_few, of_many = top_of(1 << 20, 64), top_of(1 << 21, 64)
    ranks = ranks_of(1, 1 << 23, 64, clusters=False)
    assert isinstance(of_few, ExactScores)
    assert isinstance(of_many, BinnedScores)
    for each in (of_few, of_many, ranks):
        each.add(stated, labels, weights, batches)
    kept, celled = (each.event(top=top) for each in (of_few, of_many))
    for quantity in ORDERED:
        computed = quantity.computed
        if isinstance(computed, EventInfluence):
            one, other = (computed.value(each)[0] for each in (kept, celled))
        else:
            one, other = (ordered_error(each, computed, 15) for each in (kept, celled))
        within = 1e-11 if round_to == 2 else 1e-6
        if quantity.key == "adaptive_ece" and weighted:
            within = 3e-4  # a bin ends with a whole sample, which may weigh two
        assert one == pytest.approx(other, abs=within), quantity.key
    (area,), totals = of_few.areas(np.arange(64))
    (found,), spread = ranks.areas(np.arange(64))
    assert found == pytest.approx(area, abs=1e-12 if round_to == 2 else 1e-6)
    assert error_of_totals(spread) == pytest.approx(error_of_totals(totals), rel=0.05)


def test_areas_of_linear_densities_are_exact_beside_the_ends() -> None:
    """Of samples that rise and others that fall over 24 cells: ties alone miss 24 times as much."""
    edges = np.linspace(0, 1, 25)
    rising, falling = np.diff(edges**2), np.diff(edges * (2 - edges))
    ties = float(rising @ (np.cumsum(falling) - falling / 2))
    exact = 1 - 1 / 6  # of 2x against 2 (1 - x)
    assert abs(ties - exact) > 2e-4
    ends = abs(ties + _within(np.arange(24), rising, falling) - exact)
    assert ends < abs(ties - exact) / 20


def test_areas_of_classes_are_averaged_over_those_that_occur() -> None:
    """Of cells as of all samples, and the batches move their mean alike; without both sides there is none."""
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(4000, 4))
    labels = (logits[:, :3] + rng.gumbel(size=(4000, 3))).argmax(axis=1)
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    batches, filled = np.arange(4000) % 64, np.arange(64)
    kept = ranks_of(4, 4000, 64, clusters=False)
    for clusters in (False, True):
        celled = ranks_of(4, 1 << 23, 64, clusters=clusters)
        for each in (kept, celled) if clusters else (celled,):
            each.add(probs, labels, None, batches)
    (theirs, totals), (mine, spread) = kept.areas(filled), celled.areas(filled)
    assert mine[3] is theirs[3] is None
    assert mine[:3] == pytest.approx(theirs[:3], abs=3e-5)
    assert error_of_totals(spread) == pytest.approx(error_of_totals(totals), rel=0.05)
    for each in (ranks_of(2, number, 64, clusters=False) for number in (1, 1 << 23)):
        each.add(probs[:1, :2], labels[:1], None, np.zeros(1, int))
        assert each.areas(filled[:1]).areas == (None, None)


def test_batches_stand_for_others_where_classes_are_many() -> None:
    """Of 256 batches 24 are looked at, or more where the classes are fewer; of very many classes none."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(150), size=3000)
    labels = (probs.cumsum(axis=1) < rng.random((3000, 1))).sum(axis=1)
    batches, filled = np.arange(3000) % 256, np.arange(256)
    kept = ranks_of(150, 3000, 256, clusters=False)
    celled = ranks_of(150, 1 << 20, 256, clusters=False)
    for each in (kept, celled):
        each.add(probs, labels, None, batches)
    assert (celled.every, celled.of_groups.shape[1]) == (10, 24)
    errors = [error_of_totals(each.areas(filled).totals) for each in (kept, celled)]
    assert errors[1] == pytest.approx(errors[0], rel=0.45)  # 24 of them tell it within 15 %
    assert ranks_of(3000, 1 << 20, 256, clusters=False).areas(filled).totals is None


def test_cells_ascend_and_fold() -> None:
    """From 0 to 1, each in its coarse cell; folded they are those of the larger of p and 1 - p."""
    stated = np.sort(np.concatenate([drawn(3000)[0][:, 0], [0.5, 1e-300, 2.0**-40, 1 - 2.0**-53]]))
    labels, ones = (np.arange(len(stated)) % 3 > 0).astype(int), np.ones(len(stated))
    for bits in (0, 6):
        cells, ranks = np.zeros((2, num_fine(bits), 3)), np.zeros((2, 1, num_fine(bits)))
        of_groups = np.zeros((2, 1, 1, NUM_COARSE))
        rank_in_cells(stated[:, None], 1 - labels, ones, 0 * labels, 1, bits, ranks, of_groups)
        add_to_cells(stated, labels, ones, bits, cells[0])
        top, right = np.maximum(stated, 1 - stated), (labels == 1) == (stated > 0.5)
        add_to_cells(top, right.astype(int), ones, bits, cells[1])
        mass, sums, happened = cells[0].T
        assert np.array_equal(ranks[:, 0], [mass, happened])
        assert (np.diff((sums / np.where(mass, mass, 1))[mass > 0]) > 0).all()
        coarse = np.stack([np.bincount(coarse_of(bits), each) for each in (mass, happened)])
        assert np.allclose(of_groups[:, 0, 0], coarse)
        assert folded(cells[0])[1:] == pytest.approx(folded(cells[1])[1:])


def test_cells_of_a_table_are_those_of_its_parts(tmp_path, none_kept) -> None:
    """Sent back as pickles from wherever, and close to the rows in memory; weights and two classes too."""
    rng = np.random.default_rng(0)
    for num_classes in (2, 3):
        logits = 2 * rng.normal(size=(600, num_classes)).astype(np.float32)
        labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
        folder = tmp_path / str(num_classes)
        folder.mkdir()
        held = Predictions(logits=logits, labels=labels, weights=rng.integers(1, 3, 600))
        for k in range(2):
            held.rows(np.arange(600) // 300 == k).save(folder / f"{k}.parquet")
        table = PartitionedPredictions(folder)

        def sent(task, items):
            found = {item: pickle.dumps(task(item)) for item in reversed(items)}
            return (pickle.loads(found[item]) for item in items)

        there = samples_of(table, 15, spread=sent).samples
        here = samples_of(table, 15)
        assert isinstance(there.top, BinnedScores)
        for one, other in ((there.top, here.samples.top), (there.ranks, here.samples.ranks)):
            assert np.array_equal(one.cells, other.cells)
        assert np.array_equal(there.ranks.of_groups, here.samples.ranks.of_groups)
        known = reduce_predictions(held if num_classes > 2 else held.as_binary(), 15, metrics=optional_keys())
        for key, value in here.reduced(optional_keys()).values.items():
            within = 5e-3 if "adaptive" in key else 3e-5  # of 600 samples, which weigh one or two
            assert value == pytest.approx(known.values[key], abs=within), key


def test_bins_of_equal_mass_share_out_cells() -> None:
    """Hits of a cell state more than misses do on average; an edge within the cell does not part them."""
    rng = np.random.default_rng(0)
    stated = rng.random(20_000)
    happened = rng.random(20_000) < stated
    place, batch = (stated * 10).astype(int), np.arange(20_000) % 16
    rows, row = np.unique((batch * 10 + place) * 2 + happened, return_inverse=True)
    mass = np.bincount(row).astype(float)
    means, cell = np.bincount(row, stated) / mass, rows // 2 % 10
    of_cells = (np.bincount(place, stated) / np.bincount(place))[cell]
    exact = binned_error(stated, happened.astype(float), None, num_bins=7, binning="mass", norm="l1")
    arguments = means, (rows % 2).astype(float), mass, rows // 20, mass, mass
    found = {
        each is None: [
            BinnedEvents(Events(*arguments, each), 7).cells("mass l1").observed,
            EventErrors(Events(*arguments, each), 7)(np.ones((1, len(rows)), np.uint8))["mass l1"][0],
        ]
        for each in (None, of_cells)
    }
    assert found[False] == pytest.approx([exact] * 2, abs=2e-3)
    assert min(found[True]) > 4 * exact  # as if an edge sorted a cell by what happened
