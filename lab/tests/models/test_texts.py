"""Networks for texts and trees: sizes, trimming and levels change nothing, and what is refused."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from calibrant_lab import models
from calibrant_lab.models.gp_cnn import GPCNN
from calibrant_lab.models.tree_lstm import TreeLSTM
from refusals import refused


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(11)


@pytest.mark.parametrize(
    ("text", "shape", "classes", "size", "count"),
    [
        ("gp-cnn", (1000,), 20, 100, 247_316),
        ("tree-lstm", (111, 5), 2, 300, 271_953),
        ("tree-lstm", (111, 5), 2, 100, 211_953),
        ("tree-lstm", (111, 5), 5, 300, 272_255),
    ],
)
def test_networks_have_the_authors_numbers_of_parameters(text, shape, classes, size, count) -> None:
    """Beside the word vectors, as the 2020 code builds them; the last by hand, two more classes of 151."""
    model = models.build(text, input_shape=shape, num_classes=classes, vectors=torch.zeros(3, size))
    named = dict(model.named_parameters())
    assert sum(value.numel() for name, value in named.items() if not name.startswith("words.")) == count


def texts(lengths: list[int], words: int, generator: torch.Generator) -> Tensor:
    """Texts of these lengths, padded in front."""
    found = torch.zeros((len(lengths), words), dtype=torch.int32)
    for row, length in enumerate(lengths):
        if length:
            found[row, -length:] = torch.randint(1, 6, (length,), generator=generator, dtype=torch.int32)
    return found


def plainly(model: GPCNN, inputs: Tensor) -> Tensor:
    """The network as its authors write it: all texts at full length."""
    features = model.vectors[inputs].transpose(1, 2)
    for number, convolution in enumerate((model.first, model.second, model.third)):
        features = functional.relu(convolution(features))
        if number < 2:
            features = functional.max_pool1d(features, 5, stride=1)
    return model.head(functional.relu(model.hidden(features.amax(dim=2))))


def test_trimmed_padding_changes_neither_logits_nor_gradients(generator) -> None:
    """Groups cut to their longest text equal whole texts, at every length around the field of 21 words."""
    model = GPCNN((60,), 4, vectors=torch.randn(6, 8, generator=generator), width=6, dropout=0, group=3)
    model = model.double()
    inputs = texts([60, 1, 0, 39, 40, 20, 21, 22, 5, 38], 60, generator)
    slopes = []
    for logits in (model(inputs), plainly(model, inputs)):
        slopes.append(torch.autograd.grad(logits.square().sum(), list(model.parameters())))
        torch.testing.assert_close(logits, plainly(model, inputs), rtol=0, atol=1e-12)
    for mine, theirs in zip(*slopes, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-10)


def test_one_word_of_padding_less_would_change_logits(generator, monkeypatch) -> None:
    """The 21 is needed: with 20 some text of padding alone in front has other logits."""
    model = GPCNN((60,), 4, vectors=torch.randn(6, 8, generator=generator), width=64, dropout=0, group=1)
    inputs = texts([5] * 40, 60, generator)
    monkeypatch.setattr("calibrant_lab.models.gp_cnn._FIELD", 20)
    with torch.no_grad():
        assert not torch.allclose(model(inputs), plainly(model, inputs), rtol=0, atol=1e-5)


def test_unknown_words_are_zero_in_a_network_that_does_not_learn_them() -> None:
    vectors = torch.tensor([[0.0, 0.0], [1.0, 2.0], [torch.nan, torch.nan]])
    model = GPCNN((21,), 2, vectors=vectors, width=2)
    assert model.vectors.tolist() == [[0, 0], [1, 2], [0, 0]]
    assert "vectors" in model.state_dict()
    assert "vectors" not in dict(model.named_parameters())


TREE = [  # ((w1 w2) (w3 (w4 w5))), rows in the order of a walk from the root
    [1, 4, 0, 2, 3],
    [2, 3, 0, 0, 1],
    [-1, -1, 1, 1, 0],
    [-1, -1, 2, 2, 0],
    [5, 6, 0, 1, 2],
    [-1, -1, 3, 0, 0],
    [7, 8, 0, 2, 1],
    [-1, -1, 4, 1, 0],
    [-1, -1, 5, 0, 0],
]
OTHERS = [
    [[-1, -1, 3, 2, 0]],
    [[1, 2, 0, 0, 1], [-1, -1, 5, 1, 0], [-1, -1, 1, 2, 0]],
    [[1, 4, 0, 1, 2], [2, 3, 0, 2, 1], [-1, -1, 5, 1, 0], [-1, -1, 1, 2, 0], [-1, -1, 2, 0, 0]],
]


def forest() -> Tensor:
    table = torch.zeros((4, 11, 5), dtype=torch.int32)
    table[:, :, 4] = -1
    for row, tree in enumerate([OTHERS[0], TREE, *OTHERS[1:]]):
        table[row, : len(tree)] = torch.tensor(tree, dtype=torch.int32)
    return table


def node_by_node(model: TreeLSTM, tree: Tensor, row: int = 0) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Memory and state of a node, and the logits of all below it, by the formulas, one node at a time."""
    left, right, word, _, level = tree[row].tolist()
    if level == 0:
        wide = model.leaf(model.words.weight[word])
        size = len(wide) // 2
        memory, output = wide[:size], torch.sigmoid(wide[size:]) * torch.tanh(wide[:size])
        return memory, output, [model.head(output)]
    (c_left, h_left, below_left), (c_right, h_right, below_right) = (
        node_by_node(model, tree, child) for child in (left, right)
    )
    gates = (model.left(h_left) + model.right(h_right)).view(4, -1)
    enter, keep_left, keep_right = torch.sigmoid(gates[:3])
    memory = enter * torch.tanh(gates[3]) + keep_left * c_left + keep_right * c_right
    output = torch.tanh(memory)
    return memory, output, [model.head(output), *below_left, *below_right]


@pytest.fixture
def network(generator) -> TreeLSTM:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = TreeLSTM((11, 5), 2, vectors=torch.randn(6, 7, generator=generator), memory=4, dropout=0.0)
    return model.double()


def test_levels_give_what_nodes_give_one_by_one(network) -> None:
    """Loss over all nodes and every gradient, in float64, and the trees' logits afterwards."""
    trees = forest()
    labels = network.training_labels(trees, torch.zeros(4))
    batched = functional.cross_entropy(network(trees), labels, reduction="sum")
    single = torch.zeros((), dtype=torch.float64)
    for tree in trees:
        nodes = int((tree[:, 4] >= 0).sum())
        logits = torch.stack(node_by_node(network, tree)[2])
        single = single + functional.cross_entropy(logits, tree[:nodes, 3].long(), reduction="sum")
    assert len(labels) == 1 + 9 + 3 + 5
    torch.testing.assert_close(batched, single, rtol=1e-12, atol=0)
    both = [torch.autograd.grad(loss, list(network.parameters())) for loss in (batched, single)]
    for mine, theirs in zip(*both, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)
    with torch.no_grad():
        roots = torch.stack([network.head(node_by_node(network, tree)[1]) for tree in trees])
        found = network.eval()(trees)
    torch.testing.assert_close(found, roots.log_softmax(dim=1)[:, [0, 2]], rtol=0, atol=1e-12)


def test_log_probabilities_are_not_rounded_to_half_precision(network) -> None:
    """In bfloat16 the shares of two classes leave the third its share to float32's accuracy."""
    with torch.no_grad():
        found = network.bfloat16().eval()(forest())
        network.strikes_neutral = False
        whole = network(forest()).float().softmax(dim=1)
    assert found.dtype == torch.float32
    torch.testing.assert_close(1 - found.exp().sum(dim=1), whole[:, 1], rtol=0, atol=1e-6)


def test_five_sentiments_have_no_class_beside_them(generator) -> None:
    model = TreeLSTM((11, 5), 5, vectors=torch.randn(6, 7, generator=generator), memory=4, dropout=0.0)
    with torch.no_grad():
        found = model.eval()(forest())
        root = model.head(node_by_node(model, forest()[1])[1])
    assert found.shape == (4, 5)
    torch.testing.assert_close(found[1], root)


def test_unknown_words_of_trees_are_drawn_as_the_authors_do() -> None:
    """Mean and deviation of 40 000 draws of N(-0.05, 0.05²), |z| < 4; known words stay as they are."""
    vectors = torch.full((401, 100), torch.nan)
    vectors[0] = 7.0
    with torch.random.fork_rng():
        torch.manual_seed(0)
        weight = TreeLSTM((3, 5), 2, vectors=vectors, memory=1).words.weight.detach()
    assert torch.equal(weight[0], vectors[0])
    drawn = weight[1:].double()
    assert abs(float(drawn.mean()) + 0.05) < 4 * 0.05 / 200
    assert abs(float(drawn.std()) / 0.05 - 1) < 4 / (2 * 40_000) ** 0.5


def test_layers_begin_as_torch_draws_them() -> None:
    """The authors leave torch's own initialisation: uniform up to one over the root of the inputs."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = TreeLSTM((3, 5), 2, vectors=torch.zeros(3, 300))
    for layer, inputs in ((model.leaf, 300), (model.left, 150), (model.right, 150), (model.head, 150)):
        bound = inputs**-0.5
        assert 0.95 * bound < float(layer.weight.detach().abs().max()) <= bound
        assert 0.2 * bound < float(layer.bias.detach().abs().max()) <= bound


@pytest.mark.parametrize(
    ("text", "shape", "vectors", "words"),
    [
        ("gp-cnn", (1000,), None, "needs texts"),
        ("gp-cnn", (1, 28, 28), torch.ones(2, 4), "needs texts"),
        ("gp-cnn", (20,), torch.ones(2, 4), "texts of 21 words or more"),
        ("gp-cnn", (30,), torch.full((2, 4), torch.nan), "set data.vectors"),
        ("gp-cnn(dropout=1.5)", (30,), torch.ones(2, 4), r"\[0, 1\)"),
        ("tree-lstm", (1000,), torch.ones(2, 4), "needs parse trees"),
        ("tree-lstm", (9, 5), None, "needs parse trees"),
        ("mlp", (1000,), torch.ones(2, 4), "mlp does not read texts; the networks for texts are gp-cnn"),
        ("tree-lstm(width=3)", (9, 5), torch.ones(2, 4), "no setting 'width'"),
    ],
)
def test_what_does_not_fit_is_refused(text, shape, vectors, words) -> None:
    refused(words, models.build, text, input_shape=shape, num_classes=2, vectors=vectors)


class Bag(nn.Module):
    def __init__(self, num_classes: int, vectors: Tensor) -> None:
        super().__init__()
        self.words = nn.Embedding.from_pretrained(vectors)
        self.head = nn.Linear(vectors.shape[1], num_classes)


def test_networks_of_ones_own_are_given_the_vectors() -> None:
    found = models.build(f"{__name__}:Bag", input_shape=(9,), num_classes=3, vectors=torch.ones(5, 4))
    assert found.get_submodule("words").weight.shape == (5, 4)
