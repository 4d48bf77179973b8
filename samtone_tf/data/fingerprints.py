"""Numbers that stand for texts.

A batch cannot carry strings to an accelerator, so masks compare these numbers. They
are stable: the same text gives the same number in every process and on every machine.
"""

import hashlib
import unicodedata


def normalise(text: str) -> str:
    """Return `text` in the spelling that is compared: NFKC, case folded, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def fingerprint(text: str) -> int:
    """Return a number in [0, 2**63): it fits int64 and never meets -1, the mark of padding."""
    # A text read from JSON can hold half of a surrogate pair, which strict UTF-8 refuses.
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
