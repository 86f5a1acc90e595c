"""Tensors from whatever the caller has."""

import warnings

import numpy as np
import pytest
import torch

from calibrant._math import arrays
from calibrant._math.arrays import as_float_tensor, as_label_tensor, row_slices
from calibrant._math.errors import InputError


def test_float_dtypes_are_kept() -> None:
    """Floating tensors and arrays keep their dtype; integers, bools and lists become float64."""
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert as_float_tensor(torch.ones(2, dtype=dtype), name="x").dtype == dtype
    assert as_float_tensor(np.ones(2, np.float32), name="x").dtype == torch.float32
    assert as_float_tensor(np.ones(2, np.longdouble), name="x").dtype == torch.float64
    for values in ([1, 0], [True, False], np.ones(2, np.uint16), torch.ones(2, dtype=torch.int32)):
        assert as_float_tensor(values, name="x").dtype == torch.float64


def test_memory_is_shared_where_it_can_be() -> None:
    array = np.ones((3, 2))
    assert as_float_tensor(array, name="x").data_ptr() == array.ctypes.data
    tensor = torch.ones(3, requires_grad=True)
    ours = as_float_tensor(tensor, name="x")
    assert ours.data_ptr() == tensor.data_ptr()
    assert not ours.requires_grad


def test_odd_memory_gives_no_warning() -> None:
    array = np.arange(6.0)
    frozen = array.copy()
    frozen.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for odd in (frozen, array[::-1][::-1], array.astype(">f8")):
            assert as_float_tensor(odd, name="x").tolist() == array.tolist()
        assert as_float_tensor(array[::-1], name="x").tolist() == array[::-1].tolist()


@pytest.mark.parametrize(
    "values", [["a"], [None], [1j], np.array([object()]), torch.ones(1, dtype=torch.cfloat)]
)
def test_what_is_no_real_number_is_refused(values: object) -> None:
    with pytest.raises(TypeError, match="`scores` must"):
        as_float_tensor(values, name="scores")
    with pytest.raises(TypeError, match="`labels` must"):
        as_label_tensor(values, name="labels")


def test_ragged_lists_are_refused() -> None:
    with pytest.raises(InputError, match="`probs` must be rectangular"):
        as_float_tensor([[0.5, 0.5], [1.0]], name="probs")


def test_labels_of_any_whole_dtype() -> None:
    """Every integer and bool dtype, and floats that are whole, become int64."""
    expected = torch.tensor([0, 1, 1])
    for dtype in ("?", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"):
        ours = as_label_tensor(np.array([0, 1, 1], dtype), name="labels")
        assert ours.dtype == torch.int64
        assert torch.equal(ours, expected)
    assert torch.equal(as_label_tensor(expected.to(torch.bfloat16), name="labels"), expected)


@pytest.mark.parametrize("bad", [0.5, np.nan, np.inf])
def test_labels_that_are_not_whole_are_refused(bad: float) -> None:
    with pytest.raises(InputError, match=rf"`labels` must hold whole numbers; row 2 holds {bad}"):
        as_label_tensor([0.0, 1.0, bad], name="labels")


def test_row_slices_cover_every_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "CACHED_ELEMENTS", 10)
    table = torch.arange(23 * 3).reshape(23, 3)
    pieces = [table[rows] for rows in row_slices(table)]
    assert torch.equal(torch.cat(pieces), table)
    assert {len(piece) for piece in pieces[:-1]} == {3}
    assert len(list(row_slices(torch.zeros(2, 50)))) == 2  # a row wider than the limit is one slice


@pytest.mark.parametrize("convert", [as_float_tensor, as_label_tensor])
def test_masked_values_are_refused(convert: object) -> None:
    """The mask would be dropped and the value below it counted; a mask of nothing is no matter."""
    for shape, mask in (((3,), [0, 1, 0]), ((3, 2), [[0, 0], [0, 1], [0, 0]])):
        values = np.ma.array(np.ones(shape), mask=mask)
        words = (
            r"^`x` must hold a value in every row; row 1 is masked; leave masked rows out of every argument"
        )
        with pytest.raises(InputError, match=words):
            convert(values, name="x")
    assert convert(np.ma.array([1, 0], mask=[0, 0]), name="x").tolist() == [1, 0]
