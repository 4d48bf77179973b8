"""What two towers share and what does not train: the names that architectures have."""

ARCHITECTURES: dict[str, tuple[str, ...]] = {
    "sde": ("token_embedding", "encoder", "projection"),
    "ade_spl": ("projection",),
    "ade": (),
    "ade_ste": ("token_embedding",),
    "ade_fte": (),
}
"""Architecture → the parts that the two towers share (Dong et al. 2022)."""

FROZEN: dict[str, tuple[str, ...]] = {"ade_fte": ("token_embedding",)}
"""Architecture → the parts that do not train, where its name says so."""

PARTS = ARCHITECTURES["sde"]
"""What two towers can share; `"encoder"` is all of T5 above its token table."""


def shared_parts(architecture: str | list[str] | tuple[str, ...]) -> tuple[str, ...]:
    """The parts that two towers share, in the order of `PARTS`.

    Args:
        architecture: a name out of `ARCHITECTURES`, or the parts themselves.

    Raises:
        ValueError: unknown name or part.
    """
    if isinstance(architecture, str):
        if architecture not in ARCHITECTURES:
            raise ValueError(
                f"`architecture` must be one of {', '.join(ARCHITECTURES)}, or a list of shared "
                f"parts out of {', '.join(PARTS)}. Received: architecture={architecture!r}."
            )
        return ARCHITECTURES[architecture]
    return _parts("architecture", architecture)


def frozen_parts(
    architecture: str | list[str] | tuple[str, ...], freeze: str | list[str] | tuple[str, ...]
) -> tuple[str, ...]:
    """The parts of both towers that do not train, in the order of `PARTS`.

    Args:
        architecture: its name may freeze parts, too (`FROZEN`).
        freeze: the parts, as a list or separated by commas; `"none"` and `""` are none.

    Raises:
        ValueError: unknown part, or nothing left to train.
    """
    if isinstance(freeze, str):
        freeze = [part.strip() for part in freeze.split(",") if part.strip() not in ("", "none")]
    by_name = FROZEN.get(architecture, ()) if isinstance(architecture, str) else ()
    frozen = _parts("freeze", (*by_name, *freeze))
    if frozen == PARTS:
        raise ValueError(
            f"`freeze` must leave a part that trains, out of {', '.join(PARTS)}. "
            f"Received: architecture={architecture!r}, freeze={list(freeze)!r}."
        )
    return frozen


def check_adapters_train(lora_rank: int, frozen: tuple[str, ...]) -> None:
    """Raises ValueError when an encoder that does not train should have adapters, which do."""
    if lora_rank and "encoder" in frozen:
        raise ValueError(
            "`freeze` must not hold encoder where `lora_rank` is above 0: adapters are the part of "
            f"the encoder that trains. Received: freeze={list(frozen)!r}, lora_rank={lora_rank}. "
            "Take encoder out of it, all but the adapters is at rest anyway; or set lora_rank=0."
        )


def _parts(argument: str, names: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    unknown = [part for part in names if part not in PARTS]
    if unknown:
        raise ValueError(
            f"`{argument}` may list the parts {', '.join(PARTS)}. "
            f"Received: {', '.join(map(repr, unknown))}."
        )
    return tuple(part for part in PARTS if part in names)
