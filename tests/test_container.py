"""The container is given all that the package is built from."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / "docker" / "Dockerfile"


def needed() -> set[str]:
    """Files and folders of the repository that building a wheel reads."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    read = [
        fragment["path"]
        for fragment in project["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["fragments"]
    ]
    sources = ["lab", *wheel["packages"], *project["project"]["license-files"], *read]
    return {"pyproject.toml", *(each.partition("/")[0] for each in sources)}


def test_the_build_has_its_sources() -> None:
    """Each is copied into the image, and let through by the list of what is not sent to the daemon."""
    copied = {
        name
        for line in re.findall(
            r"^COPY (?!--)(.*) \S+$", RECIPE.read_text(encoding="utf-8"), flags=re.MULTILINE
        )
        for name in line.split()
    }
    let_through = set(
        re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), flags=re.MULTILINE)
    )
    assert needed() <= copied
    assert needed() <= let_through
    assert {"src", "lab"} <= needed()


def test_the_image_runs_any_command() -> None:
    """The page is what it does without one; the composed one names its command whole."""
    lines = RECIPE.read_text(encoding="utf-8").splitlines()
    assert 'ENTRYPOINT ["calibrant"]' in lines
    assert 'CMD ["serve", "--host", "0.0.0.0"]' in lines
    composed = (ROOT / "docker" / "compose.yml").read_text(encoding="utf-8")
    assert '# command: ["serve", "--host", "0.0.0.0", "--model"' in composed
