"""Run by test_serving in a process of its own: an export used with TensorFlow alone.

    python -I load_alone.py SAVED_MODEL TEXTS.json ANSWER_FOLDER

Knows nothing of this package: it writes what it finds, and the test judges that.
"""

import base64
import json
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import op_def_registry

folder, texts_file, answers = sys.argv[1:]
proto = saved_model_pb2.SavedModel.FromString((Path(folder) / "saved_model.pb").read_bytes())
graph = proto.meta_graphs[0].graph_def
ops = {node.op for node in graph.node}
ops |= {node.op for function in graph.library.function for node in function.node_def}
# Asked before tensorflow-text registers its ops, so that these are the ones it brings.
foreign = sorted(op for op in ops if op_def_registry.get(op) is None)

import tensorflow_text  # noqa: E402, F401

texts = [base64.b64decode(text) for text in json.loads(Path(texts_file).read_text())]
signatures = tf.saved_model.load(folder).signatures
vectors = {
    f"{name}_{what}": signatures[name](text=tf.constant(given, tf.string))["embedding"].numpy()
    for name in ("encode_query", "encode_document", "serving_default")
    for what, given in (("all", texts), ("none", []), ("one", texts[:1]))
}
np.savez(Path(answers) / "vectors.npz", **vectors)
about = {
    "foreign_ops": foreign,
    "ops": sorted(ops),
    "signatures": sorted(signatures),
    "modules": sorted({name.partition(".")[0] for name in sys.modules}),
}
(Path(answers) / "about.json").write_text(json.dumps(about))
