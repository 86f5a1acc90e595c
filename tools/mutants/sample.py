"""All mutants, and a random sample of them.

Not mutated: annotations, decorators, what is raised or warned, f-strings, ``__all__``, overloads, what stands
under ``TYPE_CHECKING``, ``strict=`` of ``zip``, the bare ``*`` of a signature.
"""

from __future__ import annotations

import ast
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

ROOT = Path(__file__).parents[2]
ROOMS = ("_math", "losses", "metrics", "calibrators", "evaluation")
WORK = ROOT / "build" / "mutants"
Mutant = dict[str, Any]

_BINARY = "Add_Sub Sub_Add Mul_Div Div_Mul Pow_Mul FloorDiv_Mul Mod_Mul BitAnd_BitOr BitOr_BitAnd"
_COMPARED = "Lt_LtE Lt_GtE LtE_Lt LtE_Gt Gt_GtE Gt_LtE GtE_Gt GtE_Lt Eq_NotEq NotEq_Eq Is_IsNot IsNot_Is"
OPERATORS = (
    *(f"ReplaceBinaryOperator_{change}" for change in _BINARY.split()),
    *(f"ReplaceComparisonOperator_{change}" for change in _COMPARED.split()),
    *(f"ReplaceUnaryOperator_Delete_{sign}" for sign in ("USub", "Invert", "Not")),
    *("AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd"),
    *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ExceptionReplacer", "NumberReplacer"),
    "ZeroIterationForLoop",
)
"""Operators of cosmic-ray that give another value, not a wrong type (as ``Add_RShift`` would)."""

_BARE_STAR = re.compile(r"\*\s*,")


def kept(most: int, seed: int) -> list[Mutant]:
    """Return the sample, drawn once and then read from its file."""
    file = WORK / f"sample-{seed}-{most}.json"
    if not file.exists():
        file.write_text(json.dumps(drawn(most, seed)), encoding="utf-8")
    return json.loads(file.read_text(encoding="utf-8"))


def drawn(most: int, seed: int) -> list[Mutant]:
    """Draw about ``most`` mutants, packages in proportion to their lines, also in any prefix."""
    files = {room: sorted((ROOT / "src" / "calibrant" / room).rglob("*.py")) for room in ROOMS}
    lines = {room: sum(map(_lines_of_code, files[room])) for room in ROOMS}
    ranked: list[tuple[float, Mutant]] = []
    for room in ROOMS:
        chance = random.Random(f"{seed} {room}")
        places = [(path, *site) for path in files[room] for site in sites(path)]
        chance.shuffle(places)
        share, taken = most * lines[room] / sum(lines.values()), 0
        for path, (line, column), variants in places:
            if taken >= share:
                break
            name, occurrence = chance.choice(variants)
            mutant: Mutant = {"room": room, "file": path.relative_to(ROOT).as_posix(), "line": line}
            mutant |= {"column": column, "operator": name, "occurrence": occurrence}
            changed = mutated(mutant)
            if changed is not None:
                taken += 1
                texts = path.read_text(encoding="utf-8"), changed
                before, after = (text.splitlines()[line - 1].strip() for text in texts)
                ranked.append((taken / share, mutant | {"before": before, "after": after}))
    return [mutant for _, mutant in sorted(ranked, key=lambda pair: pair[0])]


def sites(path: Path) -> Iterator[tuple[tuple[int, int], list[tuple[str, int]]]]:
    """Yield mutable places of a file, with operator and occurrence."""
    source = path.read_text(encoding="utf-8")
    nodes = list(ast_nodes(get_ast(source)))
    lines, left_out = source.splitlines(), list(_left_out(ast.parse(source)))
    found: defaultdict[tuple[int, int], list[tuple[str, int]]] = defaultdict(list)
    for name in OPERATORS:
        operator = get_operator(f"core/{name}")()
        places = [place for node in nodes for place in operator.mutation_positions(node)]
        for occurrence, (start, _) in enumerate(places):
            inside = any(first <= start < last for first, last in left_out)
            if not inside and not _BARE_STAR.match(lines[start[0] - 1], start[1]):
                found[start].append((name, occurrence))
    yield from sorted(found.items())


def mutated(mutant: Mutant) -> str | None:
    """Return the changed source, or None if it does not compile or is equivalent."""
    source = (ROOT / mutant["file"]).read_text(encoding="utf-8")
    changed = mutate_code(source, get_operator(f"core/{mutant['operator']}")(), mutant["occurrence"])
    try:
        same = changed is None or ast.dump(ast.parse(changed)) == ast.dump(ast.parse(source))
    except SyntaxError:
        return None
    return None if same else changed


def _left_out(tree: ast.Module) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield spans that are not mutated."""
    for node in ast.walk(tree):
        parts: list[Any] = [node] if _is_left_out(node) else []
        parts += getattr(node, "decorator_list", [])
        parts += [getattr(node, "annotation", None), getattr(node, "returns", None)]
        for part in filter(None, parts):
            yield (part.lineno, part.col_offset), (part.end_lineno, part.end_col_offset)


def _is_left_out(node: ast.AST) -> bool:
    match node:
        case ast.Raise() | ast.JoinedStr() | ast.keyword(arg="strict"):
            return True
        case ast.If(test=ast.Name("TYPE_CHECKING")) | ast.Assign(targets=[ast.Name("__all__")]):
            return True
        case ast.Call(func=ast.Attribute(ast.Name("warnings"), "warn")):
            return True
        case ast.FunctionDef(decorator_list=[*decorators]):
            return any("overload" in ast.unparse(decorator) for decorator in decorators)
    return False


def _lines_of_code(path: Path) -> int:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return len({node.lineno for node in ast.walk(tree) if isinstance(node, (ast.stmt, ast.expr))})
