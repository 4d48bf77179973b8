"""What Hugging Face and T5's own TensorFlow files call the tensors of an encoder.

Both mappings go from our name (`source.encoder_shapes`) to theirs. Kernels are (inputs, outputs)
here and in T5's own files, and (outputs, inputs) at Hugging Face: see `is_transposed`.
"""

from collections.abc import Mapping

from samtone_tf.checkpoints.source import TOKEN_TABLE
from samtone_tf.encoder_config import EncoderConfig

HUGGINGFACE_TABLES = ("shared.weight", "encoder.embed_tokens.weight")
"""The token table's names at Hugging Face: the first is what is written, either is read."""

_HUGGINGFACE_BLOCK = {
    "attention_norm/scale": "layer.0.layer_norm.weight",
    "attention/query/kernel": "layer.0.SelfAttention.q.weight",
    "attention/key/kernel": "layer.0.SelfAttention.k.weight",
    "attention/value/kernel": "layer.0.SelfAttention.v.weight",
    "attention/output/kernel": "layer.0.SelfAttention.o.weight",
    "feedforward_norm/scale": "layer.1.layer_norm.weight",
    "feedforward/wi_0/kernel": "layer.1.DenseReluDense.wi_0.weight",
    "feedforward/wi_1/kernel": "layer.1.DenseReluDense.wi_1.weight",
    "feedforward/wo/kernel": "layer.1.DenseReluDense.wo.weight",
}
_MESH_BLOCK = {
    "attention_norm/scale": "layer_000/layer_norm/scale",
    "attention/query/kernel": "layer_000/SelfAttention/q",
    "attention/key/kernel": "layer_000/SelfAttention/k",
    "attention/value/kernel": "layer_000/SelfAttention/v",
    "attention/output/kernel": "layer_000/SelfAttention/o",
    "feedforward_norm/scale": "layer_001/layer_norm/scale",
    "feedforward/wi_0/kernel": "layer_001/DenseReluDense/wi_0/kernel",
    "feedforward/wi_1/kernel": "layer_001/DenseReluDense/wi_1/kernel",
    "feedforward/wo/kernel": "layer_001/DenseReluDense/wo/kernel",
}


def huggingface_names(config: EncoderConfig) -> dict[str, str]:
    """Our name → Hugging Face's, of every tensor of an encoder, table first."""
    whole = {
        TOKEN_TABLE: HUGGINGFACE_TABLES[0],
        "encoder/position_bias/embeddings": (
            "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        ),
        "encoder/final_norm/scale": "encoder.final_layer_norm.weight",
    }
    return _names(config, whole, "encoder.block.{}.", _HUGGINGFACE_BLOCK)


def is_transposed(name: str) -> bool:
    """Whether the tensor that we call `name` lies the other way round at Hugging Face."""
    return name.endswith("/kernel")


def mesh_names(config: EncoderConfig) -> dict[str, str]:
    """Our name → that of T5's own files (Mesh TensorFlow), of every tensor of an encoder."""
    whole = {
        TOKEN_TABLE: "shared/embedding",
        "encoder/position_bias/embeddings": (
            "encoder/block_000/layer_000/SelfAttention/relative_attention_bias"
        ),
        "encoder/final_norm/scale": "encoder/final_layer_norm/scale",
    }
    return _names(config, whole, "encoder/block_{:03d}/", _MESH_BLOCK)


def _names(
    config: EncoderConfig, whole: Mapping[str, str], block: str, parts: Mapping[str, str]
) -> dict[str, str]:
    names = dict(whole)
    for i in range(config.num_layers):
        for ours, theirs in parts.items():
            if not config.gated:
                if "wi_1" in ours:
                    continue
                theirs = theirs.replace("wi_0", "wi")
            names[f"encoder/block_{i}/{ours}"] = block.format(i) + theirs
    return names
