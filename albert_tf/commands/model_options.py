"""The option by which commands are told of a trained model."""

import argparse


def add_model_option(parser: argparse.ArgumentParser) -> None:
    """Declares `--model`."""
    parser.add_argument("--model", required=True, help="model directory, name on the hub, or small")
