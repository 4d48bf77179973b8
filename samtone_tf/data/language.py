"""A guess at the language of texts, by their script and, for Latin letters, by common words.

It is a guess: short texts, names, code and mixtures mislead it, and it knows few languages.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

# Words that are frequent in one language and rare in the others.
_WORDS = {
    "English": "the of and to in is that for with was are on what by from which this how who when "
    "where why there their does did has have it be or an your can",
    "German": "der die und das ist nicht ein eine den mit von für auf dem wie im zu wird",
    "French": "le les des est une dans que pour du qui pas sur avec aux sont cette et ou",
    "Spanish": "el los las una que por con para del como más es fue son su al qué cuál",
    "Italian": "il che di non per una sono della con è gli nel alla anche più dei come",
    "Portuguese": "os um uma que não para com da em por mais como foi são ao qual é na pela",
    "Dutch": "de het een van en niet dat zijn voor met op aan wordt ook bij naar wat",
    "Polish": "nie się na jest że jak przez dla po od oraz który są czy co z w",
    "Swedish": "och att det som en på är av för den med till inte har ett var om",
    "Turkish": "bir ve bu için ile olarak daha çok olan gibi ne mi kadar nedir hangi",
    "Vietnamese": "của và là có các được cho trong một không những người với khi này",
    "Indonesian": "yang dan di dengan untuk pada adalah dari ini itu dalam tidak oleh apa",
}
_OF_WORD: dict[str, list[str]] = {}
for _language, _words in _WORDS.items():
    for _word in _words.split():
        _OF_WORD.setdefault(_word, []).append(_language)
_SCRIPTS = {
    "CJK": "Chinese",
    "HIRAGANA": "Japanese",
    "KATAKANA": "Japanese",
    "HANGUL": "Korean",
    "ARABIC": "Arabic script",
    "CYRILLIC": "Cyrillic script",
    "DEVANAGARI": "Devanagari script",
    "GREEK": "Greek",
    "HEBREW": "Hebrew",
    "THAI": "Thai",
    "BENGALI": "Bengali",
    "TAMIL": "Tamil",
    "TELUGU": "Telugu",
}
_LATIN_WORD = re.compile(r"[^\W\d_]+")
_LETTERS = 400  # of a text that are looked at
_MIN_SHARE = 0.02  # of words that must be common ones of a language


def guess_language(text: str) -> str:
    """Return the name of a language or script, or `unknown`."""
    text = text[: 4 * _LETTERS]
    scripts: Counter[str] = Counter()
    for letter in [c for c in text if c.isalpha()][:_LETTERS]:
        scripts["LATIN" if letter < "ɐ" else unicodedata.name(letter, "?").split()[0]] += 1
    if not scripts:
        return "unknown"
    # Japanese is written with Chinese characters between its own.
    kana = scripts["HIRAGANA"] + scripts["KATAKANA"]
    if kana and kana + scripts["CJK"] > scripts["LATIN"]:
        return "Japanese"
    script = scripts.most_common(1)[0][0]
    if script != "LATIN":
        return _SCRIPTS.get(script, f"{script.capitalize()} script")
    words = _LATIN_WORD.findall(text.lower())
    found = Counter(language for word in words for language in _OF_WORD.get(word, ()))
    if not found:
        return "unknown"
    language, count = found.most_common(1)[0]
    return language if count >= _MIN_SHARE * len(words) else "unknown"


def guess_languages(texts: Iterable[str]) -> dict[str, float]:
    """Return the share of texts of each guessed language, the most frequent first.

    A text of which nothing can be said counts as `unknown`.
    """
    counts = Counter(guess_language(text) for text in texts)
    total = counts.total()
    return {language: count / total for language, count in counts.most_common()}
