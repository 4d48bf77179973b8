"""The warm-up file of an export: requests that TF Serving plays before it takes traffic.

Without it the first caller waits for the graph to be optimised. Serving looks for
`assets.extra/tf_serving_warmup_requests`, a TFRecord of `PredictionLog` messages. Their
definitions come with packages of TF Serving, which an export must not need; three nested
messages are written here field by field (the numbers are those of the published .proto files).
"""

from pathlib import Path

import tensorflow as tf

FILE = "tf_serving_warmup_requests"
_TEXTS = ("a", "a question of about ten words is what people ask", "a long text " * 400)


def write_warmup(extra: Path, model_name: str) -> None:
    """Writes the warm-up file: short, usual and longest texts, for both towers.

    Args:
        extra: the export's `assets.extra` folder.
        model_name: under which Serving will know the model.
    """
    with tf.io.TFRecordWriter(str(extra / FILE)) as writer:
        for signature in ("encode_query", "encode_document"):
            for text in _TEXTS:
                writer.write(_predict_log(model_name, signature, text))


def _predict_log(model_name: str, signature: str, text: str) -> bytes:
    """`PredictionLog.predict_log.request` as bytes."""
    tensor = tf.make_tensor_proto([text.encode()]).SerializeToString()
    model_spec = _field(1, model_name.encode()) + _field(3, signature.encode())
    inputs = _field(1, b"text") + _field(2, tensor)
    request = _field(1, model_spec) + _field(2, inputs)
    return _field(6, _field(1, request))


def _field(number: int, content: bytes) -> bytes:
    """One length-delimited field of the protocol buffers' wire format."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])
