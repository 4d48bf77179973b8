"""Numbers that stand for texts.

A batch cannot carry strings to an accelerator, so masks compare these numbers. They
are stable: the same text gives the same number in every process and on every machine.
`split_fingerprint` does the same for a whole split, to be printed beside its measures.
"""

import hashlib
import unicodedata

from samtone_tf.data.records import RetrievalData


def normalise(text: str) -> str:
    """Return `text` in the spelling that is compared: NFKC, case folded, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def fingerprint(text: str) -> int:
    """Return a number in [0, 2**63): it fits int64 and never meets -1, the mark of padding."""
    # A text read from JSON can hold half of a surrogate pair, which strict UTF-8 refuses.
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def split_fingerprint(data: RetrievalData) -> str:
    """Return a short hash of the judged queries and their documents, whatever their order."""
    texts = sorted(
        (data.queries[pair.query_id], data.documents[pair.document_id]) for pair in data.pairs()
    )
    digest = hashlib.blake2b(digest_size=6)
    for text in (text for pair in texts for text in pair):
        raw = text.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()
