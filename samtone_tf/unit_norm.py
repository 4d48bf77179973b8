"""Unit length in float32, with a gradient that is finite everywhere."""

from keras import ops

from samtone_tf.types import Tensor


def unit_norm(vectors: Tensor) -> Tensor:
    """Scales each row to length 1, in float32.

    A zero row stays zero and has gradient zero, so that one empty text cannot
    put NaN (from 0/0) or 1e7 (from an epsilon under the root) into the weights.

    Args:
        vectors: any float dtype, `(..., D)`.

    Returns:
        float32, `(..., D)`; rows of length 1, or 0 where the input row is 0.
    """
    vectors = ops.cast(vectors, "float32")
    squares = ops.sum(ops.square(vectors), axis=-1, keepdims=True)
    # 1e-30 and not 0: below it the square root of a float32 loses its meaning.
    is_zero = squares < 1e-30
    # Two `where`s: with one, the branch that is not taken still has the
    # gradient inf, and 0 * inf is NaN.
    inverse = ops.rsqrt(ops.where(is_zero, ops.ones_like(squares), squares))
    return ops.where(is_zero, ops.zeros_like(vectors), vectors * inverse)
