"""The text form of calls: what is read, what is refused, what is suggested."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant._math.errors import InputError
from calibrant._math.text_form import build_from, parse_call


@pytest.mark.parametrize(
    ("text", "name", "settings"),
    [
        ("temperature", "temperature", {}),
        ("temperature()", "temperature", {}),
        ("  focal-temperature ( gamma = -0.5 ) ", "focal-temperature", {"gamma": -0.5}),
        ("focal(gamma=3)", "focal", {"gamma": 3}),
        ("a(b='c(d)', e=(1, 2.5), f=None, g=[True], h={'i': 1e-3})", "a",
         {"b": "c(d)", "e": (1, 2.5), "f": None, "g": [True], "h": {"i": 1e-3}}),
        ('a(\n  b="\\n",\n)', "a", {"b": "\n"}),
    ],
)  # fmt: skip
def test_what_is_read(text: str, name: str, settings: dict[str, object]) -> None:
    assert parse_call(text) == (name, settings)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "()",
        "1a",
        "a(",
        "a)",
        "a(1)",
        "a(b)",
        "a(b=c)",
        "a(b=1)(c=2)",
        "a(b=1).c",
        "a(**{'b': 1})",
        "a(b=1, b=2)",
        "a(b=__import__('os'))",
        "a(b=f'{1}')",
        "a(b=1); import os",
        "a(b=1) or f(c=2)",
        "a, b",
        "a b",
        "a(b=\0)",
        "a(b=" + "(" * 300 + ")" * 300 + ")",
        "a(b='" + "x" * 3000 + "')",
    ],
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected name or name") as caught:
        parse_call(text)
    assert len(str(caught.value)) < 200


@settings(max_examples=25)
@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        name, settings = parse_call(f"a({text})")
    except InputError:
        return
    assert name == "a"
    assert isinstance(settings, dict)


@given(
    st.dictionaries(
        st.from_regex("[a-z_]{1,8}", fullmatch=True).filter(lambda word: word.isidentifier()),
        st.one_of(
            st.integers(),
            st.floats(allow_nan=False, allow_infinity=False),
            st.text(max_size=9),
            st.booleans(),
        ),
        max_size=4,
    )
)
def test_what_is_written_is_read(settings: dict[str, object]) -> None:
    """Settings written with ``repr`` come back as they were."""
    from keyword import iskeyword

    settings = {word: value for word, value in settings.items() if not iskeyword(word)}
    text = ", ".join(f"{word}={value!r}" for word, value in settings.items())
    assert parse_call(f"name({text})") == ("name", settings)


def test_unknown_names_and_settings_are_answered() -> None:
    """The message names the kind of thing, what was written, and what was probably meant."""
    makers = {"focal": lambda *, gamma: gamma, "brier": lambda: 0}
    with pytest.raises(InputError, match=r"^there is no loss 'focla'; did you mean 'focal'\?$"):
        build_from("focla", makers, what="loss")
    with pytest.raises(InputError, match=r"^loss 'focal' has no setting 'gama'; did you mean 'gamma'\?$"):
        build_from("focal(gama=1)", makers, what="loss")
    with pytest.raises(InputError, match=r"^there is no loss 'zzz'; choose 'focal' or 'brier'\.$"):
        build_from("zzz", makers, what="loss")
    with pytest.raises(InputError, match=r"^loss 'brier' has no setting 'gamma'; there is none\.$"):
        build_from("brier(gamma=1)", makers, what="loss")
