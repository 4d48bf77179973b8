"""`RunConfig`: all sections together, as `config.yaml` holds them."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from samtone_tf.config.data import DataConfig
from samtone_tf.config.defaults import FROM_PRETRAINED, FROM_SCRATCH
from samtone_tf.config.loss import LOSSES, LossConfig
from samtone_tf.config.model import ModelConfig
from samtone_tf.config.train import TrainConfig
from samtone_tf.config.validation import ValidationConfig


@dataclass(frozen=True)
class RunConfig:
    """Everything `train` needs besides the folder it writes.

    Args:
        data: where the pairs come from.
        model: the two towers.
        loss: what is minimised.
        train: optimizer and length of the run.
        validation: retrieval tests during training.
    """

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)

    def __post_init__(self):
        # What suits depends on where the weights come from, which is another section's matter.
        suits = FROM_PRETRAINED if self.model.is_pretrained else FROM_SCRATCH
        if self.loss.temperature is None and "temperature" in LOSSES[self.loss.name]:
            loss = replace(self.loss, temperature=suits["temperature"])
            object.__setattr__(self, "loss", loss)
        if self.train.learning_rate is None and self.model.is_pretrained:
            train = replace(self.train, learning_rate=suits[self.train.optimizer])
            object.__setattr__(self, "train", train)

    @property
    def validation_every(self) -> int:
        """Steps between validations: `validation.every`, or a tenth of the run."""
        return self.validation.every or max(1, self.train.steps // 10)

    def to_dict(self) -> dict[str, Any]:
        """Nested plain dict, as `config.yaml` holds it."""
        return asdict(self)


SECTIONS = {
    "data": DataConfig,
    "model": ModelConfig,
    "loss": LossConfig,
    "train": TrainConfig,
    "validation": ValidationConfig,
}
"""Section of a configuration → its class."""
