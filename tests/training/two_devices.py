"""Calls a function on two logical devices: `two_devices.py MODULE FUNCTION ARGUMENTS_JSON`."""

import importlib
import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

if __name__ == "__main__":
    (device,) = tf.config.list_physical_devices("CPU")
    logical = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(device, logical)
    module, function, arguments = sys.argv[1:]
    getattr(importlib.import_module(module), function)(**json.loads(arguments))
