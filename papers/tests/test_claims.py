"""The page of claims: computed from the tests of all studies, short, and each of its proofs has its test."""

import ast
import re

import pandas as pd

from papers import every_claim, studies
from papers.analysis import HERE, TAGS, read_claims

ROOT = HERE.parent
MOST_WORDS, MOST_IN_ITEM, MOST_IN_CLAIM = 2200, 30, 15
VERDICTS = {"Confirmed", "Contradicted", "Only in some settings", "Inconclusive", "Not testable here"}
OF_PROOFS = {"holds", "false", "with a condition", "answered"}


def page() -> str:
    return every_claim.PAGE.read_text(encoding="utf-8")


def words(text: str) -> list[str]:
    """What a reader reads, without targets of links and signs."""
    seen = re.sub(r"\]\([^)]*\)|<!--.*?-->", "]", text)
    return [word for word in seen.split() if re.search(r"[^\W\d_]", word)]


def items() -> list[tuple[str, str]]:
    """The items of the page's lists, each with the heading above it."""
    found, heading = [], ""
    for line in page().splitlines():
        heading = line.strip("*") if line.startswith("**") else heading
        found += [(heading, line[2:])] if line.startswith("- ") else []
    return found


def proofs() -> list[tuple[str, str]]:
    return [(heading, item) for heading, item in items() if heading.startswith("Proofs")]


def test_page_is_that_of_the_studies(every_row) -> None:
    """``python -m papers --claims`` would change nothing."""
    assert page() == every_claim.page_text(every_row)


def test_every_test_is_downloaded(every_row, tmp_path) -> None:
    """One row each, in both formats; what q leaves is no more than what p decided."""
    table = every_claim.download(every_row)
    table.to_parquet(tmp_path / "claims.parquet", index=False)
    again = pd.read_parquet(tmp_path / "claims.parquet")
    assert len(again) == len(every_row)
    changed = again[again.verdict != again.verdict_by_q]
    assert set(changed.verdict_by_q) == {"undecided"}
    assert (changed.q >= 0.05).all()
    assert (again.q.dropna() >= again.p[again.q.notna()] - 1e-12).all()


def test_page_is_short() -> None:
    assert len(words(page())) <= MOST_WORDS
    cells = re.findall(r"(?<=\| ).*?(?= \|)", page())
    for text in (*cells, *(item for heading, item in items() if heading)):
        assert len(words(text)) <= MOST_IN_ITEM, text


def test_verdicts_are_five_words() -> None:
    found = [heading for heading, _ in items() if heading and not heading.startswith("Proofs")]
    found += re.findall(r"\| \*\*([\w ]+)\*\*[^|]* \|$", page(), flags=re.MULTILINE)
    assert len(found) > 70
    assert set(found) <= VERDICTS


def test_proofs_have_a_verdict_and_a_test() -> None:
    assert len(proofs()) > 25
    for heading, proof in proofs():
        assert heading.removeprefix("Proofs: ") in OF_PROOFS, proof
        claim, _, check = re.fullmatch(r"(.+?) \(([^()]*)\): .+ `(.+)`", proof).groups()
        assert len(words(claim)) <= MOST_IN_CLAIM
        path, _, name = check.partition("::")
        tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, check


def test_what_means_the_same_has_one_name() -> None:
    """Claims of one paper with one ``id`` have the same words and section; of what is open there is a tag."""
    seen: dict[tuple[str, str], tuple[str, str]] = {}
    for study in studies.names():
        for claim in read_claims(study):
            key = claim["paper"], claim["id"]
            if claim["paper"] != "own":
                told = claim["text"], claim.get("section", "")
                assert seen.setdefault(key, told) == told, (study, key)
            if "open" in claim:
                assert claim["open"].partition(": ")[0] in TAGS, (study, claim["id"])


def test_flsd_is_better_where_cross_entropy_is_far_off() -> None:
    """As trained, in every study's settings, and only where the ECE of cross-entropy is above 6.5%."""
    seen = 0
    for name in ("cifar10", "losses", "sst", "sum_or_mean", "texts", "many_classes"):
        errors = studies.kept_frames(name)["errors"]
        errors = errors[errors.metric.str.lower().eq("ece") & errors.stage.isin(["before", "as trained"])]
        places = [each for each in ("data", "images", "way", "convention") if each in errors]
        means = errors.groupby(["loss", *places], observed=True).value.mean().unstack("loss")
        means = means[["cross-entropy", "FLSD-53"]].dropna()
        better = means["FLSD-53"] < means["cross-entropy"]
        assert (better == (means["cross-entropy"] > 0.065)).all(), means
        seen += len(means)
    assert seen > 12
    assert "above 6.5%" in page()


def test_claims_that_matter_are_asked(every_row) -> None:
    """Each of the twelve names claims of studies, if its paper has been asked, and has few words."""
    entries = every_claim.entries()
    assert len(entries) == 12
    asked = {(paper, claim) for paper, claim in zip(every_row.paper, every_row.claim, strict=True)}
    for each in entries:
        if each["paper"] in set(every_row.paper):
            assert {(each["paper"], one) for one in each["ids"]} <= asked, each["text"]
    assert all(len(words(each["text"])) <= MOST_IN_CLAIM for each in entries)
