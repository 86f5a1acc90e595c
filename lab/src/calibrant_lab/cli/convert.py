"""``calibrant convert``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from calibrant.cli.reading import check_inputs
from calibrant.cli.terminal import Force, check_output, progress, refuse_to_replace


def convert(
    checkpoint: Annotated[Path, typer.Argument(help="Weights of CheXNet, as written by torch.save.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Write to this .safetensors file.")],
    force: Force = False,
) -> None:
    """Convert a CheXNet checkpoint to .safetensors without executing it.

    Examples:
        calibrant convert chexnet.pth.tar -o chexnet.safetensors
        calibrant convert chexnet.pth.tar -o chexnet.safetensors --force
    """
    check_inputs(checkpoint)
    check_output(out, endings=(".safetensors",), option="--out", inputs=[checkpoint])
    refuse_to_replace(out, option="--out", force=force, may=lambda _: False, what="from before")
    from calibrant_lab.web.model import convert_chexnet

    with progress(f"reading {checkpoint.name}"):
        outputs = convert_chexnet(checkpoint, out)
    typer.echo(f"weights of a DenseNet with {outputs} outputs: {out}")
    network = '--model "densenet(depth=121)" --multilabel --class-names chexnet'
    typer.echo(f"Next: calibrant serve {network} --weights {out}")
