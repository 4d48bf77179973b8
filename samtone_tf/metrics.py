"""What a training step reports: running means over the steps since the last reset."""

import keras


class StepMetrics:
    """The metrics of one model, updated once per step with numbers of the global batch.

    loss: mean per pair, in nats. accuracy: share of queries whose positive scores
    highest of all columns. masked_fraction: share of columns masked as false negatives.
    temperature: that of the loss after each step, learned or constant.
    """

    def __init__(self):
        self.loss = keras.metrics.Mean(name="loss")
        self.accuracy = keras.metrics.Mean(name="accuracy")
        self.masked_fraction = keras.metrics.Mean(name="masked_fraction")
        self.temperature = keras.metrics.Mean(name="temperature")

    def all(self) -> list[keras.metrics.Metric]:
        """In the order in which a progress bar shows them."""
        return [self.loss, self.accuracy, self.masked_fraction, self.temperature]
