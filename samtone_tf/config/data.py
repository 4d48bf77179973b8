"""`DataConfig`: where the pairs come from."""

from dataclasses import dataclass

from samtone_tf.checks import check_at_least


@dataclass(frozen=True)
class DataConfig:
    """Where the pairs come from and how they are cut into tokens.

    Args:
        source: beir:FOLDER, pairs:FILE (jsonl, tsv, csv, parquet or a Hugging Face folder),
            tfds:NAME, ir_datasets:ID, multireqa:FOLDER, msmarco:FOLDER or docstrings.
        split: whose judgements are the training pairs.
        query_length: tokens of a query, the end token included.
        document_length: tokens of a document, the end token included.
        num_negatives: hard negatives per query, taken from the source.
        max_positives: known positives per query that the masks can use.
        vocabulary: SentencePiece model file (.spm, .model); none trains one on the texts.
        vocabulary_size: pieces of the vocabulary that is trained; a small corpus gets fewer.
        no_duplicates: no two equal queries or documents in one batch, instead of masking them.
        cache: folder of token ids, reused between runs; unless set, $SAMTONE_CACHE or
            samtone-tf among the user's caches; memory writes nothing.
        query_prompt: what stands before every query, in training and in the export, such as
            "query: "; unless set, that of the weights to start from, or nothing.
        document_prompt: the same for documents.
    """

    source: str = "docstrings"
    split: str = "train"
    query_length: int = 64
    document_length: int = 256
    num_negatives: int = 0
    max_positives: int = 16
    vocabulary: str | None = None
    vocabulary_size: int = 8000
    no_duplicates: bool = False
    cache: str | None = None
    query_prompt: str | None = None
    document_prompt: str | None = None

    def __post_init__(self):
        check_at_least("data.query_length", self.query_length, 2)
        check_at_least("data.document_length", self.document_length, 2)
        check_at_least("data.num_negatives", self.num_negatives, 0)
        check_at_least("data.max_positives", self.max_positives, 1)
        check_at_least("data.vocabulary_size", self.vocabulary_size, 16)
