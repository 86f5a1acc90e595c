"""Shape annotations such as ``Float[Tensor, "N C"]``: jaxtyping's notation without jaxtyping.

A type checker sees the array alone; the tests put jaxtyping's classes in the place of these and check shapes.
"""

from typing import Annotated as Bool
from typing import Annotated as Float
from typing import Annotated as Int
from typing import Annotated as Integer
from typing import Annotated as Shaped
from typing import Annotated as UInt8

__all__ = ["Bool", "Float", "Int", "Integer", "Shaped", "UInt8"]
