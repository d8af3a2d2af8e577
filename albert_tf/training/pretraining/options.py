"""What a pretraining run is asked for; the defaults are the paper's recipe."""

import dataclasses
from pathlib import Path
from typing import Any, Final, Literal

from albert_tf.errors import UserError
from albert_tf.training.options import Form, check_ranges


@dataclasses.dataclass(frozen=True)
class PretrainingOptions:
    """What `pretrain` is asked for.

    Attributes:
        data: a directory of `build-data`, or a glob of the original code's files.
        output: the model directory to make.
        size: a named size or a configuration file, for random weights.
        init_checkpoint: weights to begin with, in any format that `from_pretrained` reads.
        vocab: vocabulary file or model folder, for `data` that has none with it.
        eval_data: held-out records; scored every `eval_steps`, if given, and at the end.
        batch_size: examples of an update, over all replicas and hosts.
        micro_batches: parts in which a replica's examples are computed, to save memory.
        steps, warmup_steps: updates, and how many of them the learning rate rises.
        learning_rate: at its peak. power, schedule: see `WarmupPolynomialDecay`.
        bias_correction: of the moments, as Keras has it and the original has not.
        clip_norm: of all gradients together; 0 leaves them.
        ema: momentum of an average of the weights, which is evaluated and saved at the end.
        dropout: of the encoder, in the place of the configuration's.
        gradient_checkpointing: compute each block again for its gradient instead of keeping it.
        jit_compile: by XLA; on one device alone (JAX always compiles).
        strategy: see `runtime`.
        save_steps, save_minutes: from one checkpoint to the next, whichever comes first.
        keep: newest checkpoints that stay.
        force: replace an earlier result, or an interrupted run.
    Source of the defaults: ALBERT, arXiv 1909.11942, section 4.1; google-research/albert,
        run_pretraining.py.
    """

    data: str
    output: Path
    size: str | None = None
    init_checkpoint: str | None = None
    vocab: str | None = None
    eval_data: str | None = None
    eval_steps: int | None = None
    optimizer: Literal["lamb", "adamw"] = "lamb"
    batch_size: int = 4096
    micro_batches: int = 1
    steps: int = 125_000
    warmup_steps: int = 3125
    learning_rate: float = 0.00176
    power: float = 1.0
    schedule: Form = "original"
    weight_decay: float = 0.01
    beta_1: float = 0.9
    beta_2: float = 0.999
    bias_correction: bool = False
    clip_norm: float = 1.0
    ema: float | None = None
    dropout: float | None = None
    dtype_policy: str = "float32"
    gradient_checkpointing: bool = False
    jit_compile: bool = False
    strategy: str = "auto"
    seed: int = 12345
    save_steps: int = 1000
    save_minutes: float | None = None
    keep: int = 3
    force: bool = False

    def __post_init__(self) -> None:
        check_ranges(self)
        if (self.size is None) == (self.init_checkpoint is None):
            raise UserError(
                "A run begins with a size for random weights (--size base) or with weights "
                f"(--init-checkpoint NAME). Received: size={self.size}, "
                f"init_checkpoint={self.init_checkpoint}."
            )
        if self.warmup_steps >= self.steps:
            raise UserError(
                "The warm-up must be shorter than the run. "
                f"Received: warmup_steps={self.warmup_steps}, steps={self.steps}."
            )

    def decisive(self) -> dict[str, Any]:
        """What decides the run's weights: all but places, how often it saves, and who computes."""
        rest = _PLACES | _HABITS
        values = dataclasses.asdict(self)
        return {name: value for name, value in values.items() if name not in rest}


_PLACES: Final = {"data", "output", "vocab", "size", "eval_data", "strategy"}
_HABITS: Final = {"eval_steps", "save_steps", "save_minutes", "keep", "force", "jit_compile"}
