"""What the columns must say, from the docstrings, with dictionaries and one pair at a time."""

from typing import NamedTuple

from samtone_tf.data.fingerprints import fingerprint, normalise


class Pairs(NamedTuple):
    """The pairs of a data set, as ids and numbers."""

    ids: list  # (query id, document id)
    queries: list  # fingerprints
    documents: list
    positives: list  # of each pair, padded with -1 to one width
    overflow: int
    negatives: dict  # query id → document ids
    notes: list


def training_pairs(data, masks, max_positives):
    """The pairs of `data`, by loops."""

    def number(record_id, texts):
        return fingerprint(normalise(texts[record_id]) if "text" in masks else record_id)

    def is_filled(text):
        return bool(text.strip())

    everything = [
        (query, document)
        for query, judged in data.qrels.items()
        for document, grade in judged.items()
        if grade > 0 and query in data.queries and document in data.documents
    ]
    ids = [
        (query, document)
        for query, document in everything
        if is_filled(data.queries[query]) and is_filled(data.documents[document])
    ]
    queries = [number(q, data.queries) for q, _ in ids]
    documents = [number(d, data.documents) for _, d in ids]

    known = {}  # query fingerprint → fingerprints of its documents, in order
    if "positives" in masks:
        for query, document in zip(queries, documents, strict=True):
            if document not in known.setdefault(query, []):
                known[query].append(document)
    positives = [
        [own, *(other for other in known.get(query, []) if other != own)]
        for query, own in zip(queries, documents, strict=True)
    ]
    width = min(max(map(len, positives), default=1), max_positives)
    overflow = sum(len(row) > max_positives for row in positives)
    padded = [(row + [-1] * width)[:width] for row in positives]

    negatives, num_missing, num_positive = {}, 0, 0
    for query in dict.fromkeys(query for query, _ in ids):
        kept = {}
        for document in data.negatives.get(query, ()):
            if not is_filled(data.documents.get(document, "")):
                num_missing += 1
            elif number(document, data.documents) in known.get(number(query, data.queries), []):
                num_positive += 1
            else:
                kept.setdefault(number(document, data.documents), document)
        if kept:
            negatives[query] = tuple(kept.values())
    notes = [
        f"{count} {what}"
        for count, what in (
            (len(everything) - len(ids), "pairs with an empty text were dropped"),
            (num_missing, "hard negatives are empty or not in the corpus; left out"),
            (num_positive, "hard negatives are known positives; left out"),
        )
        if count
    ]
    return Pairs(ids, queries, documents, padded, overflow, negatives, notes)
