"""`tokenizer.json` ⇄ SentencePiece model: T5's vocabulary as Hugging Face's library has it.

What both can say: a Unigram model; characters normalised by a precompiled map; spaces collapsed
and written `▁`, one of them before the text; pad 0, end 1, unknown 2. The sentinels
`<extra_id_N>` follow the pieces there and are no pieces here. Some things stay different: a special
token typed in a text is special there and ordinary text here; where a file does not strip spaces
at the end of a text, they are a token there and none here, as in T5's own vocabulary; and a typed
`▁` is a space only where the map of characters says so.
"""

import base64
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from samtone_tf.checkpoints.folder_files import read_settings
from samtone_tf.data.tokenizer import END_ID, PAD_ID, UNKNOWN_ID, Tokenizer

TOKENIZER_JSON = "tokenizer.json"

_SPECIAL = ["<pad>", "</s>", "<unk>"]  # by id
_SPACE = "▁"
_SENTINEL = re.compile(r"<extra_id_\d+>")
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_RUN = " {2,}"  # what a normaliser replaces by one space
# What Unicode calls white space, besides the space itself.
_WHITE = [*range(0x9, 0xE), 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B)]
_WHITE += [0x2028, 0x2029, 0x202F, 0x205F, 0x3000]


def read_tokenizer_json(folder: str | Path) -> Tokenizer:
    """The tokenizer that `tokenizer.json` of a folder describes.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it describes something that a SentencePiece model with T5's special ids cannot
            say; names it.
    """
    settings = read_settings(folder, TOKENIZER_JSON)
    where = Path(folder) / TOKENIZER_JSON
    model = _part(settings, "model")
    if model.get("type") != "Unigram":
        raise _refused(where, "model", model.get("type"), "Unigram")
    pieces = _pieces(settings, model, where)
    charsmap, collapses = _normalizer(settings, where)
    splits, prefix = _pre_tokenizer(settings, where)
    if not (splits or (charsmap and collapses)):
        found = "none for runs of spaces" if charsmap else "no Precompiled"
        raise _refused(where, "normalizer", found, "Precompiled, and Replace of runs of spaces")
    _check_end(settings, where)
    charsmap = charsmap or _white_space_charsmap()
    try:
        return Tokenizer(_write_model(pieces, charsmap, prefix, bool(model.get("byte_fallback"))))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def make_tokenizer_json(tokenizer: Tokenizer, num_extra_ids: int = 100) -> dict[str, Any]:
    """What `tokenizer.json` says of a tokenizer, for `json.dumps`.

    Args:
        tokenizer: a Unigram one, as every T5 vocabulary is; its prompt is not in the result.
        num_extra_ids: sentinels behind the pieces; 100 in every published T5.

    Raises:
        ValueError: the vocabulary has something that `tokenizer.json` has no words for.
    """
    model = _parse_model(tokenizer.model)
    kinds = {number: name for name, number in model.SentencePiece.Type.items()}
    for i, piece in enumerate(model.pieces):
        expected = ("CONTROL", "CONTROL", "UNKNOWN")[i] if i < len(_SPECIAL) else "NORMAL"
        kind = kinds[piece.type]
        if kind != expected and (kind != "BYTE" or i < len(_SPECIAL)):
            raise _unspeakable(f"{piece.piece!r} of the kind {kind}")
    normalizer = model.normalizer_spec
    if model.trainer_spec.model_type != model.trainer_spec.UNIGRAM:
        raise _unspeakable("a model that is not Unigram")
    if not (normalizer.remove_extra_whitespaces and normalizer.escape_whitespaces):
        raise _unspeakable("spaces that are kept as they are")
    if model.trainer_spec.treat_whitespace_as_suffix:
        raise _unspeakable("spaces behind words")
    if not normalizer.precompiled_charsmap:
        raise _unspeakable("no map of characters")
    vocabulary = [[piece.piece, float(piece.score)] for piece in model.pieces]
    sentinels = [f"<extra_id_{i}>" for i in reversed(range(num_extra_ids))]
    special = [(i, vocabulary[i][0]) for i in (PAD_ID, END_ID, UNKNOWN_ID)]
    special += enumerate(sentinels, len(vocabulary))
    metaspace = {
        "type": "Metaspace",
        "replacement": _SPACE,
        "prepend_scheme": "always" if normalizer.add_dummy_prefix else "never",
        "split": True,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added(number, text) for number, text in special],
        "normalizer": _spoken_normalizer(normalizer.precompiled_charsmap),
        "pre_tokenizer": metaspace,
        "post_processor": _spoken_end(vocabulary[END_ID][0]),
        "decoder": metaspace,
        "model": {
            "type": "Unigram",
            "unk_id": UNKNOWN_ID,
            "vocab": [*vocabulary, *([text, 0.0] for text in sentinels)],
            "byte_fallback": model.trainer_spec.byte_fallback,
        },
    }


# --- reading ---


def _pieces(
    settings: Mapping[str, Any], model: Mapping[str, Any], where: Path
) -> list[tuple[str, float]]:
    """Pieces and scores without what follows them."""
    vocabulary = model.get("vocab")
    try:
        pieces = [(str(piece), float(score)) for piece, score in vocabulary]
        added = {int(token["id"]): token["content"] for token in settings.get("added_tokens") or ()}
    except (TypeError, ValueError, KeyError) as error:
        raise _refused(where, "vocab", f"{vocabulary!r:.60}", "pairs of piece and score") from error
    first = [piece for piece, _ in pieces[: len(_SPECIAL)]]
    if first != _SPECIAL or model.get("unk_id") != UNKNOWN_ID:
        got = f"{', '.join(first)}, and unk_id={model.get('unk_id')}"
        raise _refused(where, "vocab", got, f"{', '.join(_SPECIAL)} as its ids 0, 1, 2")
    end = len(pieces)
    while end > len(_SPECIAL) and (end - 1 in added or _SENTINEL.fullmatch(pieces[end - 1][0])):
        end -= 1
    between = [text for number, text in added.items() if len(_SPECIAL) <= number < end]
    if between:
        raise _refused(where, "added_tokens", ", ".join(between[:8]), "tokens behind the pieces")
    return pieces[:end]


def _normalizer(settings: Mapping[str, Any], where: Path) -> tuple[bytes, bool]:
    """The map of characters, and whether runs of spaces are collapsed."""
    charsmap, collapses = b"", False
    for number, step in enumerate(_steps(settings.get("normalizer"), "normalizers")):
        kind = step.get("type")
        if kind == "Precompiled" and number == 0:
            charsmap = base64.b64decode(step.get("precompiled_charsmap") or "")
        elif kind == "Replace" and _part(step, "pattern") == {"Regex": _RUN}:
            if step.get("content") not in (" ", _SPACE):
                raise _refused(where, "normalizer", f"{step!r:.80}", "one space for many")
            collapses = True
        elif kind != "Strip":
            what = f"{kind} of {step.get('pattern')}" if kind == "Replace" else kind
            raise _refused(where, "normalizer", what, "Precompiled, and Replace of runs of spaces")
    return charsmap, collapses


def _pre_tokenizer(settings: Mapping[str, Any], where: Path) -> tuple[bool, bool]:
    """Whether white space is thrown away, and whether a space is put before the text."""
    steps = list(_steps(settings.get("pre_tokenizer"), "pretokenizers"))
    kinds = [step.get("type") for step in steps]
    if kinds not in (["Metaspace"], ["WhitespaceSplit", "Metaspace"]):
        raise _refused(where, "pre_tokenizer", ", ".join(map(str, kinds)) or None, "Metaspace")
    space = steps[-1]
    if space.get("replacement") != _SPACE:
        raise _refused(where, "Metaspace", space.get("replacement"), _SPACE)
    scheme = space.get("prepend_scheme", "always" if space.get("add_prefix_space") else "never")
    return len(steps) == 2, scheme != "never"


def _check_end(settings: Mapping[str, Any], where: Path) -> None:
    """Refuses a template that adds anything but the end token."""
    template = settings.get("post_processor")
    if template is None:  # of files in which the library adds it
        return
    single = template.get("single") if isinstance(template, dict) else None
    added = [part for part in single or () if "Sequence" not in part]
    ids = [_part(part, "SpecialToken").get("id") for part in added]
    if ids != [_SPECIAL[END_ID]] or "Sequence" in single[-1]:
        kind = template.get("type") if isinstance(template, dict) else template
        raise _refused(where, "post_processor", f"{kind} with {ids}", f"$A {_SPECIAL[END_ID]}")


def _steps(step: Any, inner: str) -> Iterator[Mapping[str, Any]]:
    """The steps of a sequence, of sequences in it, or the one step."""
    if isinstance(step, dict) and step.get("type") == "Sequence":
        for part in step.get(inner) or ():
            yield from _steps(part, inner)
    elif step is not None:
        yield step if isinstance(step, dict) else {"type": str(step)[:40]}


def _part(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = settings.get(name)
    return found if isinstance(found, dict) else {}


def _refused(where: Path, part: str, found: Any, wanted: str) -> ValueError:
    return ValueError(
        f"`{part}` of a T5 vocabulary must be {wanted}. Received: {found} in {where}. "
        "Put T5's spiece.model beside it, which is taken instead."
    )


# --- SentencePiece ---


def _write_model(
    pieces: Sequence[tuple[str, float]], charsmap: bytes, prefix: bool, byte_fallback: bool
) -> bytes:
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto()
    kind = model.SentencePiece
    for i, (piece, score) in enumerate(pieces):
        if i < len(_SPECIAL):
            type_ = kind.UNKNOWN if i == UNKNOWN_ID else kind.CONTROL
        else:
            type_ = kind.BYTE if byte_fallback and _BYTE.fullmatch(piece) else kind.NORMAL
        model.pieces.add(piece=piece, score=score, type=type_)
    trainer = model.trainer_spec
    trainer.model_type = trainer.UNIGRAM
    trainer.vocab_size = len(pieces)
    trainer.byte_fallback = byte_fallback
    trainer.pad_id, trainer.eos_id, trainer.unk_id, trainer.bos_id = PAD_ID, END_ID, UNKNOWN_ID, -1
    normalizer = model.normalizer_spec
    normalizer.precompiled_charsmap = charsmap
    normalizer.add_dummy_prefix = prefix
    normalizer.remove_extra_whitespaces = True
    normalizer.escape_whitespaces = True
    return model.SerializeToString(deterministic=True)


def _parse_model(data: bytes):
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(data)
    return model


@lru_cache
def _white_space_charsmap() -> bytes:
    """A map that makes every white space a space and leaves everything else as it is."""
    import io

    import sentencepiece

    written = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder) / "rules.tsv"
        rules.write_text("".join(f"{code:X}\t20\n" for code in _WHITE), encoding="ascii")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a b"]),
            model_writer=written,
            model_type="char",
            vocab_size=8,
            hard_vocab_limit=False,
            normalization_rule_tsv=str(rules),
            num_threads=1,
            minloglevel=2,
        )
    return _parse_model(written.getvalue()).normalizer_spec.precompiled_charsmap


# --- writing ---


def _added(number: int, text: str) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": number, "content": text, **flags, "special": True}


def _spoken_normalizer(charsmap: bytes) -> dict[str, Any]:
    text = base64.b64encode(charsmap).decode("ascii")
    return {
        "type": "Sequence",
        "normalizers": [
            {"type": "Precompiled", "precompiled_charsmap": text},
            {"type": "Strip", "strip_left": True, "strip_right": True},
            {"type": "Replace", "pattern": {"Regex": _RUN}, "content": " "},
        ],
    }


def _spoken_end(end: str) -> dict[str, Any]:
    """`$A </s>` and `$A </s> $B </s>`."""

    def text(name: str, kind: int) -> list[dict[str, Any]]:
        return [
            {"Sequence": {"id": name, "type_id": kind}},
            {"SpecialToken": {"id": end, "type_id": kind}},
        ]

    return {
        "type": "TemplateProcessing",
        "single": text("A", 0),
        "pair": text("A", 0) + text("B", 0),
        "special_tokens": {end: {"id": end, "ids": [END_ID], "tokens": [end]}},
    }


def _unspeakable(what: str) -> ValueError:
    return ValueError(
        "A vocabulary written as tokenizer.json must be a Unigram model with T5's special ids and "
        f"spaces. Received: one with {what}. Keep its SentencePiece model."
    )
