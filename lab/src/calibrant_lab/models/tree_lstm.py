"""The binary Tree-LSTM, computed level by level over all trees of a batch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Int
from calibrant_lab.models._settings import Shape, positive, share


class TreeLSTM(nn.Module):
    r"""Binary Tree-LSTM over constituency trees, with logits at every node in training, else at the root.

    A leaf with word vector :math:`x` has memory :math:`c = W_c x` and state
    :math:`h = \sigma(W_o x) \tanh c`; a node with children :math:`l, r` has

    .. math:: c = i u + f_l c_l + f_r c_r, \quad h = \tanh c,

    where :math:`i, f_l, f_r` (with :math:`\sigma`) and :math:`u` (with :math:`\tanh`) are affine in
    :math:`h_l, h_r`. There is no output gate, as in the code of Mukhoti et al. (2020). Vectors are learned.

    With two classes a third, neutral, is learned beside them: node labels are negative, neutral and positive.
    The logits of a whole tree are then the log-probabilities of negative and positive among the three. Their
    softmax is renormalised; their exponential leaves out the neutral share, as those authors do.

    Args:
        input_shape: Nodes in a tree, and five: left child, right child, word, label, level. Row 0 is the
            root, level -1 is padding.
        num_classes: How many logits to give for a tree.
        vectors: Vectors that the words begin with; a row of NaN, an unknown word, is drawn from
            N(-0.05, 0.05²), as those authors do.
        memory: Width of memory and state.
        dropout: Share of the state left out before the logits in training.

    Raises:
        InputError: If a setting is out of range or the inputs are not trees.

    References:
        Tai et al., "Improved Semantic Representations From Tree-Structured Long Short-Term Memory Networks",
        ACL 2015.

    Example:
        >>> tree = torch.tensor([[1, 2, 0, 2, 1], [-1, -1, 1, 1, 0], [-1, -1, 2, 2, 0]])
        >>> network = TreeLSTM((3, 5), 2, vectors=torch.ones(3, 8), memory=4).eval()
        >>> network(tree[None]).shape, network.train()(tree[None]).shape
        (torch.Size([1, 2]), torch.Size([3, 3]))
    """

    def __init__(
        self,
        input_shape: Shape,
        num_classes: int,
        *,
        vectors: Float[Tensor, "V D"] | None = None,
        memory: int = 150,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        if vectors is None or len(input_shape) != 2 or input_shape[1] != 5:
            raise InputError(f"tree-lstm needs parse trees; got inputs of shape {input_shape}.")
        positive("num_classes", num_classes)
        self.strikes_neutral = num_classes == 2
        """True if a neutral class is learned that the logits of a tree omit."""
        memory = positive("memory", memory)
        drawn = torch.empty(vectors.shape).normal_(-0.05, 0.05)
        unknown = vectors.isnan()
        self.words = nn.Embedding.from_pretrained(torch.where(unknown, drawn, vectors.float()), freeze=False)
        self.leaf = nn.Linear(vectors.shape[1], 2 * memory)  # memory, output gate
        self.left = nn.Linear(memory, 4 * memory)  # input gate, forget gates of left and right, update
        self.right = nn.Linear(memory, 4 * memory)
        self.dropout = nn.Dropout(share("dropout", dropout))
        self.head = nn.Linear(memory, 3 if self.strikes_neutral else num_classes)

    def forward(self, inputs: Int[Tensor, "N nodes 5"]) -> Float[Tensor, "n C"]:
        """Logits of the trees; in training, of all their nodes in the order of :meth:`training_labels`."""
        words, steps, roots = _levels(inputs)
        memories, gates = self.leaf(self.words(words)).chunk(2, dim=1)
        waiting = (memories, gates.sigmoid() * memories.tanh())
        hidden = [waiting[1]]
        for count, order in steps:
            memories, outputs = (state.index_select(0, order) for state in waiting)
            grown = self._grown(memories, outputs, count)
            hidden.append(grown[1])
            rest = (memories[2 * count :], outputs[2 * count :])
            waiting = tuple(torch.cat(each) for each in zip(grown, rest, strict=True))
        if self.training:
            return self.head(self.dropout(torch.cat(hidden)))
        logits = self.head(waiting[1][roots])
        if not self.strikes_neutral:
            return logits
        # In half precision the three would not sum to one well enough to tell the neutral share.
        wide = logits if logits.dtype == torch.float64 else logits.float()
        return wide.log_softmax(dim=1)[:, ::2]

    def training_labels(
        self, inputs: Int[Tensor, "N nodes 5"], _labels: Int[Tensor, " N"]
    ) -> Int[Tensor, " n"]:
        """Return the labels of all nodes: leaves first, then level by level."""
        flat = inputs.flatten(0, 1)
        return flat[_by_level(flat[:, 4]), 3].long()

    def _grown(self, memories: Tensor, outputs: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Return memory and state of nodes, given all left children, then all right ones."""
        gates = self.left(outputs[:count]) + self.right(outputs[count : 2 * count])
        shares, update = gates.split([gates.shape[1] // 4 * 3, gates.shape[1] // 4], dim=1)
        enter, keep_left, keep_right = shares.sigmoid().chunk(3, dim=1)
        grown = enter * update.tanh() + keep_left * memories[:count]
        grown = grown + keep_right * memories[count : 2 * count]
        return grown, grown.tanh()


def _levels(inputs: Int[Tensor, "N nodes 5"]) -> tuple[Tensor, list[tuple[int, Tensor]], Tensor]:
    """Return a batch of trees in order of computation.

    Returns the words of the leaves; for each level its number of nodes, with the places of left children,
    right children and other parentless nodes; and the final places of the roots.
    """
    num_trees, longest, _ = inputs.shape
    left, right, words, _, levels = inputs.long().flatten(0, 1).unbind(1)
    first = torch.arange(num_trees * longest, device=inputs.device) // longest * longest
    left, right = left + first, right + first
    order = _by_level(levels)
    leaves, *others = order.split(torch.bincount(levels[order]).tolist())
    place = torch.zeros_like(levels)
    waiting, steps = leaves, list[tuple[int, Tensor]]()
    place[waiting] = torch.arange(len(waiting), device=inputs.device)
    for nodes in others:
        used = torch.cat([place[left[nodes]], place[right[nodes]]])
        unused = torch.ones(len(waiting), dtype=torch.bool, device=inputs.device)
        unused[used] = False
        kept = unused.nonzero()[:, 0]
        steps.append((len(nodes), torch.cat([used, kept])))
        waiting = torch.cat([nodes, waiting[kept]])
        place[waiting] = torch.arange(len(waiting), device=inputs.device)
    return words[leaves], steps, place[::longest]


def _by_level(levels: Int[Tensor, " n"]) -> Int[Tensor, " m"]:
    """Return the nodes, without padding, leaves first."""
    present = (levels >= 0).nonzero()[:, 0]
    return present[levels[present].argsort(stable=True)]
