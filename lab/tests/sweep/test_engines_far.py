"""Engines beyond this machine: the same runs through Ray and through submitit, whatever dies on the way."""

import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from begun_sweeps import assert_released, begin_sweep, end_sweep
from calibrant._math.errors import InputError
from calibrant_lab.sweep.engines import Pool, Ray, Serial, Submitit, Work, build_engine
from calibrant_lab.sweep.grid import Grid
from calibrant_lab.sweep.store import Store
from calibrant_lab.sweep.sweep import attempt, sweep
from calibrant_lab.sweep.tasks.task import Item
from calibrant_lab.sweep.tasks.training import Training
from toy_task import toys

CLUSTER = Path(__file__).parents[3] / "docs" / "how-to" / "cluster"
TRAININGS = {
    "recipe": {
        "model": "mlp(widths=(16,), dropout=0.2)",
        "data": {"train": 200, "calibration": 100, "test": 100},
        "optimiser": {"name": "adam"},
        "training": {"epochs": 3, "batch_size": 16},
        "hardware": {"accelerator": "cpu", "threads": 1},
        "evaluation": {"calibrators": ["temperature"]},
    },
    "axes": {"seed": [0, 1]},
}


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ("ray(gpus=2)", "`gpus` must be from 0 to 1; got 2"),
        ("ray(memory=-1)", "`memory` must be at least 0; got -1"),
        ("ray(address='ray://head:10001')", "`address` must be that of the cluster itself"),
        ("ray(jobs=0)", "`jobs` must be at least 1; got 0"),
        ("submitit(runs=0)", "`runs` must be at least 1; got 0"),
        ("submitit(cluster='sge')", "`cluster` must be slurm or local; got 'sge'"),
        ("submitit(partitoin='a')", "did you mean 'partition'"),
    ],
)
def test_settings_are_checked(engine, said) -> None:
    with pytest.raises(InputError, match=said):
        build_engine(engine)


def test_an_engine_that_is_not_installed_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "submitit", None)
    for engine, extra in ((Ray(address="local"), "ray"), (Submitit(), "slurm")):
        with pytest.raises(InputError, match=rf"calibrant\[{extra}\]"):
            engine.submit(attempt, "store", *toys(seed=[0]))


def test_gpus_by_recipe() -> None:
    """One for each device where the recipe may use one; that does not change the name of the run."""
    task = Training()
    for name, value, gpus in (("devices", 2, 2), ("accelerator", "cpu", 0), ("accelerator", "cuda", 1)):
        assert task.gpus(task.complete({f"hardware.{name}": value})) == gpus


def test_a_job_that_is_ended_early_is_queued_with_the_same_runs(tmp_path, monkeypatch) -> None:
    """What submitit is given back at a time limit is the same work, which skips what is done."""
    pytest.importorskip("submitit")
    monkeypatch.chdir(tmp_path)
    items, work = toys(seed=[0, 1]), Work(attempt, str(tmp_path), 1)
    call = (str(tmp_path / "store"), *items)
    assert [ended.state for ended in work(*call)] == ["done", "done"]
    again = work.checkpoint(*call)
    assert (again.function, again.args) == (work, call)
    assert [ended.state for ended in again.result()] == ["done", "done"]


def test_the_script_for_slurm_is_sound() -> None:
    """Bash can read it, and the sweep that it starts is one that the command takes."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    script = CLUSTER / "ray-on-slurm.sh"
    assert subprocess.run([bash, "-n", str(script)], capture_output=True, check=True).stderr == b""
    text = script.read_text(encoding="utf-8")
    (engine,) = re.findall(r'--engine "(ray\(.*\))" &$', text, flags=re.MULTILINE)
    assert isinstance(build_engine(engine.replace('\\"', '"')), Ray)


def test_the_job_for_kubernetes_is_sound() -> None:
    """It is YAML with all that KubeRay requires of a RayJob, and volumes are those that are mounted."""
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load((CLUSTER / "ray-job.yaml").read_text(encoding="utf-8"))
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    spec = job["spec"]["rayClusterSpec"]
    words = shlex.split(job["spec"]["entrypoint"])
    assert words[:2] == ["calibrant", "sweep"]
    assert isinstance(build_engine(words[words.index("--engine") + 1]), Ray)
    for group in spec["workerGroupSpecs"]:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
        assert group["groupName"]
    for group in [spec["headGroupSpec"], *spec["workerGroupSpecs"]]:
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
        pod = group["template"]["spec"]
        volumes = {volume["name"] for volume in pod["volumes"]}
        for container in pod["containers"]:
            assert container["name"]
            assert container["image"]
            assert {mount["name"] for mount in container["volumeMounts"]} == volumes


def trainings() -> tuple[Item, ...]:
    return Grid.read(TRAININGS).items()


def bits(store: Store) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in store.results():
        with np.load(each.file("predictions.npz")) as file:
            found[each.run] = (each.metrics, each.rows, {name: file[name].tobytes() for name in file.files})
    return found


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    store = Store(tmp_path_factory.mktemp("plain"))
    sweep(trainings(), store, Pool(jobs=1))
    found = bits(store)
    assert len(found) == 2
    return found


slow = pytest.mark.slow
loud = pytest.mark.filterwarnings("ignore")  # of sockets and processes that Ray leaves to be collected


@slow
@loud
def test_ray_gives_the_same_bits(tmp_path, cluster, plain) -> None:
    store = Store(tmp_path / "store")
    assert sweep(trainings(), store, Ray(address=cluster.address)).statuses == {"finished": 2}
    assert bits(store) == plain


@slow
@loud
def test_the_work_of_a_node_that_dies_is_done_elsewhere(tmp_path, cluster) -> None:
    store, log = Store(tmp_path / "store"), tmp_path / "log"
    items = toys(seed=list(range(6)), log=[str(log)], seconds=[0.5], steps=[3])
    victim = next(iter(cluster.worker_nodes))

    class Killing(Ray):
        def wait(self, futures: Any, seconds: float) -> Any:
            if victim in cluster.worker_nodes and log.exists() and len(log.read_text().splitlines()) >= 3:
                cluster.remove_node(victim, allow_graceful=False)
                cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20)
            return super().wait(futures, min(seconds, 0.1))

    assert sweep(items, store, Killing(address=cluster.address)).statuses == {"finished": 6}
    assert victim not in cluster.worker_nodes
    begun = log.read_text().splitlines()
    assert len(begun) > 6, "nothing was interrupted"
    assert {each.settings["seed"]: each.value("square") for each in store.results()} == {
        seed: 1.0 + seed for seed in range(6)
    }
    assert all(each.sessions <= 2 for each in store.results())


@slow
@loud
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_driver_that_ends_loses_nothing(tmp_path, cluster, number) -> None:
    store, log = Store(tmp_path / "store"), tmp_path / "log"
    engine = f"ray(address='{cluster.address}')"
    process = begin_sweep(
        tmp_path, engine=engine, seed=list(range(6)), log=[str(log)], seconds=[0.2], steps=[3]
    )
    end_sweep(process, number, log, after=3)
    assert_released(store)
    done = store.done()
    assert 1 <= len(done) < 6
    items = toys(seed=list(range(6)), log=[str(log)], steps=[3])
    assert sweep(items, store, Serial()).statuses == {"finished": 6}
    begun = [line.split()[1] for line in log.read_text().splitlines()]
    assert all(begun.count(str(store.result(run).settings["seed"])) == 1 for run in done)


@slow
@loud
def test_submitit_gives_the_same_bits(tmp_path, monkeypatch, plain) -> None:
    pytest.importorskip("submitit")
    monkeypatch.chdir(tmp_path)
    store = Store(tmp_path / "store")
    engine = Submitit(cluster="local", runs=2)
    assert sweep(trainings(), store, engine).statuses == {"finished": 2}
    assert bits(store) == plain
