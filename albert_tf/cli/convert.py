"""`albert-tf convert`"""

from albert_tf.checkpoints import OUTPUTS, ConversionOptions
from albert_tf.files import check_apart, check_free

SUMMARY = "convert a checkpoint to another format"
EXAMPLES = """examples:
  albert-tf convert albert_base_v2/model.ckpt-best my-model --format hf
  albert-tf convert my-model my-half --format hf --dtype float16
  albert-tf convert my-model for-the-original-code --format tf1

Reads Hugging Face directories (safetensors, PyTorch, TensorFlow, Flax), Hub model IDs, TensorFlow 1
checkpoints (a directory, or a path without its suffix), TF-Hub modules, and KerasHub presets.
Writes the format hf (Hugging Face) or tf1 (the original code), and copies the tokenizer files. Then
reads the output and compares it with the input.
"""
OPTIONS = ConversionOptions


def check(options: ConversionOptions) -> None:
    """Finds the input and rejects an output that exists or would replace the input."""
    from albert_tf.checkpoints import finder

    location = finder.find(options.input)
    check_apart(location.weights or location.folder, options.output)
    check_free(options.output, options.force, OUTPUTS[options.format])


def run(options: ConversionOptions) -> int:
    """Converts the checkpoint and prints the report."""
    from albert_tf.checkpoints.conversion import convert

    report = convert(options)
    counts = f"{report['tensors']} tensors, {report['parameters']:,} parameters"
    print(f"{report['input']} -> {report['output']}: {counts}")
    for name in report["files"]:
        print(f"copied    {name}")
    for name in report["left_out"]:
        print(f"left out  {name}: the format can't store it")
    return 0
