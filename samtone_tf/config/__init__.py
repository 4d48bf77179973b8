"""What a run is made of, as frozen dataclasses: typed, printable, and checked when they are made.

Only numbers, strings and lists live here, so that a configuration can be a YAML
file, command-line flags, or the `config.yaml` of a run folder. No Keras here.
"""

from samtone_tf.config.data import DataConfig
from samtone_tf.config.defaults import FROM_PRETRAINED, FROM_SCRATCH
from samtone_tf.config.loss import LOSSES, MASKS, LossConfig, mask_rules
from samtone_tf.config.model import INITS, ModelConfig
from samtone_tf.config.parts import (
    ARCHITECTURES,
    FROZEN,
    PARTS,
    check_adapters_train,
    frozen_parts,
    shared_parts,
)
from samtone_tf.config.run import SECTIONS, RunConfig
from samtone_tf.config.train import STRATEGIES, TrainConfig
from samtone_tf.config.validation import ValidationConfig

__all__ = [
    "ARCHITECTURES",
    "FROM_PRETRAINED",
    "FROM_SCRATCH",
    "FROZEN",
    "INITS",
    "LOSSES",
    "MASKS",
    "PARTS",
    "SECTIONS",
    "STRATEGIES",
    "DataConfig",
    "LossConfig",
    "ModelConfig",
    "RunConfig",
    "TrainConfig",
    "ValidationConfig",
    "check_adapters_train",
    "frozen_parts",
    "mask_rules",
    "shared_parts",
]
