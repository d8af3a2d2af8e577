"""Ten steps on several devices, and on several hosts, end with the weights of one device.

Examples have none to five predictions, so that means over a replica's predictions would differ.
Every step clips gradients, so that clipping on each replica would differ. SGD depends on the scale
of gradients, which LAMB removes.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).with_name("ten_steps.py")
ROOT = SCRIPT.parents[2]
TOLERANCE = 1e-5
RUNS = [{"optimizer": "lamb", "micro_batches": 1}, {"optimizer": "sgd", "micro_batches": 2}]
# Random numbers of JAX don't depend on the device: dropout may be on.
JAX_RUNS = [RUNS[0], {**RUNS[1], "config": {"hidden_dropout_prob": 0.3}}]
on_tensorflow = pytest.mark.tensorflow
on_jax = pytest.mark.backends


def trained(folder, runs, *hosts, devices=None):
    """Trains in a process for each host's environment variables; returns the results of each."""
    clean = ("TF_CONFIG", "TPU_NAME", "KERAS_BACKEND")
    inherited = {name: value for name, value in os.environ.items() if name not in clean}
    settings = json.dumps({"devices": devices, "runs": runs})
    processes = [
        subprocess.Popen(
            [sys.executable, SCRIPT, settings, folder / f"{number}.npz"],
            env={**inherited, "PYTHONPATH": str(ROOT), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number, variables in enumerate(hosts)
    ]
    outputs = [process.communicate()[0] for process in processes]
    assert not any(process.returncode for process in processes), "\n\n".join(outputs)
    return [np.load(folder / f"{number}.npz") for number in range(len(hosts))]


def under(strategy, runs=RUNS):
    return [{"strategy": strategy, **run} for run in runs]


def with_jax(devices, **variables):
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    return {"KERAS_BACKEND": "jax", "XLA_FLAGS": flags, **variables}


def assert_same(expected, found, place):
    for run in range(len(RUNS)):
        assert found[f"{run}/place"].tolist() == place
        start, end = (expected[f"{run}/{name}"] for name in ("start", "weights"))
        np.testing.assert_array_equal(found[f"{run}/start"], start)
        np.testing.assert_allclose(found[f"{run}/weights"], end, rtol=0, atol=TOLERANCE)
        assert np.abs(end - start).max() > 1000 * TOLERANCE
        np.testing.assert_allclose(
            found[f"{run}/losses"], expected[f"{run}/losses"], rtol=1e-5, atol=1e-5
        )
        assert expected[f"{run}/losses"].shape == (10, 3)


def assert_hosts_are_the_same(expected, found, replicas):
    """Also expects that they refuse to resume at unequal steps."""
    for number, one in enumerate(found):
        assert_same(expected, one, [replicas, number, 2])
        message = f"Received: step {number} on host {number}, [{1 - number}] on other hosts."
        assert message in str(one["unequal_steps"])


@pytest.fixture(scope="module")
def one_device(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("one"), under("none"), {})[0]


@on_tensorflow
def test_two_devices(tmp_path, one_device):
    """Turns dropout off: Keras copies its seeds to each device, which then drops the same units."""
    config = {"hidden_dropout_prob": 0.4, "num_hidden_layers": 1}
    drops = {"optimizer": "sgd", "micro_batches": 1, "config": config, "steps": 1}
    half = {**drops, "strategy": "none", "rows": [0, 1, 2, 3]}
    twice = {**drops, "strategy": "mirrored", "rows": [0, 1, 2, 3, 0, 1, 2, 3]}
    (found,) = trained(tmp_path, [*under("auto"), half, twice], {}, devices=2)
    assert_same(one_device, found, [2, 0, 1])

    # The means of twice the same rows, with other units dropped.
    assert np.abs(found["2/losses"] - found["3/losses"]).max() > 1e-4  # rounding: 1e-6


@on_tensorflow
def test_two_hosts(tmp_path, one_device, free_ports):
    places = [f"127.0.0.1:{port}" for port in free_ports(2)]
    tasks = [{"type": "worker", "index": number} for number in range(2)]
    settings = [json.dumps({"cluster": {"worker": places}, "task": task}) for task in tasks]
    hosts = [{"TF_CONFIG": each} for each in settings]
    found = trained(tmp_path, under("multi-worker"), *hosts)
    assert_hosts_are_the_same(one_device, found, replicas=2)


@pytest.fixture(scope="module")
def one_device_of_jax(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("jax"), under("auto", JAX_RUNS), with_jax(1))[0]


@on_jax
def test_four_devices_of_jax(tmp_path, one_device_of_jax):
    (found,) = trained(tmp_path, under("auto", JAX_RUNS), with_jax(4))
    assert_same(one_device_of_jax, found, [4, 0, 1])


@on_jax
def test_two_hosts_of_jax(tmp_path, one_device_of_jax, free_ports):
    (port,) = free_ports(1)
    cluster = {
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": f"127.0.0.1:{port}",
        "KERAS_DISTRIBUTION_NUM_PROCESSES": "2",
    }
    hosts = [with_jax(2, **cluster, KERAS_DISTRIBUTION_PROCESS_ID=str(n)) for n in range(2)]
    found = trained(tmp_path, under("auto", JAX_RUNS), *hosts)
    assert_hosts_are_the_same(one_device_of_jax, found, replicas=4)
