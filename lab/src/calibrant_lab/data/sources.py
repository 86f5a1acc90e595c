"""Where sets are downloaded from, with the checksums that their authors or the usual libraries publish.

A set without a published checksum is not here: it is read from a given file.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Remote:
    """A file on the net."""

    url: str
    checksum: str
    """As ``algorithm:digest``."""

    @property
    def file(self) -> str:
        """Its name."""
        return self.url.partition("?")[0].rpartition("/")[2]


_KRIZ = "https://www.cs.toronto.edu/~kriz"
_SVHN = "http://ufldl.stanford.edu/housenumbers"
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"

EXTRA_SVHN = Remote(f"{_SVHN}/extra_32x32.mat", "md5:a93ce644f1a588dc4d68dda5feec44a7")

SOURCES: dict[str, tuple[Remote, ...]] = {
    "cifar10": (Remote(f"{_KRIZ}/cifar-10-python.tar.gz", "md5:c58f30108f718f92721af3b95e74349a"),),
    "cifar100": (Remote(f"{_KRIZ}/cifar-100-python.tar.gz", "md5:eb9058c3a382ffc7106e4002c42a8d85"),),
    "svhn": (
        Remote(f"{_SVHN}/train_32x32.mat", "md5:e26dedcc434d2e4c54c9b2d4a06d8373"),
        Remote(f"{_SVHN}/test_32x32.mat", "md5:eb5a983be6a315427106f1b164d9cef3"),
    ),
    "tiny_imagenet": (
        Remote("http://cs231n.stanford.edu/tiny-imagenet-200.zip", "md5:90528d7ca1a48142e341f4ef8d21d0de"),
    ),
    "mnist": (
        Remote(f"{_MNIST}/train-images-idx3-ubyte.gz", "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        Remote(f"{_MNIST}/train-labels-idx1-ubyte.gz", "md5:d53e105ee54ea40749a09fcbcd1e9432"),
        Remote(f"{_MNIST}/t10k-images-idx3-ubyte.gz", "md5:9fb629c4189551a2d022fa330f9573f3"),
        Remote(f"{_MNIST}/t10k-labels-idx1-ubyte.gz", "md5:ec29112dd5afa0611ce80d1b7f02629c"),
    ),
    "fashion_mnist": (
        Remote(f"{_FASHION}/train-images-idx3-ubyte.gz", "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
        Remote(f"{_FASHION}/train-labels-idx1-ubyte.gz", "md5:25c81989df183df01b3e8a0aad5dffbe"),
        Remote(f"{_FASHION}/t10k-images-idx3-ubyte.gz", "md5:bef4ecab320f06d8554ea6380940ec79"),
        Remote(f"{_FASHION}/t10k-labels-idx1-ubyte.gz", "md5:bb300cfdad3c16e7a12a480ee83cd310"),
    ),
    "cifar10-c": (
        Remote(
            "https://zenodo.org/records/2535967/files/CIFAR-10-C.tar?download=1",
            "md5:56bf5dcef84df0e2308c6dcbcbbd8499",
        ),
    ),
    "cifar100-c": (
        Remote(
            "https://zenodo.org/records/3555552/files/CIFAR-100-C.tar?download=1",
            "md5:11f0ed0f1191edbf9fa23466ae6021d3",
        ),
    ),
}
