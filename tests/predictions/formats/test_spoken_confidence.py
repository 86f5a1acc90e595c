"""The confidence that an answer states in words: what is read, and what is found and not guessed."""

import pytest

from calibrant.predictions.formats.spoken_confidence import spoken_confidence

READ = {
    "Confidence: 85%": 0.85,
    "Paris (confidence is 0.85)": 0.85,
    "**Confidence:** 85 %": 0.85,
    "<confidence>0.85</confidence>": 0.85,
    '{"answer": "Paris", "confidence": "85%"}': 0.85,
    r"\boxed{Paris} Confidence: $85\%$": 0.85,
    "I am 85 % sure it is not 7.": 0.85,
    "Confidence:\n85 percent": 0.85,
    "Confidence - 85%": 0.85,
    "Confidence: very high (85%)": 0.85,
    "Confidence: 85,5 %": 0.855,
    "Confidence: .85.": 0.85,
    "Confidence: 8e-1": 0.8,
    "Confidence: 1": 1.0,
    "Confidence: 85/100": 0.85,
    "Confidence: 8.5/10": 0.85,
    "Confidence: 4/5": 0.8,
    "Confidence: 3 out of 5": 0.6,
    "Confidence: 85% (out of 100%)": 0.85,
    "Confidence (0-100): 85": 0.85,
    "Confidence (0-100): 85%": 0.85,
    "**Confidence** [0-100]: 85": 0.85,
    "Confidence (0-1): 0.85": 0.85,
    "Confidence score (between 0 and 1): 0.85": 0.85,
    "Confidence (in %): 85": 0.85,
    "Confidence (1-10): 8": 0.8,
    "Confidence: 8 (1-10)": 0.8,
    "Confidence on a scale from 1 to 10: 8": 0.8,
    "Confidence (50-100): 70": 0.7,
    "Answer and Confidence (0-100): B, 85%": 0.85,
    "Answer and Confidence (0-100): 42, 85": 0.85,
    "Confidence: 85%\nNo, wait. Confidence: 70%": 0.7,
    "The probability of heads is 0.5. Confidence: 70%": 0.7,
}
NOT_UNDERSTOOD = (
    "Confidence: -5%",
    "Confidence: 160%",
    "Confidence (0-100): 120",
    "Confidence (1-10): 0.85",
    "Confidence (0-5): 9/10",
    "Confidence (0-100): 0.85",
    "Confidence: 80-90%",
    "I am 80 to 90% sure",
    "Confidence: 85±5%",
    "Confidence: 100% minus 15%",
    "Confidence: at least 85%",
    "Confidence: 85% or higher",
    "Confidence: >85%",
    "I am more than 85% sure",
    "I am not 85% sure",
    "I can't say I'm 85% sure",
    "My confidence is not 85%",
    "Confidence: 10% uncertain",
    "I am 10% unsure",
    "Uncertainty: 10%",
    "Confidence: 85",
    "Confidence: 1,000",
    "Confidence: 4/5/2026",
    "Confidence: high",
    "Answer and Confidence (0-100): 42",
)
SILENT = ("Paris", "I am sure that it is 42.", "The 95% confidence interval is 3 to 5.")
CASES = [
    *((text, True, share) for text, share in READ.items()),
    *((text, True, None) for text in NOT_UNDERSTOOD),
    *((text, False, None) for text in SILENT),
]


@pytest.mark.parametrize(("text", "stated", "share"), CASES)
def test_what_a_text_says(text: str, stated: bool, share: float | None) -> None:
    """Whether it states a confidence, and its share; None where a number would be a guess."""
    found = spoken_confidence(text)
    assert (found is not None) == stated
    if found is not None:
        assert found.share == (None if share is None else pytest.approx(share, rel=1e-12))
