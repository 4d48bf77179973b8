"""Names for things that Python's type system cannot say about tensors."""

from typing import Any

# A backend tensor, a Keras variable or a NumPy array: the three share no base
# class across backends, so the name is documentation and not a check.
Tensor = Any
