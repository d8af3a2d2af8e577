"""What TensorFlow, Keras and matplotlib leave behind, seen from fresh processes."""

import json
import os
import subprocess
import sys

import pytest

# What a user's shell may have set.
SETTINGS = ("ALBERT_TF_LOG", "TF_CPP_MIN_LOG_LEVEL", "KERAS_BACKEND", "KERAS_HOME")
SETTINGS += ("MPLCONFIGDIR", "XDG_CACHE_HOME")


def alone(code, **environment):
    """Returns what a fresh process prints to stdout and to stderr."""
    kept = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env={**kept, **environment}, capture_output=True, text=True)
    return done.stdout, done.stderr


HIDDEN = r"""
import os, sys
from albert_tf.quiet import hidden_stderr
with hidden_stderr():
    os.write(2, b"of a library\n")
    print("of Python", file=sys.stderr)
    print(os.environ.get("TF_CPP_MIN_LOG_LEVEL"))
    {more}
print("later", file=sys.stderr)
os.write(2, b"the end\n")
print(os.environ.get("TF_CPP_MIN_LOG_LEVEL"))
"""


def test_lines_of_libraries_are_hidden_and_those_of_python_shown():
    assert alone(HIDDEN.format(more="")) == ("3\nNone\n", "of Python\nlater\nthe end\n")


def test_a_log_handler_created_inside_still_writes():
    """TensorFlow and absl create theirs when they are imported."""
    code = """
import logging
from albert_tf.quiet import hidden_stderr
with hidden_stderr():
    logging.basicConfig(format="%(message)s")
    logging.warning("inside")
logging.warning("later")
"""
    assert alone(code) == ("", "inside\nlater\n")


@pytest.mark.parametrize(
    ("given", "level"),
    [({"ALBERT_TF_LOG": "debug"}, "None"), ({"TF_CPP_MIN_LOG_LEVEL": "1"}, "1")],
)
def test_a_user_sees_all_lines_on_request(given, level):
    printed, errors = alone(HIDDEN.format(more=""), **given)
    assert printed.splitlines() == [level, level]
    assert errors == "of a library\nof Python\nlater\nthe end\n"


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_pipeline_imports_tensorflow_without_its_lines():
    code = """
from albert_tf import pipeline
print(pipeline("sentence-order", "small")(("She opened the door.", "Nobody was there."))["label"])
"""
    assert alone(code) == ("in_order\n", "")


def test_an_error_shows_what_was_hidden():
    _, errors = alone(HIDDEN.format(more="raise ValueError('wrong')"))
    assert errors.startswith("of Python\nof a library\nTraceback")
    assert errors.endswith("ValueError: wrong\n")


def test_a_closed_stderr_hides_nothing():
    code = "import os; os.close(2); from albert_tf.quiet import hidden_stderr\n"
    assert alone(code + "with hidden_stderr(): print('inside')") == ("inside\n", "")


CODE = """
import sys
from albert_tf.quiet import import_tensorflow, without_home_files
with without_home_files():
    import_tensorflow()
    import keras
    assert "matplotlib" not in sys.modules
    print(keras.backend.backend(), keras.config.epsilon())
    from matplotlib.figure import Figure
    Figure().add_subplot().text(0, 0, "text")
import os
print(os.environ.get("KERAS_HOME"), os.environ.get("MPLCONFIGDIR"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("home", ["{tmp}", "/dev/null/home"])
def test_the_home_folder_stays_as_it_was(tmp_path, home):
    assert alone(CODE, HOME=home.format(tmp=tmp_path)) == ("tensorflow 1e-07\nNone None\n", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("variable", [None, "KERAS_HOME"])
def test_a_users_own_files_are_honoured(tmp_path, variable):
    own = json.dumps({"backend": "tensorflow", "epsilon": 2e-7, "floatx": "float32"})
    folder = tmp_path / ("elsewhere" if variable else ".keras")
    folder.mkdir()
    (folder / "keras.json").write_text(own)
    (tmp_path / ".config" / "matplotlib").mkdir(parents=True)
    given = {variable: str(folder)} if variable else {}
    assert alone(CODE, HOME=str(tmp_path), **given)[0].startswith("tensorflow 2e-07\n")
    assert (folder / "keras.json").read_text() == own
    assert os.listdir(folder) == ["keras.json"]
    assert (tmp_path / ".cache" / "matplotlib").is_dir()
