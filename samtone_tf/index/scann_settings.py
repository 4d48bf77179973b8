"""How a ScaNN index is laid out for a corpus of a given size.

The rule, for `n` documents, follows ScaNN's own advice on when to partition:

    n < 20,000            every document is scored in float32 (brute force)
    20,000 ≤ n < 100,000  every document is scored from 4-bit codes, the best are scored again
    100,000 ≤ n           the same within a sixth of √n leaves of a k-means tree

so the defaults lose little (recall@10 of 0.98 on a million clustered vectors), and
the report of every build says how much it was on these vectors.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

BRUTE_FORCE_BELOW = 20_000
TREE_FROM = 100_000
CODES_FROM = 16
"""ScaNN learns 16 codes a block, from as many documents at least."""


@dataclass(frozen=True)
class ScannSettings:
    """Settings of a ScaNN index; None leaves a field to `scann_settings`.

    Args:
        num_leaves: int ≥ 0, partitions of the corpus. 0 is no tree.
        num_leaves_to_search: int ≥ 1, partitions read per query. Fewer is faster
            and finds less.
        reorder: int ≥ 0, candidates scored again in float32. 0 is none, and scores
            are then approximate.
        dims_per_block: int ≥ 0, dimensions behind one 4-bit code. 0 is no codes: float32.
        anisotropic_threshold: float in [0, 1), ScaNN's T; errors along a vector weigh
            more than those across it.
        training_sample_size: int ≥ 1, documents that the partitions are learned from, as
            many as there are partitions at least.
    """

    num_leaves: int | None = None
    num_leaves_to_search: int | None = None
    reorder: int | None = None
    dims_per_block: int | None = None
    anisotropic_threshold: float | None = None
    training_sample_size: int | None = None

    def __post_init__(self) -> None:
        lowest = {
            "num_leaves": 0,
            "num_leaves_to_search": 1,
            "reorder": 0,
            "dims_per_block": 0,
            "training_sample_size": 1,
        }
        for name, least in lowest.items():
            value = getattr(self, name)
            if value is not None and (not _is_int(value) or value < least):
                raise ValueError(
                    f"`{name}` must be an integer of at least {least}. "
                    f"Received: {name}={value!r}. Leave it out for the automatic choice."
                )
        threshold = self.anisotropic_threshold
        if threshold is not None and not 0 <= threshold < 1:
            raise ValueError(
                "`anisotropic_threshold` must be in [0, 1). "
                f"Received: anisotropic_threshold={threshold}. ScaNN's examples use 0.2."
            )

    @property
    def is_brute_force(self) -> bool:
        """Whether every document is scored in float32, without a tree."""
        return self.dims_per_block == 0 and self.num_leaves == 0

    @property
    def search(self) -> str:
        """How an index with these settings, all filled in, searches.

        Only what is not `brute force` approximates.
        """
        steps = {
            "tree": self.num_leaves,
            "codes": self.dims_per_block,
            "reorder": self.reorder,
        }
        return " + ".join(step for step, size in steps.items() if size) or "brute force"

    def to_json(self) -> dict[str, Any]:
        """The fields, as JSON holds them."""
        return asdict(self)


def scann_settings(
    num_documents: int, dim: int, given: ScannSettings | None = None
) -> ScannSettings:
    """Fill in every field that was not given.

    As soon as one field is given, brute force is no longer chosen on its own:
    who sets `reorder` wants something to reorder.

    Args:
        num_documents: int ≥ 1, size of the corpus.
        dim: int ≥ 1, size of an embedding.
        given: fields to keep.

    Example:

    >>> scann_settings(5_000, 768).is_brute_force
    True
    >>> scann_settings(1_000_000, 768).num_leaves
    1000
    """
    given = given or ScannSettings()
    brute_force = num_documents < BRUTE_FORCE_BELOW and given == ScannSettings()
    num_leaves = _or(given.num_leaves, 0)
    if given.num_leaves is None and num_documents >= TREE_FROM:
        num_leaves = round(math.sqrt(num_documents))
    uncoded = brute_force or num_documents < CODES_FROM
    dims_per_block = _or(given.dims_per_block, 0 if uncoded else min(2, dim))
    coded = dims_per_block > 0
    filled = ScannSettings(
        num_leaves=num_leaves,
        num_leaves_to_search=_or(given.num_leaves_to_search, max(1, math.ceil(num_leaves / 6))),
        reorder=_or(given.reorder, 500 if coded else 0),
        dims_per_block=dims_per_block,
        anisotropic_threshold=_or(given.anisotropic_threshold, 0.2),
        training_sample_size=_or(
            given.training_sample_size, min(num_documents, max(100_000, 50 * num_leaves))
        ),
    )
    _check_fit(filled, given, num_documents, dim)
    return filled


def _check_fit(filled: ScannSettings, given: ScannSettings, num_documents: int, dim: int) -> None:
    """Refuse what ScaNN would refuse in C++, or take and silently ignore."""
    leaves, searched = filled.num_leaves or 0, filled.num_leaves_to_search or 0
    if leaves > num_documents:
        raise ValueError(
            f"`num_leaves` must not exceed the number of documents, {num_documents}. "
            f"Received: num_leaves={leaves}. Use about the square root."
        )
    if given.num_leaves_to_search is not None and searched > leaves:
        raise ValueError(
            f"`num_leaves_to_search` must not exceed num_leaves={leaves}. "
            f"Received: num_leaves_to_search={searched}. Lower it, or set `num_leaves`."
        )
    if (filled.training_sample_size or 0) < leaves:
        raise ValueError(
            f"`training_sample_size` must be at least num_leaves={leaves}. Received: "
            f"training_sample_size={filled.training_sample_size}. 50 for each leaf is usual."
        )
    if (filled.dims_per_block or 0) > dim:
        raise ValueError(
            f"`dims_per_block` must not exceed the embedding's {dim} dimensions. "
            f"Received: dims_per_block={filled.dims_per_block}. ScaNN's examples use 2."
        )
    if filled.dims_per_block and num_documents < CODES_FROM:
        raise ValueError(
            f"`dims_per_block` must be 0 below {CODES_FROM} documents: too few to learn codes. "
            f"Received: dims_per_block={filled.dims_per_block} for {num_documents}. Leave it out."
        )
    if filled.dims_per_block == 0 and filled.reorder:
        raise ValueError(
            "`reorder` must be 0 or left out when `dims_per_block` is 0: scores are exact "
            f"already. Received: reorder={filled.reorder}. Leave it out."
        )


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _or(value: Any, automatic: Any) -> Any:
    return automatic if value is None else value
