"""Predictions from what people have: frames, words for labels, and fitted estimators."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from calibrant import InputError, Predictions, evaluate

NAMES = ["bee", "ant", "cat"]
RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet([1.0, 1.0, 1.0], 40)
PLACES = RNG.integers(0, 3, 40)
WORDS = np.array(NAMES)[PLACES]


class Array:
    """What JAX and others have: the array protocol, and nothing else."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self.values, dtype=dtype)


TABLES: dict[str, Any] = {
    "pandas": pd.DataFrame(PROBS, columns=NAMES),
    "pandas, another index": pd.DataFrame(PROBS, columns=NAMES, index=range(100, 140)),
    "pandas, nullable": pd.DataFrame(PROBS, columns=NAMES).astype("Float64"),
    "pandas, of columns that say what they hold": pd.DataFrame(PROBS, columns=[f"prob_{n}" for n in NAMES]),
    "polars": pl.DataFrame(PROBS, schema=NAMES),
    "pyarrow": pa.table(dict(zip(NAMES, PROBS.T, strict=True))),
}
LABELS: dict[str, Any] = {
    "list": WORDS.tolist(),
    "NumPy": WORDS,
    "NumPy, objects": WORDS.astype(object),
    "pandas": pd.Series(WORDS),
    "pandas, categories in another order": pd.Series(pd.Categorical(WORDS, categories=sorted(NAMES))),
    "pandas, strings of pyarrow": pd.Series(WORDS, dtype="string[pyarrow]"),
    "pandas, a frame of one column": pd.DataFrame({"y": WORDS}),
    "polars": pl.Series(WORDS),
    "polars, an enumeration": pl.Series(WORDS, dtype=pl.Enum(sorted(NAMES))),
    "pyarrow": pa.array(WORDS.tolist()),
    "pyarrow, a dictionary in chunks": pa.chunked_array([WORDS.tolist()]).dictionary_encode(),
}


@pytest.mark.parametrize("table", TABLES)
def test_the_columns_of_a_frame_are_the_classes(table: str) -> None:
    for labels in (pd.Series(WORDS), PLACES, torch.from_numpy(PLACES)):
        found = Predictions(probs=TABLES[table], labels=labels)
        assert found.class_names == tuple(NAMES)
        assert found.labels.tolist() == PLACES.tolist()
        assert np.array_equal(found.probs, PROBS)


@pytest.mark.parametrize("labels", LABELS)
def test_words_of_every_kind_are_matched_by_names(labels: str) -> None:
    """By ``class_names`` and by the columns of a frame."""
    for probs, names in ((PROBS, np.array(NAMES)), (TABLES["pandas"], None)):
        found = Predictions(probs=probs, labels=LABELS[labels], class_names=names)
        assert found.labels.tolist() == PLACES.tolist()


@pytest.mark.parametrize("form", [Array, torch.from_numpy, pa.array, pd.Series, pl.Series, np.ndarray.tolist])
def test_arrays_of_every_kind_hold_the_samples(form: Callable[..., Any]) -> None:
    column = PROBS[:, 0].copy()
    given = {
        "probs": column,
        "labels": PLACES % 2,
        "weights": 1 + column,
        "groups": PLACES,
        "clusters": PLACES,
    }
    found = Predictions(**{name: form(values) for name, values in given.items()})
    assert np.array_equal(found.probs, column)
    assert found.labels.tolist() == (PLACES % 2).tolist()
    assert found.groups == found.clusters == tuple(map(str, PLACES))


def test_nameless_columns_are_no_names() -> None:
    """The numbers of pandas and ``column_0`` of polars; other numbers are names."""
    assert Predictions(probs=pd.DataFrame(PROBS), labels=PLACES).class_names is None
    assert Predictions(probs=pl.DataFrame(PROBS), labels=PLACES).class_names is None
    found = Predictions(probs=pd.DataFrame(PROBS, columns=[5, 6, 7]), labels=PLACES + 5)
    assert found.labels.tolist() == PLACES.tolist()


def test_a_frame_of_one_column_is_an_event() -> None:
    found = Predictions(probs=pd.DataFrame({"churn": PROBS[:, 0]}), labels=PLACES % 2)
    assert (found.kind, found.class_names) == ("binary", None)


def test_several_labels_are_matched_by_column() -> None:
    truth = pd.get_dummies(pd.Series(WORDS))
    assert truth.columns.tolist() == sorted(NAMES) != NAMES
    found = Predictions(probs=TABLES["pandas"], labels=truth, kind="multilabel")
    assert np.array_equal(found.labels, np.eye(3)[PLACES])


def test_of_two_words_one_is_positive() -> None:
    """Its score is the one that is given; of two columns, it is the event."""
    words = np.array(["ham", "spam"])[PLACES % 2]
    for positive, labels in (("spam", PLACES % 2), ("ham", 1 - PLACES % 2)):
        found = Predictions(probs=PROBS[:, 0], labels=words, positive_class=positive)
        assert found.labels.tolist() == labels.tolist()
        assert found.class_names == (({"ham", "spam"} - {positive}).pop(), positive)
    two = np.stack([PROBS[:, 0], 1 - PROBS[:, 0]], axis=1)
    event = Predictions(probs=two, labels=words, class_names=["ham", "spam"], positive_class="ham")
    assert (event.kind, event.class_names) == ("binary", ("spam", "ham"))
    assert np.array_equal(event.probs, PROBS[:, 0])


@pytest.mark.parametrize("name", ["labels", "split", "weights", "groups", "clusters"])
def test_the_same_index_in_another_order_is_refused(name: str) -> None:
    table = TABLES["pandas"]
    given = {"labels": PLACES, "split": PLACES % 2, "weights": 1 + PLACES, "groups": WORDS, "clusters": WORDS}
    series = {each: pd.Series(values) for each, values in given.items()}
    shuffled = series[name].sample(frac=1, random_state=0)
    with pytest.raises(InputError, match=rf"`{name}` has .* \(`{name} = {name}\.loc\[probs\.index\]`\), or"):
        evaluate(probs=table, **series | {name: shuffled}, **FAST)
    found = Predictions(probs=table, **series | {name: shuffled.loc[table.index]})
    again = Predictions(probs=table, **given)
    for each in given:
        assert list(getattr(found, each)) == list(getattr(again, each))
    by_position = Predictions(probs=table, **series | {name: shuffled.reset_index(drop=True)})
    assert list(getattr(by_position, name)) != list(getattr(again, name))


def test_another_index_says_nothing() -> None:
    labels = pd.Series(PLACES)
    for index in (range(40), range(100, 140), [*range(39, 0, -1), 77]):
        found = Predictions(probs=TABLES["pandas"], labels=labels.set_axis(index))
        assert found.labels.tolist() == PLACES.tolist()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"labels": [None, *WORDS[1:]], "class_names": NAMES},
            "missing in 1 of 40 rows; row 0 holds 'nan'; drop",
        ),
        ({"labels": pd.Series([np.nan, *WORDS[1:]]), "class_names": NAMES}, "missing in 1 of 40 rows; row 0"),
        ({"labels": np.char.upper(WORDS), "class_names": NAMES}, r"holds '[A-Z]*'; did you mean '[a-z]*'\?"),
        ({"probs": pd.DataFrame(PROBS), "labels": WORDS}, r"as in `class_names=clf\.classes_`"),
        ({"labels": WORDS}, r"^[^.]*name the columns in their order, as in `class_names=clf\.cl"),
        ({"probs": PROBS[:, 0], "labels": WORDS == "ant", "groups": [np.nan] * 40}, "or call it 'unknown'"),
        (
            {"probs": PROBS[:, 0], "labels": np.where(PLACES, "spam", "ham"), "positive_class": "spm"},
            r"must be one of the labels, (spam|ham) or (spam|ham); got 'spm'; did you mean 'spam'\?",
        ),
    ],
)
def test_what_words_lack_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises((InputError, TypeError), match=said):
        Predictions(**{"probs": PROBS} | given)


def test_names_beside_columns_that_say_others_are_refused() -> None:
    """The same in another order, or other ones; columns that are counted have no names."""
    for names, said in (
        (sorted(NAMES), "in another order; leave"),
        (["x", "y", "z"], "name the classes; le"),
    ):
        with pytest.raises(
            InputError, match=rf"class 0 is '{names[0]}' and column 0 is called 'bee'.*{said}"
        ):
            evaluate(probs=TABLES["pandas"], labels=WORDS, class_names=names, **FAST)
    for columns in (["bee", "ant", "cat"], ["P(bee)", "P(ant)", "P(cat)"], ["p1", "p2", "p3"], [0, 1, 2]):
        found = Predictions(probs=pd.DataFrame(PROBS, columns=columns), labels=WORDS, class_names=NAMES)
        assert found.labels.tolist() == PLACES.tolist()
    for columns in ([3, 1, 2], [1, 2, 3]):
        with pytest.raises(InputError, match="another order"):
            Predictions(probs=pd.DataFrame(PROBS, columns=columns), class_names=[2, 3, 1])


@pytest.mark.parametrize("names", [["True", "False"], ["false", "true"]])
def test_true_and_false_are_names_where_classes_are_called_so(names: list[str]) -> None:
    truth = PLACES == 1
    places = (truth == (names[1].lower() == "true")).astype(int)
    two = np.stack([PROBS[:, 0], 1 - PROBS[:, 0]], axis=1)
    forms = (truth, truth.tolist(), pd.Series(truth), torch.from_numpy(truth), places)
    for labels in forms:
        for probs, named in ((two, names), (pd.DataFrame(two, columns=names), None)):
            found = Predictions(probs=probs, labels=labels, class_names=named)
            assert found.labels.tolist() == places.tolist()
    turned = pd.DataFrame({True: PROBS[:, 0], False: 1 - PROBS[:, 0]})
    assert (
        Predictions(probs=turned, labels=truth).correct.tolist() == (truth == (PROBS[:, 0] >= 0.5)).tolist()
    )


FAST: dict[str, Any] = {"bootstrap": 20, "null_draws": 50, "calibrators": ["temperature"]}


def test_evaluate_takes_arrays() -> None:
    given = {"labels": WORDS, "class_names": NAMES, "weights": 1 + PROBS[:, 0], "clusters": PLACES}
    whole = evaluate(Predictions(probs=PROBS, **given), **FAST)
    assert evaluate(probs=PROBS, **given, **FAST) == whole
    answers = {"confidence": PROBS.max(axis=1), "correct": PROBS.argmax(axis=1) == PLACES}
    assert evaluate(**answers, **FAST) == evaluate(Predictions(**answers), **FAST)
    event = evaluate(
        logits=PROBS[:, 0], labels=np.where(PLACES == 1, "up", "down"), positive_class="up", **FAST
    )
    assert event.class_names == ("down", "up")


X = RNG.normal(size=(300, 4))
Y = np.array(NAMES)[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0)]
ESTIMATORS: dict[str, Any] = {
    "forest of votes": KNeighborsClassifier(5),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
    "search": GridSearchCV(GaussianNB(), {"var_smoothing": [1e-9, 1e-3]}, cv=2),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_say_their_probabilities(name: str) -> None:
    """Those of ``predict_proba``, zeros included, with classes by name, and what belongs to the samples."""
    fitted = ESTIMATORS[name].fit(X[:200], Y[:200])
    found = Predictions.from_estimator(
        fitted, X[200:], pd.Series(Y[200:]), sample_weight=np.arange(1, 101), groups=Y[200:]
    )
    assert np.array_equal(found.probs, fitted.predict_proba(X[200:]))
    assert found.class_names == tuple(sorted(NAMES))
    assert found.groups == tuple(Y[200:])
    right = fitted.predict(X[200:]) == Y[200:]
    assert found.correct.tolist() == right.tolist()


def test_new_samples_of_an_estimator_need_no_classes() -> None:
    fitted = GaussianNB().fit(X, Y)
    found = Predictions.from_estimator(fitted, X[:1])
    assert (found.labels, found.class_names, len(found)) == (None, tuple(sorted(NAMES)), 1)
    assert len(Predictions.from_estimator(fitted, X).rows([7])) == 1


def test_samples_and_classes_in_another_order_are_refused() -> None:
    fitted = GaussianNB().fit(X, Y)
    with pytest.raises(InputError, match=r"`y` has the index of `X` .* \(`y = y\.loc\[X\.index\]`\)"):
        Predictions.from_estimator(fitted, pd.DataFrame(X), pd.Series(Y).iloc[::-1])


def test_margins_count_as_logits() -> None:
    """Where there are no probabilities, or where they are asked for; of two classes they are log-odds."""
    several = LinearSVC().fit(X, Y)
    found = Predictions.from_estimator(several, X, Y)
    assert (found.kind, found.space) == ("multiclass", "logits")
    assert np.array_equal(found.scores, several.decision_function(X))
    two = LogisticRegression().fit(X, Y == "ant")
    event = Predictions.from_estimator(two, X, Y == "ant", response="decision_function")
    assert (event.kind, event.class_names) == ("binary", None)
    assert np.allclose(event.probs, two.predict_proba(X)[:, 1])


def test_classes_that_are_numbers_are_names() -> None:
    """From 1 to 3, of which the labels hold two that could be places."""
    number = 1 + np.searchsorted(sorted(NAMES), Y)
    fitted, chosen = GaussianNB().fit(X, number), number < 3
    found = Predictions.from_estimator(fitted, X[chosen], number[chosen])
    assert found.labels.tolist() == (number[chosen] - 1).tolist()
    assert found.class_names == ("1", "2", "3")


@pytest.mark.parametrize(
    ("estimator", "y", "said"),
    [
        (GaussianNB(), Y, "must be a fitted classifier, with `classes_`; got GaussianNB"),
        (GaussianNB().fit(X, Y), np.where(Y == "ant", "gnu", Y), r"fitted on, 'gnu'; choose 'ant', 'bee'"),
        (SVC(decision_function_shape="ovo").fit(X, (X > 0).sum(1)), (X > 0).sum(1), "one score per class"),
        (KNeighborsClassifier().fit(X, X > 0), X > 0, "one label per sample; for several use"),
        (OneVsRestClassifier(GaussianNB()).fit(X, X > 0), None, "one label per sample; for several use"),
    ],
)
def test_other_estimators_have_one_sentence(estimator: Any, y: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Predictions.from_estimator(estimator, X, y)
