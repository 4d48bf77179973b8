"""Which matrices Adafactor keeps as one number per row and one per column."""


def factored_axes(shape: tuple[int, ...], smallest: int = 128) -> tuple[int, int] | None:
    """The largest axis and the second largest, or None for what is kept in full.

    Args:
        shape: of a weight.
        smallest: what both axes must have.
    """
    if len(shape) < 2:
        return None
    *_, second, largest = sorted(range(len(shape)), key=shape.__getitem__)
    return (largest, second) if shape[second] >= smallest else None


def without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """The shape that is left when `axis` is averaged away."""
    return shape[:axis] + shape[axis + 1 :]
