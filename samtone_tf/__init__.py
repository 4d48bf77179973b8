"""samtone-tf: train, export, index and judge dual-encoder retrievers with SamToNe.

Names are imported when they are first used, so `import samtone_tf` and
`samtone --help` do not wait for TensorFlow.
"""

import importlib

from samtone_tf.version import __version__

_MODULES = {
    "DataConfig": "config",
    "EncoderConfig": "encoder_config",
    "LossConfig": "config",
    "ModelConfig": "config",
    "RunConfig": "config",
    "TrainConfig": "config",
    "ValidationConfig": "config",
    "RetrievalData": "data.records",
    "Cache": "data.cache",
    "load_data": "data.sources",
    "load_training_table": "data.sources",
    "inspect_data": "data.inspect_data",
    "Tokenizer": "data.tokenizer",
    "PairBatches": "data.pipeline",
    "T5Encoder": "towers.encoder",
    "MaskedMeanPooling": "towers.pooling",
    "Tower": "towers.tower",
    "InBatchSoftmax": "losses.contrastive",
    "SamToNe": "losses.contrastive",
    "Gte": "losses.gte",
    "Pair": "losses.pair",
    "Triplet": "losses.triplet",
    "Adafactor": "optimizers.adafactor",
    "InverseSquareRoot": "optimizers.schedules",
    "LinearDecay": "optimizers.schedules",
    "DualEncoder": "dual_encoder",
    "load_t5": "checkpoints.assign",
    "open_source": "checkpoints.open",
    "merged": "merge",
    "make_strategy": "distribution",
    "load_model": "training.run_folder",
    "train": "training.train",
    "plan": "training.plan",
    "convert": "training.convert",
    "export_saved_model": "export.encoder",
    "write_saved_model": "export.encoder",
    "SavedEncoder": "export.saved_encoder",
    "encode_corpus": "encoding.encode",
    "open_encoder": "encoding.models",
    "Vectors": "encoding.vectors",
    "ExactIndex": "index.exact",
    "ScannIndex": "index.scann",
    "build_index": "index.store",
    "load_index": "index.store",
    "evaluate": "evaluation.evaluate",
    "evaluate_model": "judge",
    "evaluate_suite": "judge_suite",
    "compare_runs": "evaluation.comparison",
    "read_run": "evaluation.trec",
    "write_run": "evaluation.trec",
    "Retriever": "retriever",
    "index_vectors": "vectors_to_index",
    "MergedIndex": "index.merged",
    "Crowding": "index.conditions",
    "tune_index": "tuning",
    "write_report": "analysis.report",
}

__all__ = ["__version__", *sorted(_MODULES)]


def __getattr__(name: str):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__():
    return __all__
