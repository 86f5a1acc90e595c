"""Boosted segments: a planted one is found, none is imagined."""

import pickle

import numpy as np
import pytest
import torch

from calibrant.calibrators import fit_segments
from calibrant.metrics import negative_log_likelihood

SITES = np.array(["east", "north", "south"])


def samples(seed: int, count: int = 3000, *, off: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict]:
    """Log-odds, the right ones, outcomes and columns; ``off`` in the south of those above 60."""
    rng = np.random.default_rng(seed)
    columns = {
        "site": rng.choice(SITES, count),
        "age": rng.uniform(20, 90, count),
        "noise": rng.normal(size=count),
    }
    log_odds = 1.5 * rng.normal(size=count)
    right = log_odds + off * ((columns["site"] == "south") & (columns["age"] > 60))
    labels = (rng.random(count) < 1 / (1 + np.exp(-right))).astype(int)
    return log_odds, right, labels, columns


def test_a_planted_segment_is_found_without_its_name() -> None:
    """Of what the right log-odds would gain on new samples, trees gain most; pickle keeps them."""
    log_odds, _, labels, columns = samples(0, off=-2.5)
    fitted = fit_segments(log_odds, labels, columns)
    assert fitted.gain > 2 * fitted.standard_error
    log_odds, right, labels, columns = samples(1, off=-2.5)
    probs = fitted.predict_proba(log_odds, columns)
    before, best = (
        negative_log_likelihood(torch.from_numpy(scores).sigmoid(), labels) for scores in (log_odds, right)
    )
    assert negative_log_likelihood(probs, labels) < before - 0.6 * (before - best)
    assert torch.equal(pickle.loads(pickle.dumps(fitted)).predict_proba(log_odds, columns), probs)


@pytest.mark.parametrize("seed", range(4))
def test_right_probabilities_are_left_or_changed_by_noise_alone(seed: int) -> None:
    log_odds, _, labels, columns = samples(seed, 1000, off=0.0)
    fitted = fit_segments(log_odds, labels, columns, most_rounds=15)
    if not fitted.trees:
        assert torch.equal(fitted.predict_proba(log_odds, columns), torch.from_numpy(log_odds).sigmoid())
    new, _, labels, columns = samples(seed + 100, 5000, off=0.0)
    losses = [
        -torch.from_numpy(np.where(labels, p, 1 - p)).log()
        for p in (fitted.predict_proba(new, columns).numpy(), 1 / (1 + np.exp(-new)))
    ]
    rise = losses[0] - losses[1]
    assert rise.mean() <= 3 * rise.std() / 5000**0.5 + 1e-3


def test_weights_of_zero_and_unseen_texts() -> None:
    """Samples of weight zero teach nothing, so labels turned round do no harm; a new site is none."""
    log_odds, _, labels, columns = samples(2, off=-2.5)
    aside = np.arange(3000) % 2 == 0
    spoilt = np.where(aside, 1 - labels, labels)
    fitted = fit_segments(log_odds, spoilt, columns, weights=(~aside).astype(float), most_rounds=20)
    assert fitted.gain > 2 * fitted.standard_error
    probs = fitted.predict_proba([0.0], {"site": ["west"], "age": [70.0], "noise": [0.0]})
    assert probs.shape == (1,)
