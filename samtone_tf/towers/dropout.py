"""Dropout as a function of a seed: no state, so that a pass can be repeated with the same masks."""

import zlib

import keras
from keras import ops

from samtone_tf.types import Tensor


def dropout(inputs: Tensor, rate: float, seed: Tensor | None, place: str) -> Tensor:
    """Zeroes a share of the numbers and divides the others by what is kept, 1 - rate.

    Args:
        inputs: any floating shape and dtype.
        rate: the share, 0 to 1; 0 changes nothing.
        seed: integers `(2,)`; None changes nothing, which is inference.
        place: a name; places with different names draw different masks from one seed.
    """
    if seed is None or rate == 0:
        return inputs
    if keras.backend.backend() == "tensorflow":
        from samtone_tf.towers import tensorflow_dropout

        return tensorflow_dropout.dropout(inputs, rate, fold(seed, place))
    return keras.random.dropout(inputs, rate, seed=_Given(fold(seed, place)))


def fold(seed: Tensor | None, place: str) -> Tensor | None:
    """A seed for one of several places, from the seed that they have in common; None stays None."""
    if seed is None:
        return None
    return ops.bitwise_xor(seed, ops.convert_to_tensor([zlib.crc32(place.encode()), 0], seed.dtype))


class _Given(keras.random.SeedGenerator):
    """Hands out one given seed: Keras's draws take numbers and generators, but no tensors."""

    def __init__(self, seed: Tensor):
        # Nothing of the parent's: that would be a variable.
        self.seed = seed

    def next(self, ordered: bool = True) -> Tensor:
        return self.seed
