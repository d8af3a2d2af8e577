"""The documented name of `distribution`, kept for code that imports it."""

from albert_tf.training.distribution import (
    STRATEGIES,
    Hosts,
    check_same_step,
    hosts,
    is_chief,
    replicas,
    scope,
    strategy_for,
)

__all__ = [
    "STRATEGIES",
    "Hosts",
    "check_same_step",
    "hosts",
    "is_chief",
    "replicas",
    "scope",
    "strategy_for",
]
