"""What `optax.adafactor` does with gradients that a formula gives, for test_adafactor.py.

`python -m tests.optimizers.optax_numbers` prints the numbers that are stored there. optax is no
dependency of this package; it was installed next to it, with the jax and chex it needs.
"""

import numpy as np

# One large matrix, one with a dimension below 128, a vector, a scalar, stacks of both kinds.
SHAPES = [(160, 130), (130, 160), (32, 12), (200,), (), (3, 4, 5), (2, 140, 130), (140, 2, 130)]
STEPS = 200
RATE = 1e-2


def name_of(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def start(shape: tuple[int, ...]) -> np.ndarray:
    """Weights of several sizes, none random: the same with every version of NumPy."""
    place = np.arange(1, 1 + np.prod(shape, dtype=int))
    return (0.1 * np.sin(place * 0.7)).reshape(shape).astype("float32")


def gradient(shape: tuple[int, ...], step: int) -> np.ndarray:
    """One that hardly repeats, with rows and steps of different sizes."""
    place = np.arange(1, 1 + np.prod(shape, dtype=int))
    value = np.sin(place * (1.3 + 0.37 * step)) * (1 + place % 7) * (2 + np.cos(step))
    return value.reshape(shape).astype("float32")


def rate(step):
    """Linear to 0, without this package's schedules."""
    return RATE * (1 - step / STEPS)


def sample(weight: np.ndarray) -> list[float]:
    """Four single numbers and the sum."""
    flat = np.asarray(weight, "float64").ravel()
    return [*flat[:: max(1, flat.size // 4)][:4].tolist(), float(flat.sum())]


def optax_weights(scaled: bool) -> dict[str, np.ndarray]:
    """The weights after all steps, by shape."""
    import jax
    import jax.numpy as jnp
    import optax

    optimizer = optax.adafactor(rate, multiply_by_parameter_scale=scaled)
    weights = {name_of(shape): jnp.asarray(start(shape)) for shape in SHAPES}
    state = optimizer.init(weights)
    update = jax.jit(optimizer.update)
    for step in range(STEPS):
        gradients = {name_of(shape): jnp.asarray(gradient(shape, step)) for shape in SHAPES}
        updates, state = update(gradients, state, weights)
        weights = optax.apply_updates(weights, updates)
    return {name: np.asarray(weight) for name, weight in weights.items()}


if __name__ == "__main__":
    for scaled in (True, False):
        for name, weight in optax_weights(scaled).items():
            print(f"    ({name!r}, {scaled}): {[float(f'{x:.9g}') for x in sample(weight)]},")
