"""Scikit-learn's conventions, and what a calibrated classifier must do beyond them."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, GroupKFold, ShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from calibrant import CalibrantWarning, InputError, load_calibrator
from calibrant.calibrators import PlattScaling, TemperatureScaling, available, build
from calibrant.integrations.sklearn import CalibratedClassifier

# Fits on little data have reason to warn; what they warn of is tested where it belongs.
pytestmark = pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")

SEVERAL = [name for name in available() if "multiclass" in build(name).kinds]
"""Methods for any number of classes; scikit-learn's checks have two and three, or two as the tags say."""
OF_TWO = [name for name in available() if "multiclass" not in build(name).kinds]
TRIED = ["temperature", "platt"]
"""One for several classes and one for two: the checks are of the estimator around them."""


@parametrize_with_checks([CalibratedClassifier(LogisticRegression(C=1), cv=3, method=name) for name in TRIED])
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::RuntimeWarning")
def test_sklearns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        CalibratedClassifier(GaussianNB(), cv=3, method=name)
        for name in (*SEVERAL, *OF_TWO, "auto")
        if name not in TRIED
    ]
)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::RuntimeWarning")
def test_sklearns_own_checks_of_the_others(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def events() -> tuple[Any, Any, Any, Any]:
    """Two classes on correlated features, of which naive Bayes is far too sure: train, then test."""
    X, y = make_classification(
        n_samples=3000, n_features=20, n_informative=2, n_redundant=18, class_sep=1.0, random_state=0
    )
    return X[:1500], y[:1500], X[1500:], y[1500:]


@pytest.fixture(scope="module")
def digits() -> tuple[Any, Any, Any, Any]:
    X, y = load_digits(return_X_y=True)
    return X[:1200], y[:1200], X[1200:], y[1200:]


@pytest.mark.parametrize(
    "method",
    ["temperature", 'focal-temperature(objective="brier")', "platt", "isotonic", "vector", "beta", "auto"],
)
def test_two_classes_get_better(events: Any, method: str) -> None:
    """Cross-fitted naive Bayes has a lower log loss on new data, by every method; rows sum to one."""
    X, y, new, truth = events
    plain = log_loss(truth, GaussianNB().fit(X, y).predict_proba(new))
    probs = CalibratedClassifier(GaussianNB(), method=method).fit(X, y).predict_proba(new)
    np.testing.assert_allclose(probs.sum(axis=1), 1, atol=1e-12)
    assert log_loss(truth, probs) < 0.75 * plain


@pytest.mark.parametrize("method", ["temperature", "vector", "structured-matrix"])
@pytest.mark.parametrize("response", ["auto", "predict_proba"])
def test_ten_classes_get_better(digits: Any, method: str, response: str) -> None:
    X, y, new, truth = digits
    words = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
    model = CalibratedClassifier(GaussianNB(), method=method, response=response).fit(X, words[y])
    plain = GaussianNB().fit(X, words[y])
    assert model.classes_.tolist() == sorted(words)
    after = log_loss(words[truth], model.predict_proba(new), labels=model.classes_)
    assert after < 0.6 * log_loss(words[truth], plain.predict_proba(new), labels=plain.classes_)
    if method == "temperature":
        np.testing.assert_array_equal(model.predict(new), plain.predict(new))


def test_margins_become_probabilities(events: Any) -> None:
    X, y, new, truth = events
    model = CalibratedClassifier(LinearSVC(random_state=0), method="platt").fit(X, y)
    best = log_loss(truth, LogisticRegression().fit(X, y).predict_proba(new))
    assert log_loss(truth, model.predict_proba(new)) < 1.05 * best


def test_prefit_is_left_as_it_is(events: Any) -> None:
    """A fitted estimator is not fitted again, and its calibrator is the one its scores give by hand."""
    X, y, new, _ = events
    fitted = LogisticRegression(C=1e-4).fit(X[:700], y[:700])
    before = fitted.coef_.copy()
    model = CalibratedClassifier(fitted, method="platt", cv="prefit").fit(X[700:], y[700:])
    assert model.estimator_ is fitted
    np.testing.assert_array_equal(fitted.coef_, before)
    by_hand = PlattScaling().fit(fitted.decision_function(X[700:]), y[700:])
    expected = by_hand.predict_proba(fitted.decision_function(new)).numpy()
    np.testing.assert_allclose(model.predict_proba(new)[:, 1], expected, atol=1e-12)
    assert (model.predict_proba(X[:0]).shape, model.predict(X[:0]).shape) == ((0, 2), (0,))


def test_frozen_estimators_are_prefit(events: Any) -> None:
    frozen = pytest.importorskip("sklearn.frozen")
    X, y, new, _ = events
    fitted = GaussianNB().fit(X[:700], y[:700])
    one = CalibratedClassifier(frozen.FrozenEstimator(fitted)).fit(X[700:], y[700:])
    other = CalibratedClassifier(fitted, cv="prefit").fit(X[700:], y[700:])
    np.testing.assert_array_equal(one.predict_proba(new), other.predict_proba(new))


def test_cross_fit_is_what_it_says(events: Any) -> None:
    """The calibrator is that of the scores each fold gets from a clone fitted on the other folds."""
    X, y, _, _ = events
    cv = ShuffleSplit(2, test_size=0.4, random_state=0)  # folds that overlap are no trouble
    model = CalibratedClassifier(GaussianNB(), cv=cv).fit(X, y)
    scores, labels = [], []
    for train, test in cv.split(X):
        log_probs = np.log(GaussianNB().fit(X[train], y[train]).predict_proba(X[test]))
        scores.append(log_probs[:, 1] - log_probs[:, 0])
        labels.append(y[test])
    expected = TemperatureScaling().fit(np.concatenate(scores), np.concatenate(labels))
    assert model.calibrator_.temperature.item() == pytest.approx(expected.temperature.item(), rel=1e-12)


def test_forests_with_certain_votes_are_calibrated(digits: Any) -> None:
    """Probabilities of exactly zero and one, as forests give them, have finite log loss afterwards."""
    X, y, new, truth = digits
    model = CalibratedClassifier(RandomForestClassifier(20, random_state=0), cv=3).fit(X, y)
    probs = model.predict_proba(new)
    assert np.isfinite(probs).all()
    assert log_loss(truth, probs) < log_loss(truth, model.estimator_.predict_proba(new))


def test_pipelines_and_searches(events: Any) -> None:
    X, y, new, truth = events
    inside = CalibratedClassifier(make_pipeline(StandardScaler(), LogisticRegression()), cv=3)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), inside),
        {
            "calibratedclassifier__method": ["temperature", "platt"],
            "calibratedclassifier__estimator__logisticregression__C": [1e-4, 1.0],
        },
        scoring="neg_log_loss",
        cv=2,
    ).fit(X[:400], y[:400])
    assert search.best_params_["calibratedclassifier__estimator__logisticregression__C"] == 1.0
    assert search.best_estimator_.score(new, truth) > 0.7
    assert clone(inside).get_params()["method"] == "temperature"


def test_weights_reach_estimator_and_calibrator(events: Any) -> None:
    """Weights of zero are as good as absent rows, where the folds are the same."""
    X, y, new, _ = events
    keep = np.arange(1500) % 5 != 0
    halves = np.arange(1500) < 750
    both = [
        (np.flatnonzero(halves), np.flatnonzero(~halves)),
        (np.flatnonzero(~halves), np.flatnonzero(halves)),
    ]
    places = np.cumsum(keep) - 1
    kept = [tuple(places[part[keep[part]]] for part in pair) for pair in both]
    one = CalibratedClassifier(GaussianNB(), cv=both).fit(X, y, sample_weight=keep.astype(float))
    other = CalibratedClassifier(GaussianNB(), cv=kept).fit(X[keep], y[keep])
    np.testing.assert_allclose(one.predict_proba(new), other.predict_proba(new), atol=1e-8)


def test_auto_says_why(events: Any) -> None:
    """``method="auto"`` keeps the selection; of a calibrated model it may choose to change nothing."""
    X, y, _, _ = events
    model = CalibratedClassifier(GaussianNB(), method="auto").fit(X, y)
    assert str(model.selection_).splitlines()[-1].startswith("Choice: ")
    rng = np.random.default_rng(0)
    new = rng.normal(size=(2000, 2))
    log_odds = new @ [1.0, -0.5]  # what logistic regression finds
    calm = CalibratedClassifier(LogisticRegression(), method="auto")
    calm.fit(new, rng.random(2000) < 1 / (1 + np.exp(-log_odds)))
    assert calm.calibrator_ is None
    np.testing.assert_allclose(calm.predict_proba(new), calm.estimator_.predict_proba(new), atol=1e-12)


def test_the_calibrator_can_be_taken_out(digits: Any, tmp_path: Path) -> None:
    """The fitted calibrator is calibrant's own: it is saved with the names of the classes; all is pickled."""
    X, y, new, _ = digits
    model = CalibratedClassifier(GaussianNB(), cv=3).fit(X, y)
    model.calibrator_.save(tmp_path / "c.safetensors")
    assert load_calibrator(tmp_path / "c.safetensors").class_names_ == tuple("0123456789")
    other = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(other.predict_proba(new), model.predict_proba(new))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "temprature"}, "did you mean 'temperature'"),
        ({"response": "logits"}, '`response` must be one of "auto"'),
        ({"response": "predict_proba", "estimator": LinearSVC()}, "`estimator` must have predict_proba"),
        ({"cv": "prefix"}, "\"prefit\"; got 'prefix'"),
        ({"cv": 40}, "`cv` must be at most 30"),
        ({"cv": "prefit"}, "must be a fitted one"),
        ({"cv": [(np.arange(30), np.arange(60))]}, "one fold has 1 of 2 classes"),
    ],
)
def test_bad_settings_are_said(settings: dict[str, Any], message: str) -> None:
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.repeat([0, 1], 30)
    if isinstance(settings.get("cv"), list):
        settings = {"estimator": GaussianNB(), **settings}
    with pytest.raises(InputError, match=message):
        CalibratedClassifier(**settings).fit(X, y)


class _NeverFitted(GaussianNB):
    def fit(self, *_: Any, **__: Any) -> Any:
        raise AssertionError


def test_what_does_not_go_with_the_classes_is_said(digits: Any, events: Any) -> None:
    X, y, _, _ = digits
    for settings, said in (
        *(({"method": name}, f"Only binary .* `method` {name}, and there are 10") for name in OF_TWO[:3]),
        ({"method": None}, "there is no calibrator 'None'; choose 'temperature'"),
        ({"estimator": LinearRegression()}, "a fitted classifier, with `classes_`; got LinearRegression"),
    ):
        with pytest.raises(InputError, match=said):
            CalibratedClassifier(**{"estimator": _NeverFitted(), "cv": 3, **settings}).fit(X, y)
    by_pairs = make_pipeline(StandardScaler(), SVC(decision_function_shape="ovo"))
    with pytest.raises(InputError, match="Pipeline has one per pair of classes"):
        CalibratedClassifier(by_pairs, cv=3).fit(X[:300], y[:300])
    X, y, _, _ = events
    fitted = GaussianNB().fit(X, y)
    with pytest.raises(InputError, match=r"class that the estimator wasn't fitted on, '2'"):
        CalibratedClassifier(fitted, cv="prefit").fit(X, y + 1)


def test_masked_labels_and_weights_are_refused(events: Any) -> None:
    X, y, *_ = events
    masked = np.ma.array(y, mask=np.arange(len(y)) == 2)
    with pytest.raises(InputError, match="`y` must hold a value in every row; row 2 is masked"):
        CalibratedClassifier(method="platt").fit(X, masked)
    weights = np.ma.array(np.ones(len(y)), mask=np.arange(len(y)) == 3)
    with pytest.raises(InputError, match="`sample_weight` must hold a value in every row; row 3 is masked"):
        CalibratedClassifier(method="platt").fit(X, y, sample_weight=weights)


MODELS: dict[str, Any] = {
    "tree": DecisionTreeClassifier(random_state=0),
    "forest": RandomForestClassifier(10, random_state=0),
    "neighbours": KNeighborsClassifier(),
    "naive Bayes": GaussianNB(),
    "SGD": SGDClassifier(random_state=0),
    "huber": SGDClassifier(loss="modified_huber", random_state=0),
    "SVC": SVC(),
    "SVC by pairs": SVC(decision_function_shape="ovo"),
    "pipeline": make_pipeline(StandardScaler(), SVC()),
}


@pytest.mark.parametrize("num_classes", [2, 4])
@pytest.mark.parametrize("model", MODELS)
def test_every_classifier_with_every_method(model: str, num_classes: int) -> None:
    """Far rows included; a tree's votes and a pipeline's margins meet every method, others every third."""
    X, y = make_classification(240, 8, n_informative=6, n_classes=num_classes, random_state=0)
    new = np.vstack([X[200:], X[:2] * 1e6])
    methods = SEVERAL if num_classes > 2 else available()
    for method in methods if model in {"tree", "pipeline"} else methods[list(MODELS).index(model) % 3 :: 3]:
        classifier = CalibratedClassifier(MODELS[model], method=method, cv=3)
        if model == "SVC by pairs" and num_classes > 2:
            with pytest.raises(InputError, match=r'SVC has one per pair .* decision_function_shape="ovr"'):
                classifier.fit(X[:200], y[:200])
            continue
        probs = classifier.fit(X[:200], y[:200]).predict_proba(new)
        assert np.isfinite(probs).all(), method
        np.testing.assert_allclose(probs.sum(axis=1), 1, atol=1e-9)
        assert set(classifier.predict(new)) <= set(classifier.classes_)


def test_votes_of_none_are_half_a_vote(events: Any) -> None:
    """Zeros of a forest do not decide the slope: Platt scaling is as good as scikit-learn's on the votes."""
    X, y, new, truth = events
    forest = RandomForestClassifier(20, random_state=0)
    ours = CalibratedClassifier(forest, method="platt").fit(X, y)
    theirs = CalibratedClassifierCV(forest, ensemble=False).fit(X, y)
    assert log_loss(truth, ours.predict_proba(new)) < log_loss(truth, theirs.predict_proba(new)) + 0.01


def test_weights_reach_the_end_of_a_pipeline(events: Any) -> None:
    """Weights of a pipeline or a search over one are those of its last step, as of the step alone."""
    X, y, new, _ = events
    weights = np.where(y == 1, 3.0, 1.0)
    alone = CalibratedClassifier(GaussianNB()).fit(X, y, sample_weight=weights).predict_proba(new)
    piped = make_pipeline(FunctionTransformer(), GaussianNB())
    searched = GridSearchCV(piped, {"gaussiannb__var_smoothing": [1e-9]}, cv=2)
    for estimator in (piped, searched):
        found = CalibratedClassifier(estimator).fit(X, y, sample_weight=weights).predict_proba(new)
        np.testing.assert_allclose(found, alone, atol=1e-12)


def test_weights_that_an_estimator_does_not_take_are_said(events: Any) -> None:
    X, y, *_ = events
    for estimator in (KNeighborsClassifier(), make_pipeline(StandardScaler(), KNeighborsClassifier())):
        with pytest.warns(CalibrantWarning, match="KNeighborsClassifier takes no `sample_weight`"):
            CalibratedClassifier(estimator).fit(X, y, sample_weight=np.ones(len(y)))


def test_groups_reach_the_splitter(events: Any) -> None:
    """With GroupKFold no group is on both sides: the same as its pairs of indices."""
    X, y, new, _ = events
    groups = np.arange(len(y)) % 7
    model = CalibratedClassifier(GaussianNB(), cv=GroupKFold(3)).fit(X, y, groups=groups)
    pairs = list(GroupKFold(3).split(X, y, groups))
    other = CalibratedClassifier(GaussianNB(), cv=pairs).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(new), other.predict_proba(new))
