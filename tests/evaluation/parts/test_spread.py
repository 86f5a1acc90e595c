"""Tables shared out by engines: the same bits, also where a worker dies."""

import json
import os
import signal

import numpy as np
import pytest

from calibrant import Predictions, evaluate, load_predictions
from calibrant.calibrators import TemperatureScaling, build
from calibrant.evaluation import check
from calibrant.evaluation.parts.source import fit_in_passes, sample
from calibrant.evaluation.parts.sums import Deal
from calibrant.evaluation.spread import Spread, in_order, spreading
from calibrant.predictions.partitioned import PartitionedPredictions


def test_no_more_is_asked_for_than_memory_holds() -> None:
    asked: list[int] = []

    def submit(item: int) -> int:
        asked.append(item)
        return -item

    answers = in_order(submit, range(9), ahead=3, get=abs)
    assert next(answers) == 0
    assert asked == [0, 1, 2]
    assert list(answers) == list(range(1, 9))


def written(folder) -> Predictions:
    """Four files with some logits and a split; the same rows in memory.

    Beside them are folders of confidences alone, and of two labels for each sample.
    """
    rng = np.random.default_rng(0)
    for name in ("confidences", "labels"):
        folder.with_name(name).mkdir()
    for k in range(4):
        sure, odds = rng.beta(4, 2, 300), rng.normal(size=(300, 2))
        Predictions(confidence=sure, correct=rng.random(300) < sure**1.5).save(
            folder.with_name("confidences") / f"{k}.parquet"
        )
        Predictions(logits=2 * odds, labels=(odds + rng.logistic(size=odds.shape) > 0).astype(int)).save(
            folder.with_name("labels") / f"{k}.parquet"
        )
        logits = 2 * rng.normal(size=(500, 3))
        labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
        Predictions(logits=1.5 * logits, labels=labels, split=np.arange(500) % 2).save(
            folder / f"{k}.parquet"
        )
    return load_predictions(folder)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of sockets and processes that Ray leaves to be collected
@pytest.mark.parametrize("death", ["none", "worker", "raylet"])
def test_engines_give_the_same_bits_and_ray_survives_a_death(death, tmp_path, cluster) -> None:
    """One process, a pool of two and two raylets agree to the last bit, also where a worker or a raylet dies.

    Evaluation, gate and fitted temperature are also those of the rows in memory.
    """
    folder = tmp_path / "classes"
    folder.mkdir()
    memory = written(folder)
    table = PartitionedPredictions(folder)
    others = [PartitionedPredictions(tmp_path / name) for name in ("confidences", "labels")]
    once = tmp_path / "killed"

    def judged(spread: Spread) -> tuple[str, str, list[str], list[str]]:
        some = sample(table, Deal.of(table, 15, fits=True), "fit", 10**6, seed=0, spread=spread)
        deal, fitted = Deal.of(table, 15, fits=True), [build("temperature"), build("focal-temperature")]
        for each in fitted:
            fit_in_passes(each, table, some, deal, spread=spread)
        quick = {"bootstrap": 20, "spread": spread}
        return (
            evaluate(table, calibrators=["temperature"], null_draws=40, **quick).to_json(),
            check(table, {"ece": 0.02}, **quick).to_json(),
            [float(each.temperature).hex() for each in fitted] + [float(fitted[1].gamma).hex()],
            [evaluate(each, calibrators=["platt"], null_draws=40, **quick).to_json() for each in others],
        )

    with spreading("serial") as spread:
        wanted = judged(spread)
    if death == "none":
        whole = json.loads(evaluate(memory, calibrators=[], bootstrap=20, null_draws=40).to_json())
        parts = json.loads(wanted[0])
        for key in ("ece", "classwise_ece", "nll", "brier", "accuracy", "gap"):
            found, known = (each["arms"][0]["metrics"][key]["value"] for each in (parts, whole))
            assert found == pytest.approx(known, rel=1e-9)
        alone = TemperatureScaling().fit(memory.calibration.scores, memory.calibration.labels)
        assert float.fromhex(wanted[2][0]) == pytest.approx(float(alone.temperature), rel=1e-9)
        with spreading("pool", jobs=2) as spread:
            assert judged(spread) == wanted
    with spreading(f'ray(address="{cluster.address}")', jobs=2) as spread:

        def with_a_death(task, items):
            def done(item):
                part = item[0] if isinstance(item, tuple) else item  # with the share of rows to draw
                if death == "worker" and part.number == 2 and not once.exists():
                    once.write_text("")
                    os.kill(os.getpid(), signal.SIGKILL)
                return task(item)

            for place, found in enumerate(spread(done, items)):
                if death == "raylet" and place == 1 and not once.exists():
                    once.write_text("")
                    cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
                yield found

        assert judged(with_a_death) == wanted
    assert once.exists() == (death != "none")
