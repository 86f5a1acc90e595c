"""The compiled loops over large tables give what torch gives."""

import pytest
import torch

from calibrant import metrics
from calibrant._math import binning, checks, large_tables
from calibrant._math.binning import binned, width_column_sums
from calibrant._math.checks import check_probs
from calibrant._math.errors import InputError
from calibrant._math.large_tables import is_large, large_width_sums, read_table

NEVER = 1 << 60


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of any size go through the compiled loops, in slices of few rows."""
    monkeypatch.setattr(large_tables, "_SLICE", 50)
    for module in (checks, binning):
        monkeypatch.setattr(module, "is_large", lambda table, least=0: table.device.type == "cpu")  # noqa: ARG005


def table(
    dtype: torch.dtype, num_classes: int = 7, *, coarse: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities, with many ties if ``coarse``, and labels."""
    generator = torch.Generator().manual_seed(3)
    probs = torch.randint(1, 4, (301, num_classes), generator=generator).double()
    if not coarse:
        probs = torch.randn(301, num_classes, generator=generator).double().mul(2).exp()
    probs = (probs / probs.sum(dim=1, keepdim=True)).to(dtype)
    return probs, torch.randint(num_classes, (301,), generator=generator)


@pytest.mark.parametrize(("num_classes", "coarse"), [(7, True), (100, False)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.usefixtures("everything_is_large")
def test_rows(dtype: torch.dtype, num_classes: int, coarse: bool) -> None:
    """Extremes, and of each row the largest value and whether its first place is the label."""
    probs, labels = table(dtype, num_classes, coarse=coarse)
    labels[::2] = probs.argmax(dim=1)[::2]
    found = read_table(probs, labels)
    assert (found.low, found.high) == (probs.min().item(), probs.max().item())
    furthest = (probs.double().sum(1) - 1).abs().max().item()
    assert found.furthest == pytest.approx(furthest, abs=4 * num_classes * torch.finfo(dtype).eps)
    assert torch.equal(found.highest, probs.amax(dim=1).double())
    first = (probs == probs.amax(dim=1, keepdim=True)).double().argmax(dim=1)
    assert torch.equal(found.correct, first == labels)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.usefixtures("everything_is_large")
def test_bins(dtype: torch.dtype, weighted: bool) -> None:
    """Bins are torch's own, values on an edge included: of one column, of classes and of labels."""
    probs, labels = table(dtype, 5)
    edges = binning.width_edges(10)
    probs[:11] = (torch.arange(11) / 10).to(dtype)[:, None]  # on the edges, as the type rounds them
    weights = torch.rand(301, generator=torch.Generator().manual_seed(0)).double() if weighted else None
    several = torch.nn.functional.one_hot(labels, 5)
    for ours, args in (
        (large_width_sums(probs, labels, 10, weights), (probs, labels)),
        (large_width_sums(probs, several, 10, weights), (probs, several)),
    ):
        index = (edges[1:-1] < probs.double().unsqueeze(-1)).sum(-1)  # (N, C)
        occupied = torch.nn.functional.one_hot(index, 10).double()
        mass = torch.ones(301).double() if weights is None else weights
        expected = [
            torch.einsum("n,ncb->cb", mass, occupied),
            torch.einsum("n,nc,ncb->cb", mass, probs.double(), occupied),
            torch.einsum("n,nc,ncb->cb", mass, several.double(), occupied),
        ]
        for part, sums in zip(ours, expected, strict=True):
            assert torch.allclose(part, sums, rtol=0, atol=1e-12), args
    column = probs[:, 0].contiguous()
    ours = large_width_sums(column, several[:, 0], 10, weights)
    assert torch.allclose(ours, torch.stack([sums[0] for sums in expected]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("num_bins", [10, 29, 50, 100])
def test_edges_belong_to_the_bin_below(num_bins: int) -> None:
    """Also where the product with the number of bins is rounded up; the next number is in the bin above."""
    edges = binning.width_edges(num_bins)
    inner = edges[1:-1]
    assert (inner * num_bins > torch.arange(1, num_bins)).any() == (num_bins != 10)
    above = torch.nextafter(inner, torch.ones_like(inner))
    for values, first in ((inner, 0), (above, 1)):
        held = large_width_sums(values, torch.ones_like(values), num_bins, None)[0]
        expected = torch.zeros(num_bins, dtype=torch.float64)
        expected[first : first + num_bins - 1] = 1
        assert torch.equal(held, expected)


def test_metrics_are_the_same_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    probs, labels = table(torch.float32)
    for metric in (metrics.expected_calibration_error, metrics.classwise_calibration_error):
        plain = metric(probs, labels).item()
        with monkeypatch.context() as patch:
            for module in (checks, binning):
                patch.setattr(module, "is_large", lambda table, least=0: True)  # noqa: ARG005
            assert metric(probs, labels).item() == pytest.approx(plain, abs=1e-15)


@pytest.mark.parametrize("bad", [float("nan"), -float("nan"), -0.1, 1.5, None])
@pytest.mark.parametrize("place", [(0, 0), (17, 3), (300, 6)])
@pytest.mark.parametrize("num_classes", [7, 100])
@pytest.mark.usefixtures("everything_is_large")
def test_what_is_amiss_is_told_as_always(bad: float | None, place: tuple[int, int], num_classes: int) -> None:
    """NaN, a value out of range, a row that does not sum to one: the row is named wherever it is."""
    probs, labels = table(torch.float32, num_classes)
    if bad is None:
        probs[place[0]] *= 1.01
    else:
        probs[place] = bad
    with pytest.raises(InputError, match=f"row {place[0]} "):
        check_probs(probs, labels, find_top=True)
    with pytest.raises(InputError, match=f"row {place[0]} "):
        check_probs(probs)


@pytest.mark.parametrize("num_classes", [7, 100])
@pytest.mark.usefixtures("everything_is_large")
def test_minus_zero(num_classes: int) -> None:
    probs, labels = table(torch.float32, num_classes)
    probs[3] = -0.0
    probs[3, 2] = 1.0
    found = check_probs(probs, labels, find_top=True).top
    assert found is not None
    assert torch.equal(found[0], probs.amax(dim=1).double())
    probs[200] = 0.0
    probs[200, :3] = torch.tensor([-0.5, 0.75, 0.75])
    with pytest.raises(InputError, match=r"row 200 holds -0\.5"):
        check_probs(probs, labels)


def test_what_counts_as_large() -> None:
    small = torch.zeros(10, 4)
    assert is_large(small, 40)
    assert not is_large(small, 41)
    assert not is_large(small, NEVER)
    assert not is_large(small.half(), 1)
    assert not is_large(small.t(), 1)
    assert not is_large(torch.zeros(10, 4, device="meta"), 1)


def test_the_number_of_threads_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_tables, "_SLICE", 64)
    confidences = torch.rand(5000, generator=torch.Generator().manual_seed(0)).double()
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(large_width_sums(confidences, confidences > 0.5, 15, None))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_large_tables_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_tables.is_large, "__defaults__", (100,))
    taken = []
    monkeypatch.setattr(checks, "read_table", lambda *args: taken.append("rows") or read_table(*args))
    monkeypatch.setattr(
        binning, "large_width_sums", lambda *args: taken.append("table") or large_width_sums(*args)
    )
    probs, labels = table(torch.float32)
    check_probs(probs, labels)
    width_column_sums(probs, labels, 15)
    binned(probs[:, 0].contiguous(), labels == 0, num_bins=15, binning="width")  # too small for a column
    assert taken == ["rows", "table"]
