"""Pins of data.language: one text of each kind; a guess is said to be one."""

import pytest

from samtone_tf.data.language import guess_language, guess_languages


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("What is the capital of the country with the most lakes?", "English"),
        ("Was ist die Hauptstadt von dem Land mit den meisten Seen und wie heißt es?", "German"),
        ("Quelle est la capitale du pays qui a le plus de lacs dans les Alpes?", "French"),
        ("¿Cuál es la capital del país que tiene más lagos y por qué?", "Spanish"),
        ("Qual è la capitale del paese che ha più laghi nelle Alpi e come si chiama?", "Italian"),
        ("Qual é a capital do país que tem mais lagos e como foi em uma noite?", "Portuguese"),
        ("Wat is de hoofdstad van het land met de meeste meren en hoe wordt het genoemd?", "Dutch"),
        ("Jaka jest stolica kraju, który ma najwięcej jezior i czy to nie jest daleko?", "Polish"),
        ("中国的首都是哪里", "Chinese"),
        ("日本の首都はどこですか", "Japanese"),
        ("대한민국의 수도는 어디입니까", "Korean"),
        ("ما هي عاصمة مصر", "Arabic script"),
        ("Столица какой страны", "Cyrillic script"),
        ("ποια είναι η πρωτεύουσα", "Greek"),
        ("42 + 7 = 49", "unknown"),
        ("", "unknown"),
        ("Xyzzy plugh", "unknown"),
    ],
)  # fmt: skip
def test_one_text_of_each(text, language):
    assert guess_language(text) == language


def test_shares_add_up_most_frequent_first():
    shares = guess_languages(["the cat of the house", "the dog", "der Hund und die Katze", "!!"])
    assert shares == {"English": 0.5, "German": 0.25, "unknown": 0.25}
    assert list(shares)[0] == "English"
    assert guess_languages([]) == {}
