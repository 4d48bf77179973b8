"""`LossConfig`: the loss, and the options that each loss has."""

from dataclasses import dataclass, field
from typing import Any, Literal

from samtone_tf.checks import (
    check_alpha,
    check_choice,
    check_hinge_margin,
    check_learned_temperature,
    check_same_tower,
    check_similarity_margin,
    check_temperature,
)
from samtone_tf.config.defaults import FROM_SCRATCH

MASKS = ("id", "text", "positives")

_SOFTMAX = {
    "temperature": None,  # see `FROM_SCRATCH`
    "learn_temperature": False,
    "min_temperature": 0.01,
    "max_temperature": 1.0,
    "log_q": False,
}
_DIRECTIONS = {"bidirectional": True, "directions": "sum"}

LOSSES: dict[str, dict[str, Any]] = {
    "samtone": {"same_tower": "query", **_SOFTMAX, **_DIRECTIONS},
    "in_batch_softmax": {**_SOFTMAX, **_DIRECTIONS},
    "pair": {"alpha": 0.1, "other_queries": False, **_SOFTMAX, **_DIRECTIONS},
    "triplet": {"same_tower": None, "margin": 0.2, "reduction": "hardest", **_DIRECTIONS},
    "gte": _SOFTMAX,
}
"""Loss → the options that it has besides those of every loss, and their defaults."""


def mask_rules(masks: str | list[str] | tuple[str, ...]) -> tuple[str, ...]:
    """The false-negative rules as a tuple; a string is split at commas, `"none"` and `""` are none.

    Raises:
        ValueError: a rule that is none of `id`, `text`, `positives`.
    """
    if isinstance(masks, str):
        masks = [name.strip() for name in masks.split(",") if name.strip()]
    masks = [name for name in masks if name != "none"]
    for name in masks:
        if name not in MASKS:
            raise ValueError(
                f"`masks` may hold {', '.join(MASKS)} or be none. Received: {name!r} in {masks}."
            )
    return tuple(name for name in MASKS if name in masks)


@dataclass(frozen=True)
class LossConfig:
    """The loss. What is not set gets the loss's default; what the loss has not is refused.

    Args:
        name: samtone, in_batch_softmax, pair, triplet or gte.
        same_tower: query, document or both: whose same-tower negatives samtone (query unless
            set) or triplet (none unless set) adds.
        temperature: divides the cosine; unless set, 0.05, which suits training from scratch,
            and 0.01 from published weights. All but triplet.
        bidirectional: adds the document-to-query loss, true unless set. All but gte.
        directions: sum, unless set, or mean of the two directions. All but gte.
        masks: false-negative rules, out of id, text, positives; none switches all off.
        negatives_scope: global (hard negatives are columns of every query) or own.
        similarity_margin: masks negatives, too, that are more alike than the positive by this
            much; 0.1 is usual, and none masks nothing.
        similarity_margin_kind: absolute, above s + margin, or relative, above s + margin * |s|,
            where s is the cosine of the pair.
        learn_temperature: learn the temperature, from the one given. All but triplet.
        min_temperature: lowest that is learned, 0.01 unless set.
        max_temperature: highest that is learned, 1 unless set.
        log_q: correct logits by how often a document or query is sampled. All but triplet.
        alpha: share of the passage-centric loss of pair, 0.1 unless set.
        other_queries: whether the passage-centric loss of pair has the other queries, too.
        margin: of triplet, between cosines, 0.2 unless set.
        reduction: of triplet, hardest, unless set, or mean of a row's negatives.
    """

    name: Literal["samtone", "in_batch_softmax", "pair", "triplet", "gte"] = "samtone"
    same_tower: Literal["query", "document", "both"] | None = None
    temperature: float | None = None
    bidirectional: bool | None = None
    directions: Literal["sum", "mean"] | None = None
    masks: str | list[str] = field(default_factory=lambda: list(MASKS))
    negatives_scope: Literal["global", "own"] = "global"
    similarity_margin: float | None = None
    similarity_margin_kind: Literal["absolute", "relative"] = "absolute"
    learn_temperature: bool | None = None
    min_temperature: float | None = None
    max_temperature: float | None = None
    log_q: bool | None = None
    alpha: float | None = None
    other_queries: bool | None = None
    margin: float | None = None
    reduction: Literal["hardest", "mean"] | None = None

    def __post_init__(self):
        check_choice("loss.name", self.name, tuple(LOSSES))
        self._resolve()
        object.__setattr__(self, "masks", list(mask_rules(self.masks)))
        check_similarity_margin(self.similarity_margin, self.similarity_margin_kind)
        if self.temperature is not None:
            check_temperature(self.temperature)
        if "temperature" in LOSSES[self.name]:
            check_learned_temperature(
                self.temperature or FROM_SCRATCH["temperature"],
                self.learn_temperature,
                self.min_temperature,
                self.max_temperature,
            )
        if self.same_tower is not None:
            check_same_tower(self.same_tower, self.bidirectional)
        if self.alpha is not None:
            check_alpha(self.alpha)
        if self.margin is not None:
            check_hinge_margin(self.margin)

    def _resolve(self) -> None:
        """Puts the loss's defaults where nothing is set; refuses what the loss has not."""
        options = LOSSES[self.name]
        for option in dict.fromkeys(name for each in LOSSES.values() for name in each):
            value = getattr(self, option)
            if option == "temperature" and option in options:
                continue  # its default follows from `model.init`
            if value is None:
                object.__setattr__(self, option, options.get(option))
            elif option not in options:
                raise ValueError(
                    f"`loss.{option}` is no option of the loss {self.name}, which has "
                    f"{', '.join(options)}. Received: loss.{option}={value!r}. Leave it out."
                )

    @property
    def arguments(self) -> dict[str, Any]:
        """What the constructor of the loss takes."""
        shared = ("masks", "negatives_scope", "similarity_margin", "similarity_margin_kind")
        arguments = {name: getattr(self, name) for name in (*LOSSES[self.name], *shared)}
        if "temperature" in arguments and self.temperature is None:
            arguments["temperature"] = FROM_SCRATCH["temperature"]
        return arguments
