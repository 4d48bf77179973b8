"""`export_saved_model`: a trained run as a SavedModel that takes texts and gives unit vectors.

    saved_models/NAME/VERSION/            what TF Serving mounts
        encode_query, encode_document     text: string (B,) → embedding: float32 (B, D)
        encode_query_tokens, encode_document_tokens
                                          the same from token_ids int32 and padding_mask bool (B, L)
        serving_default                   encode_query
        assets.extra/                     samtone.json (lengths, sizes), vocabulary.spm, and
                                          what TF Serving plays to warm up

The graph holds TensorFlow's own ops and two of tensorflow-text's oldest, for
SentencePiece, so stock TF Serving loads it. No path of the machine that wrote it is inside.
"""

import json
import secrets
import shutil
from pathlib import Path

import tensorflow as tf

from samtone_tf.checks import check_vocabulary
from samtone_tf.data.tokenizer import END_ID, PAD_ID, Tokenizer, check_length
from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.export.warmup import write_warmup
from samtone_tf.merge import merged
from samtone_tf.output_folder import check_new
from samtone_tf.training.run_folder import (
    choose_checkpoint,
    load_config,
    load_model,
    load_tokenizer,
)
from samtone_tf.version import __version__

SIDES = ("query", "document")
EXTRA = "assets.extra"

_TEXT = tf.TensorSpec([None], tf.string, name="text")
_TOKENS = (
    tf.TensorSpec([None, None], tf.int32, name="token_ids"),
    tf.TensorSpec([None, None], tf.bool, name="padding_mask"),
)


def export_saved_model(
    run: str | Path,
    out: str | Path,
    *,
    checkpoint: str | None = None,
    query_length: int = 64,
    document_length: int = 512,
) -> Path:
    """Writes the SavedModel of a trained run, its prompts included.

    Args:
        run: run folder.
        out: folder to write, by custom `saved_models/NAME/VERSION` with a whole number
            as VERSION, which is what TF Serving looks for.
        checkpoint: `"last"` or `"best"`; None is the best one where the run was validated.
        query_length: tokens of a query, end token included; longer ones are cut.
        document_length: the same for documents.

    Returns:
        `out` as a path.

    Raises:
        FileExistsError: `out` holds something.
        FileNotFoundError, ValueError: `run` is no finished run, or has no such checkpoint.
    """
    check_new_export(out)
    model, tokenizer = load_model(choose_checkpoint(run, checkpoint)), load_tokenizer(run)
    data = load_config(run).data
    return write_saved_model(
        model,
        tokenizer,
        out,
        query_length=query_length,
        document_length=document_length,
        query_prompt=data.query_prompt or "",
        document_prompt=data.document_prompt or "",
    )


def check_new_export(out: str | Path) -> Path:
    """Raises FileExistsError when `out` holds something."""
    return check_new(out, "out", "Use the next version number.")


def write_saved_model(
    model: DualEncoder,
    tokenizer: Tokenizer,
    out: str | Path,
    *,
    query_length: int = 64,
    document_length: int = 512,
    query_prompt: str = "",
    document_prompt: str = "",
) -> Path:
    """Writes a model in memory as a SavedModel; `export_saved_model` is this for a run folder.

    Args:
        model: the two towers; adapters are merged into their kernels.
        tokenizer: the one it was trained with.
        out: folder to write.
        query_length: tokens of a query, end token included.
        document_length: the same for documents.
        query_prompt: what the model puts before every query, as in training.
        document_prompt: the same for documents.

    Raises:
        FileExistsError: `out` holds something.
        ValueError: a length below 2, or a tokenizer with more pieces than the model has rows.
    """
    out = check_new_export(out)
    check_vocabulary(tokenizer.vocabulary_size, model.encoder_config.vocabulary_size)
    lengths = {"query": query_length, "document": document_length}
    for length in lengths.values():
        check_length(length)
    prompts = {"query": query_prompt, "document": document_prompt}
    model = merged(model)
    module = EncoderModule(model, tokenizer, lengths, prompts)
    temporary = out.with_name(f".{out.name}.{secrets.token_hex(4)}")
    try:
        tf.saved_model.save(module, str(temporary), signatures=module.signatures())
        extra = temporary / EXTRA
        extra.mkdir()
        tokenizer.save(extra / "vocabulary.spm")
        write_warmup(extra, out.absolute().parent.name)
        about = {
            "format": 1,
            "samtone_tf": __version__,
            "lengths": lengths,
            "prompts": prompts,
            "embedding_dim": model.embedding_dim,
            "architecture": model.architecture,
            "encoder": model.encoder_config.to_dict(),
            "vocabulary": tokenizer.fingerprint,
        }
        (extra / "samtone.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        temporary.replace(out)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return out


class EncoderModule(tf.Module):
    """The graph of an export: tokenizer, towers, and one function per signature."""

    def __init__(
        self,
        model: DualEncoder,
        tokenizer: Tokenizer,
        lengths: dict[str, int],
        prompts: dict[str, str],
    ):
        super().__init__()
        # Imported here, not above: on a TPU host tensorflow-text must not be needed to train.
        import tensorflow_text

        # A tf.Module finds variables in lists of its own, not inside Keras layers.
        self.weights = [variable.value for variable in model.weights]
        self.tokenizer = tensorflow_text.SentencepieceTokenizer(model=tokenizer.model)
        self._encode = {"query": model.encode_query, "document": model.encode_document}
        self._lengths, self._prompts = lengths, prompts

    def signatures(self) -> dict:
        """Signature name → concrete function."""
        signatures = {}
        for side in SIDES:
            signatures[f"encode_{side}"] = self._text_function(side)
            signatures[f"encode_{side}_tokens"] = self._token_function(side)
        signatures["serving_default"] = signatures["encode_query"]
        return signatures

    def _text_function(self, side: str):
        def encode(text):
            # A caller's single string is not compared with the signature's shape; behind a
            # placeholder this check is not optimised away, and says what it received.
            text = tf.compat.v1.placeholder_with_default(text, shape=None, name="text_list")
            text = tf.ensure_shape(text, [None], name="text_list_must_have_one_axis")
            if self._prompts[side]:
                text = tf.strings.join([self._prompts[side], text])
            tokens = self.tokenize(text, self._lengths[side])
            return {"embedding": self._encode[side](tokens, training=False)}

        encode.__name__ = f"encode_{side}"
        return tf.function(encode).get_concrete_function(_TEXT)

    def _token_function(self, side: str):
        def encode(token_ids, padding_mask):
            tokens = {"token_ids": token_ids, "padding_mask": padding_mask}
            return {"embedding": self._encode[side](tokens, training=False)}

        encode.__name__ = f"encode_{side}_tokens"
        return tf.function(encode).get_concrete_function(*_TOKENS)

    def tokenize(self, text: tf.Tensor, length: int) -> dict[str, tf.Tensor]:
        """Texts as `Tokenizer.encode` cuts them, padded to the longest of the request."""
        ids = tf.cast(self.tokenizer.tokenize(text), tf.int32)[:, : length - 1]
        end = tf.fill([tf.shape(text)[0], 1], END_ID)
        ids = tf.concat([ids, end], axis=1)
        # From lengths and not from ids: then no piece can be mistaken for padding.
        return {
            "token_ids": ids.to_tensor(default_value=PAD_ID),
            "padding_mask": tf.sequence_mask(ids.row_lengths()),
        }
