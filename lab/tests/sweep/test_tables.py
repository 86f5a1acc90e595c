"""Tables of results: what stands in the cells, what is tested, and what is said below."""

import itertools
import math
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from scipy import stats

from calibrant._math.errors import InputError
from calibrant._math.means import mean_of
from calibrant_lab.sweep.tasks.task import RunResult
from calibrant_lab.tables import Layout, Options, Table, build_table, layout_named
from calibrant_lab.tables.build import SIGNIFICANCE, adjusted, against_all, compare, read
from calibrant_lab.tables.figures import draw, position, quantity_of
from calibrant_lab.tables.layout import usual_layout, varying
from calibrant_lab.tables.words import notes, show
from results_by_hand import CIFAR, make_result, sweep, values

THREE = {"cross-entropy": 0.06, "brier": 0.03, "mmce": 0.05}
LAYOUT = Layout.read({"rows": ["loss"], "cells": [{"metric": "ece"}]})


def cell(table: Table, *labels: str) -> Any:
    """The first cell whose row and column have these labels."""
    return next(each for each in table.cells.itertuples() if {*labels} <= {*each.at.split(", ")})


def bests(table: Table) -> list[bool]:
    return [bool(p < SIGNIFICANCE) for p in table.cells["best_p"]]


def of_losses(values_: dict[str, Sequence[float]], **settings: Any) -> list[RunResult]:
    return [
        make_result({"loss": loss, **settings, "seed": seed}, {"uncalibrated": {"ece": value}})
        for loss, each in values_.items()
        for seed, value in enumerate(each)
    ]


def test_a_cell_is_the_mean_of_its_runs() -> None:
    """Mean and interval over seeds, scaled; what moves all arms alike widens no interval of differences."""
    results = sweep(THREE)
    table = build_table(LAYOUT, results, Options(against="cross-entropy"))
    found, expected = cell(table, "brier"), mean_of([100 * each for each in values(results[5:10])])
    assert (found.mean.value, found.mean.half_width) == pytest.approx((expected.value, expected.half_width))
    assert "n = 5" in notes(table)[0]
    assert found.difference.half_width < 0.3 * found.mean.half_width
    assert found.adjusted < SIGNIFICANCE
    assert [*table.cells["p"].notna()] == [True, False, True]  # brier, cross-entropy, mmce


def test_rows_of_networks_are_the_runs_own() -> None:
    """`model` is a setting where no paper is asked for: each network has its row, whoever wrote it."""
    networks = ("mlp(widths=(8,))", "resnet(depth=50)", "mine:Net")
    runs = [run for model in networks for run in of_losses({"brier": [0.1, 0.2]}, model=model)]
    table = build_table(usual_layout(runs), runs)
    assert (len(table.rows), table.unplaced) == (3, 0)
    assert table.cells["mean"].notna().all()


def test_best_is_bold_only_beyond_noise() -> None:
    """The lowest mean is marked if it is told from the nearest other one; as one of two alike it is not."""
    clear = build_table(LAYOUT, sweep(THREE))
    assert bests(clear) == [True, False, False]  # brier, cross-entropy, mmce
    alike = build_table(LAYOUT, sweep({"cross-entropy": 0.06, "brier": 0.03, "mmce": 0.0301}))
    assert not any(bests(alike))


def test_where_more_is_better_the_highest_is_best() -> None:
    cells = [{"metric": "accuracy"}, {"parameter": "temperature", "stage": "temperature"}]
    results = [
        replace(each, metrics={"temperature": {"accuracy": 0.9 - 0.1 * place + 0.001 * (place % 3)}})
        for place, each in enumerate(sweep({"brier": 0.1, "mmce": 0.2}, seeds=4))
    ]
    table = build_table(Layout.read({"rows": ["loss"], "cells": cells}), results)
    assert bests(table) == [True, False, False, False]


def test_many_tests_are_accounted_for() -> None:
    """The same differences decide less the more of them stand in the table; uncorrected they do not."""
    two: dict[str, Sequence[float]] = {"brier": [0.30, 0.31, 0.33, 0.30], "mmce": [0.31, 0.33, 0.34, 0.33]}
    alone = build_table(LAYOUT, of_losses(two))
    assert bests(alone) == [True, False]
    many = [each for name in "abcdef" for each in of_losses(two, **{"data.name": name})]
    layout = Layout.read({"rows": ["data.name", "loss"], "cells": [{"metric": "ece"}]})
    assert not any(bests(build_table(layout, many)))
    assert sum(bests(build_table(layout, many, Options(correction="none")))) == 6
    assert "over 6 groups" in notes(build_table(layout, many))[1]


def test_two_seeds_decide_nothing_and_say_so() -> None:
    table = build_table(LAYOUT, sweep(THREE, seeds=2), Options(against="mmce"))
    assert not any(bests(table))
    said = " ".join(notes(table))
    assert "(2 of 2 comparisons)" in said
    assert "over 0" not in said  # no method adjusts none
    assert "Nothing is bold" in said
    assert show(table).cells[0][0][1].text.endswith("?")


def test_signs_of_few_seeds_decide_nothing_and_say_so() -> None:
    table = build_table(LAYOUT, sweep(THREE), Options(against="mmce", test="sign-flip"))
    assert table.cells["adjusted"].min() >= 2 / 2**5
    assert any("cannot fall below p = 0.0625" in note for note in notes(table))


def test_failed_and_diverged_runs_are_counted() -> None:
    lost = [make_result({"loss": "brier", "seed": seed}, status="diverged") for seed in (7, 8)]
    failed = [make_result({"loss": "mdca", "seed": 0}, status="failed")]
    table = build_table(LAYOUT, [*sweep(THREE), *lost, *failed])
    assert cell(table, "brier").mean == cell(build_table(LAYOUT, sweep(THREE)), "brier").mean
    said = notes(table)
    assert "Diverged, and in no mean: 2 of 7 runs of brier." in said
    assert any(note.startswith("Failed, and in no mean: 1 of 1 run of mdca") for note in said)
    assert show(table).cells[2][0][0].text == "– (0 of 1)"


def test_undefined_numbers_say_why() -> None:
    metrics = {"uncalibrated": {"ece": None}}
    bad = make_result({"loss": "brier", "seed": 9}, metrics, undefined={"uncalibrated": {"ece": "one class"}})
    table = build_table(LAYOUT, [*sweep({"brier": 0.03}), bad])
    assert cell(table, "brier").mean == cell(build_table(LAYOUT, sweep({"brier": 0.03})), "brier").mean
    assert "Without a value: ECE: one class (1 run)." in notes(table)


def test_what_a_grid_still_wants_is_said() -> None:
    wanted = [{"loss": loss, "seed": seed} for loss in ("brier", "mmce", "focal") for seed in range(5)]
    results = sweep({"brier": 0.03, "mmce": 0.05}, seeds=4)
    table = build_table(LAYOUT, results, Options(wanted=wanted, whole=True))
    assert show(table).cells[1][0][0].text == "– (0 of 5)"
    assert any("there are 4 of 5 of brier; 0 of 5 of focal; 4 of 5 of mmce" in each for each in notes(table))


def test_several_runs_of_a_seed_are_no_mean() -> None:
    one, other = (
        sweep(THREE, **{"optimiser.learning_rate": lr, "hardware.threads": lr}) for lr in (0.1, 0.2)
    )
    said = r"several runs have seed = 0; they differ in optimiser.learning_rate\."
    with pytest.raises(InputError, match=said):
        build_table(LAYOUT, [*one, *other])
    # Where no two have the same seed, the difference is remarked on.
    assert "Within a cell the runs also differ in optimiser.learning_rate." in notes(
        build_table(LAYOUT, [each for each in [*one[::2], *other[1::2]] if each.settings["loss"] == "brier"])
    )


def test_without_a_layout_what_varies_makes_the_rows() -> None:
    """The axes that vary, not the seed nor what follows it; error, NLL and ECE before and after, and T."""
    results = sweep(THREE, **CIFAR)
    results = [
        replace(each, settings={**each.settings, "data.seed": each.settings["seed"]}) for each in results
    ]
    layout = usual_layout(results)
    assert layout.rows == ("loss",)
    titles = [each.title for each in layout.cells]
    assert titles == ["Error", "Log loss", "ECE", "Log loss after T", "ECE after T", "T"]
    more = [*results, *(replace(each, settings={**each.settings, "data.name": "digits"}) for each in results)]
    assert {*varying(more, "seed")} == {"data.name", "loss"}
    plain = [make_result({"alpha": each, "seed": 0}, {"result": {"gap": each}}) for each in (1.0, 2.0)]
    assert [each.name for each in usual_layout(plain).cells] == ["gap"]
    with pytest.raises(InputError, match="there is no run"):
        usual_layout([])


def test_published_numbers_stand_beside_ours() -> None:
    table = build_table(layout_named("mukhoti-1"), sweep(THREE, **CIFAR))
    found = table.cells.iloc[3]
    assert found["at"] == "CIFAR-10, ResNet-50, Brier"
    assert found["beyond"] == pytest.approx(found["mean"].value - 1.08)
    widths = abs(found["beyond"]) / found["mean"].half_width
    (_, line) = show(table).cells[0][3]
    assert line.text == f"1.08 (1.10): {found['beyond']:+.2f}, {widths:.1f}×"
    assert table.left_out == 9


def test_intervals_of_theirs_are_from_their_deviation() -> None:
    """Five trainings with a standard deviation of 0.1 have a half-width of 2.776 × 0.1 / √5."""
    table = build_table(layout_named("komisarenko-1"), [])
    of_a_tenth = [each.theirs for each in table.cells.itertuples() if each.theirs and each.fact.sd == "0.1"]
    assert of_a_tenth == pytest.approx([2.776445 * 0.1 / 5**0.5] * len(of_a_tenth), rel=1e-6)
    assert of_a_tenth


def test_networks_beyond_the_paper_get_rows_of_their_own() -> None:
    table = build_table(layout_named("mukhoti-1"), sweep(THREE, **{"data.name": "digits", "model": "mlp"}))
    assert table.rows == [("digits", "mlp")]
    assert table.cells["fact"].isna().all()
    other = make_result({"data.name": "digits", "model": "mlp", "loss": "mdca"})
    assert len(build_table(layout_named("mukhoti-1"), [other], Options(whole=True)).rows) == 10


def test_calibrators_of_a_row_are_stages() -> None:
    metrics = {
        stage: {"accuracy": 0.9, "nll": nll, "adaptive_ece": 0.01}
        for stage, nll in (("uncalibrated", 0.4), ("temperature", 0.3), ("focal-temperature", 0.2))
    }
    results = [make_result({**CIFAR, "loss": "focal", "seed": seed}, metrics) for seed in range(3)]
    table = build_table(layout_named("komisarenko-1"), results)
    nlls = [each.mean.value for each in table.cells.itertuples() if each.quantity.name == "nll" and each.mean]
    assert nlls == pytest.approx([0.3, 0.2])


def test_a_stage_that_stands_in_is_said() -> None:
    """The paper chose T by ECE; where the runs have only T by likelihood, a note says so."""
    said = notes(build_table(layout_named("mukhoti-1"), sweep(THREE, **CIFAR)))
    assert any("runs have temperature" in note for note in said)


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ({"metric": "ece"}, 0.25),
        ({"metric": "ece", "stage": "temperature"}, 0.125),
        ({"parameter": "temperature", "stage": "temperature"}, 1.5),
        ({"last": "dynamics.last_layer_norm"}, 7.0),
        ({"setting": "loss.gamma"}, 3.0),
        ({"setting": "training.epochs"}, 12.0),
        ({"more": "out_of_distribution.uncalibrated.auroc"}, 0.75),
        ({"spent": "cpu"}, 2.0),
        ({"metric": "none"}, None),
        ({"metric": "ece", "stage": "isotonic"}, None),
        ({"last": "dynamics"}, None),
        ({"setting": "model.depth"}, None),
    ],
)
def test_quantities_are_read_where_they_lie(entry, value) -> None:
    """Metrics and parameters of a stage, the last epoch, settings with those of the loss, anything else."""
    result = make_result(
        {"loss": "focal", "training.epochs": 12},
        {"uncalibrated": {"ece": 0.25}, "temperature": {"ece": 0.125}},
        parameters={"temperature": {"temperature": 1.5}},
        more={"out_of_distribution": {"uncalibrated": {"auroc": 0.75}}},
        _rows=lambda: [{"dynamics": {"last_layer_norm": 1.0}}, {"dynamics": {"last_layer_norm": 7.0}}],
    )
    quantity = Layout.read({"rows": ["loss"], "cells": [entry]}).cells[0]
    found = read(quantity, result)
    assert found.value == value
    assert (found.why == "") is (value is not None)


def test_numbers_and_words_are_rows_of_their_own() -> None:
    """1 and True are two values of a setting, though Python calls them equal; quantities can be rows."""
    runs = [
        make_result({"alpha": each, "run": seed}, {"": {"gap": 1.0}}) for seed, each in enumerate([1, True])
    ]
    layout = Layout.read({"rows": ["alpha"], "quantities": "rows", "cells": [{"metric": "gap"}]})
    table = build_table(layout, runs)
    assert (table.rows, table.columns) == ([("1", "Gap"), ("True", "Gap")], [("",)])


def test_unknown_settings_and_arms_are_refused() -> None:
    with pytest.raises(InputError, match=re.escape("no setting loos; did you mean 'loss'?")):
        build_table(Layout.read({"rows": ["loos"], "cells": [{"metric": "ece"}]}), sweep(THREE))
    with pytest.raises(InputError, match=re.escape("there is no 'briar' among loss; did you mean 'brier'?")):
        build_table(LAYOUT, sweep(THREE), Options(against="briar"))


def test_a_figure_of_two_seeds_shows_the_runs() -> None:
    """The interval of two runs is thirteen times as wide as they lie apart, and is not drawn."""
    runs = of_losses({"brier": [0.03, 0.05], "mmce": [0.06, 0.04]})
    low, high = draw(runs, [quantity_of("ece")], "loss").axes[0].get_ylim()
    assert high - low < 4  # runs span 3 points
    more = of_losses({"brier": [0.03, 0.05, 0.04], "mmce": [0.06, 0.04, 0.05]})
    low, high = draw(more, [quantity_of("ece")], "loss").axes[0].get_ylim()
    assert high - low > 5

    # A setting of the loss is a position; what is no number is a word, and what is not there is none.
    assert position({"loss": "focal(gamma=2)"}, "loss.gamma") == 2.0
    assert position({"loss": "brier"}, "loss.gamma") is None
    assert position({"loss": "brier"}, "loss") == "brier"
    with pytest.raises(InputError, match="has no entry 'temperatur'"):
        quantity_of("temperatur:x")


DRAW = random.Random(3)
FIRST, SECOND = ([DRAW.gauss(0.4, 1) for _ in range(7)] for _ in range(2))
SOME = [0.001, 0.2, 0.012, 0.04, 0.013, 0.9]


def test_p_values_are_those_of_scipy() -> None:
    """The t test is SciPy's; so is the exact one by signs, which cannot fall below 2 / 2^n."""
    first, second = dict(enumerate(FIRST)), dict(enumerate(SECOND))
    assert compare(first, second).p == pytest.approx(stats.ttest_rel(FIRST, SECOND).pvalue, rel=1e-12)
    found = stats.permutation_test((FIRST, SECOND), lambda a, b: (a - b).mean(), permutation_type="samples")
    assert compare(first, second, "sign-flip").p == pytest.approx(found.pvalue, rel=1e-12)
    ahead = dict(enumerate([1.0, 1.1, 5.0, 0.2, 0.3]))
    assert compare(ahead, dict.fromkeys(ahead, 0.0), "sign-flip").p == 2 / 2**5

    # Only common seeds count.
    one, other = {0: 1.0, 1: 2.0, 5: 3.5, 9: 80.0}, {5: 2.0, 1: 1.0, 0: 0.5, 4: -7.0}
    found = compare(one, other)
    assert (found.difference.value, found.difference.n) == (1.0, 3)
    assert found.p == pytest.approx(stats.ttest_rel([1.0, 2.0, 3.5], [0.5, 1.0, 2.0]).pvalue, rel=1e-12)

    for count in (0, 1, 2):
        found = compare({seed: 100.0 + seed for seed in range(count)}, dict.fromkeys(range(5), 0.0))
        assert (found.p, found.test.partition(":")[0]) == (None, "undecidable")


def test_differences_that_are_all_alike_are_no_certainty() -> None:
    """On a grid of temperatures all differences can be 0.1; a t test would give p = 0 for three seeds."""
    found = compare({0: 1.6, 1: 1.7, 2: 1.5}, {0: 1.5, 1: 1.6, 2: 1.4})
    assert found.p == 2 / 2**3
    assert compare({0: 1.0, 1: 2.0, 2: 3.0}, {0: 1.0, 1: 2.0, 2: 3.0}).p == 1.0
    assert compare(dict.fromkeys(range(20), 1.0), dict.fromkeys(range(20), 0.0)).p == 2 / 2**20


def test_holm_is_the_closure_of_bonferroni() -> None:
    places = range(len(SOME))
    families = [family for size in range(1, len(SOME) + 1) for family in itertools.combinations(places, size)]
    least = {family: min(1.0, len(family) * min(SOME[each] for each in family)) for family in families}
    closed = [max(p for family, p in least.items() if place in family) for place in places]
    assert [*adjusted(SOME, "holm")] == pytest.approx(closed, rel=1e-12)
    undecidable = [math.nan, 0.03, math.nan]  # which are no part of the family
    for correction in ("holm", "benjamini-hochberg", "none"):
        assert [*adjusted(undecidable, correction)] == pytest.approx(undecidable, nan_ok=True)


def test_the_best_must_beat_the_nearest() -> None:
    """The best is compared with the arm from which it is told apart least; one undecidable one suffices."""
    best = {seed: 1.0 + 0.01 * seed**2 for seed in range(5)}
    far = {seed: 9.0 + 0.1 * (seed % 2) for seed in range(5)}
    near = {seed: 1.01 + 0.05 * (seed % 3) for seed in range(5)}
    found = against_all(best, [far, near], "t")
    assert found == compare(best, near)
    assert found.p is not None
    assert found.p > SIGNIFICANCE
    assert against_all(best, [far, {0: 9.0}], "t").p is None
