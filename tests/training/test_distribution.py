"""Strategies and precisions, accepted and refused."""

import json
import os
import socket
import subprocess
import sys
import types
from pathlib import Path

import keras
import pytest
import tensorflow as tf

from albert_tf.errors import UserError
from albert_tf.options import cores
from albert_tf.training import distribution
from albert_tf.training.distribution import JAX_CLUSTER, errors_of_lost_hosts

ROOT = Path(__file__).resolve().parents[2]
TWO = {"worker": ["127.0.0.1:1", "127.0.0.1:2"]}
VARIABLES = ("TF_CONFIG", "TPU_NAME", *JAX_CLUSTER)


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def tf_config(cluster, kind, index):
    return json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})


def of_named_hosts():
    """Returns a fake strategy of the hosts in TF_CONFIG, which need not exist."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    return types.SimpleNamespace(cluster_resolver=resolver)


def run(code, **variables):
    """Runs code in a fresh process; returns its last line of output."""
    inherited = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    code = f"from albert_tf.training import distribution\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**inherited, "TF_CPP_MIN_LOG_LEVEL": "3", **variables},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.splitlines()[-1]


def error_of(strategy, **variables):
    """Returns the message with which a fresh process refuses a strategy."""
    code = f"try: distribution.strategy_for('{strategy}')\nexcept ValueError as error: print(error)"
    return run(code, **variables)


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", ["none", "auto"])
def test_one_device(name):
    strategy = distribution.strategy_for(name)
    assert strategy is tf.distribute.get_strategy()
    assert (distribution.replicas(strategy), distribution.hosts(strategy)) == (1, (0, 1))
    assert distribution.is_chief(strategy)


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "value",
    [
        "",
        "worker 0 of 2",
        "[]",
        '{"cluster": {"worker": 2}, "task": {"type": "worker", "index": 0}}',
        json.dumps({"cluster": TWO}),
        tf_config(TWO, "worker", 2),
        tf_config(TWO, "worker", -1),
        tf_config(TWO, "worker", "first"),
        tf_config(TWO, "chief", 0),
        tf_config({**TWO, "ps": ["127.0.0.1:3"]}, "worker", 0),
    ],
)
def test_several_hosts_must_be_named(value, monkeypatch):
    """Without the error each host would train and write alone."""
    monkeypatch.setenv("TF_CONFIG", value)
    for name in ("multi-worker", "auto") if value else ("multi-worker",):
        with pytest.raises(UserError, match="TF_CONFIG must .* Received: .*--strategy none"):
            distribution.strategy_for(name)


@pytest.mark.tensorflow
@pytest.mark.parametrize("value", ["{}", tf_config({"chief": ["127.0.0.1:1"]}, "chief", 0)])
def test_a_lone_host_that_a_cloud_names(value, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", value)
    assert distribution.replicas(distribution.strategy_for("auto")) == 1


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("kind", "index", "expected"), [("chief", 0, 0), ("worker", 0, 1), ("worker", 1, 2)]
)
def test_the_numbers_of_hosts(kind, index, expected, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", tf_config({**TWO, "chief": ["127.0.0.1:3"]}, kind, index))
    strategy = of_named_hosts()
    assert distribution.hosts(strategy) == (expected, 3)
    assert distribution.is_chief(strategy) == (expected == 0)


@pytest.mark.tensorflow
def test_another_host_is_gone(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", tf_config(TWO, "worker", 1))
    gone = tf.errors.UnavailableError(None, None, "\nConnection reset by peer\nand so on")
    said = r"another host was lost \(Connection reset by peer\)\."
    with pytest.raises(UserError, match=said), errors_of_lost_hosts(of_named_hosts()):
        raise gone
    with (
        pytest.raises(tf.errors.UnavailableError),
        distribution.errors_of_lost_hosts(tf.distribute.get_strategy()),
    ):
        raise gone  # a strategy of one host


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_port_in_use():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        places = [f"127.0.0.1:{taken.getsockname()[1]}", "127.0.0.1:1"]
        found = error_of("auto", TF_CONFIG=tf_config({"worker": places}, "worker", 0))
    assert f"address in TF_CONFIG: {places[0]} (" in found


@pytest.mark.slow
@pytest.mark.tensorflow
def test_all_logical_devices_of_this_host_alone():
    """By default MirroredStrategy includes the hosts of TF_CONFIG."""
    code = (
        "import tensorflow as tf\n"
        "device, = tf.config.list_physical_devices('CPU')\n"
        "logical = [tf.config.LogicalDeviceConfiguration()] * 3\n"
        "tf.config.set_logical_device_configuration(device, logical)\n"
        "found = [distribution.strategy_for(name) for name in ('mirrored', 'none')]\n"
        "import os; del os.environ['TF_CONFIG']\n"
        "found.append(distribution.strategy_for('auto'))\n"
        "print([(distribution.replicas(each), distribution.hosts(each)[1]) for each in found])"
    )
    assert run(code, TF_CONFIG=tf_config(TWO, "worker", 1)) == "[(3, 1), (1, 1), (3, 1)]"


@pytest.mark.slow
@pytest.mark.tensorflow
def test_without_a_tpu():
    assert "No TPU was found (local: " in error_of("tpu")


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("before", "variables", "expected"),
    [
        ("", {}, (max(1, cores() // 2), 2)),
        ("threading.set_inter_op_parallelism_threads(5)\n", {}, (0, 5)),
        ("", {"TF_NUM_INTEROP_THREADS": "3"}, (0, 0)),
        ("", {"TF_CONFIG": "{}"}, (0, 0)),
        ("tf.constant(1.0)\n", {}, (0, 0)),  # TensorFlow has begun
    ],
)
def test_threads_are_shared_where_nobody_chose_them(before, variables, expected):
    code = (
        "import tensorflow as tf\n"
        f"threading = tf.config.threading\n{before}"
        "distribution.share_threads()\n"
        "print((threading.get_intra_op_parallelism_threads(),"
        " threading.get_inter_op_parallelism_threads()))"
    )
    assert run(code, **variables) == str(expected)


@pytest.mark.tensorflow
@pytest.mark.parametrize("sign", ["device", "name"])
def test_a_tpu_comes_before_hosts(sign, monkeypatch):
    """Tests the code up to TensorFlow's call with a fake TPU."""
    asked = []
    if sign == "name":
        monkeypatch.setenv("TPU_NAME", "grpc://10.0.0.1:8470")
    else:
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["TPU:0"])
    monkeypatch.setenv("TF_CONFIG", tf_config(TWO, "worker", 0))
    monkeypatch.setattr(
        tf.distribute.cluster_resolver.TPUClusterResolver,
        "connect",
        lambda *place: asked.extend(place),
    )
    monkeypatch.setattr(tf.distribute, "TPUStrategy", lambda resolver: "the TPU's")
    assert distribution.strategy_for("auto") == "the TPU's"
    assert asked == [{"device": "local", "name": "grpc://10.0.0.1:8470"}[sign]]


@pytest.mark.tensorflow
@pytest.mark.skipif(sys.version_info < (3, 11), reason="Keras 3.12 makes none on TensorFlow")
def test_keras_distribution_would_be_ignored():
    refused = pytest.raises(UserError, match="JAX.* on tensorflow. Set KERAS_B")
    with keras.distribution.DataParallel().scope(), refused:
        distribution.strategy_for("auto")


@pytest.mark.backends
@pytest.mark.parametrize(
    ("backend", "strategy", "message"),
    [
        ("jax", "tpu", "No TPU was found, only cpu devices."),
        ("jax", "multi-worker", "KERAS_DISTRIBUTION_PROCESS_ID"),
        ("torch", "mirrored", "one device only. Received: strategy=mirrored"),
    ],
)
def test_what_another_backend_refuses(backend, strategy, message):
    assert message in error_of(strategy, KERAS_BACKEND=backend)


@pytest.mark.backends
def test_one_device_on_torch():
    code = "print([distribution.strategy_for(name) for name in ('auto', 'none')])"
    assert run(code, KERAS_BACKEND="torch") == "[None, None]"
