"""Token trees: what sequences have in common is computed once, exactly.

Under a causal model the hidden state of a token depends on the tokens before it and on nothing else. Rollouts of one
task share their prompt, the two sides of a debate share nearly everything, so the sequences of a step are packed as
trees: a row holds the distinct tokens of several sequences, each attends to its own ancestors only and sits at its own
depth.

    <bos> Q ── a ── x          row:    <bos> Q a x y b
            │  └─── y          depth:  0     1 2 3 3 2
            └─ b               b attends to: <bos> Q b

A loss over the trained tokens of all sequences then has the same value and gradient as over the sequences one by one.

In such a row attention looks at all branches and throws nearly all of that away. Where branches are many and long, the
common beginning is a trunk of its own instead: it is computed first, and each branch is a row that attends to the
trunk's keys and values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from arena.training.sequences import TrainingSequence

__all__ = ["Pack", "Trunks", "pack"]

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_SHORTEST_TRUNK = 32
"""Tokens; a pass of its own does not pay for fewer."""
_WORTH = 0.9
"""A trunk and branches are taken where they cost less than this share of one row."""

_AT_ONCE = 1024
"""Tokens of a pack with trunks, where the budget allows more: these take more memory and no less time."""


@dataclass(slots=True)
class Trunks:
    """What the rows of a pack begin with."""

    ids_TP: Ints
    """(T, P) token ids, padded with 0 on the right."""
    trunk_R: Ints
    """(R,) trunk of each row."""


@dataclass(slots=True)
class Pack:
    """Rows for one forward pass, or for one after that of the trunks which they go on from."""

    ids_RM: Ints
    """(R, M) token ids, padded with 0 on the right."""
    depths_RM: Ints
    """(R, M) position of each token in its sequence."""
    mask_RMM: Bools | None
    """(R, M, M) which token (second axis) attends to which (third); None when plain causal attention does. Behind
    trunks (R, M, P + M): their P places come first."""
    tokens_N: Ints
    """(N,) trained tokens of this pack: places in the concatenation of all sequences' ``positions``."""
    nodes_N: Ints
    """(N,) place of the token that predicts each of them, in the flattened trunks, if any, and flattened rows."""
    trunks: Trunks | None = None
    """None: the rows are whole."""

    @property
    def size(self) -> int:
        """Tokens that are computed, padding included."""
        return self.ids_RM.size + (0 if self.trunks is None else self.trunks.ids_TP.size)


def pack(
    sequences: Sequence[TrainingSequence], *, budget: int, trees: bool = True, token_cost: int | None = None
) -> list[Pack]:
    """Pack the parts of sequences that their trained tokens depend on.

    Args:
        sequences: each with at least one trained token.
        budget: most tokens of a pack, padding included; a longer tree has a pack to itself.
        trees: share prefixes; False gives each sequence a row of its own, for models without free attention masks.
        token_cost: how many pairs of tokens can attend at the price of one token's way through the other layers; None
            makes no trunks, for models that take no keys and values.

    Returns:
        Packs, longest rows first, then those with trunks. All trained tokens of a sequence are in one pack.
    """
    # The last trained token is predicted, never read.
    lengths_S = np.fromiter((s.positions[-1] for s in sequences), np.int64, len(sequences))
    ids_SL = np.full((len(sequences), int(lengths_S.max())), -1, np.int64)
    ids_SL[np.arange(ids_SL.shape[1]) < lengths_S[:, None]] = np.fromiter(
        chain.from_iterable(s.ids[: s.positions[-1]] for s in sequences), np.int64, int(lengths_S.sum())
    )
    order_S = np.lexsort(ids_SL.T[::-1]) if trees else np.arange(len(sequences))
    forest = _Forest(ids_SL[order_S], lengths_S[order_S], budget if trees else 0, token_cost if trees else None)
    counts_S = np.fromiter((len(s.positions) for s in sequences), np.int64, len(sequences))
    positions = np.fromiter(chain.from_iterable(s.positions for s in sequences), np.int64, int(counts_S.sum()))
    rank_S = np.empty_like(order_S)
    rank_S[order_S] = np.arange(len(order_S))
    sequence_N, depth_N = np.repeat(rank_S, counts_S), positions - 1
    apart_T = forest.branching(token_cost) if trees and token_cost is not None else np.zeros(len(forest.sizes), bool)
    return [
        *forest.packs(sequence_N, depth_N, budget, np.flatnonzero(~apart_T)),
        *forest.trunk_packs(sequence_N, depth_N, min(budget, _AT_ONCE), np.flatnonzero(apart_T)),
    ]


class _Forest:
    """Trees over sorted sequences: a token is a node ``(sequence, depth)`` of the first sequence that has it."""

    def __init__(self, ids_SL: Ints, lengths_S: Ints, budget: int, token_cost: int | None) -> None:
        shared_S = _shared(ids_SL, lengths_S)
        starts = _starts(shared_S, lengths_S, budget)
        sizes = _sizes(starts, shared_S, lengths_S)
        # A task drawn twice would make one row twice as long as the others, and all of them pay for its padding.
        starts = _starts(shared_S, lengths_S, min(budget, int(1.5 * np.median(sizes))))
        if token_cost is not None:
            starts = _joined(starts, shared_S, lengths_S, token_cost)
        shared_S[starts] = 0

        count, width = ids_SL.shape
        depths_L = np.arange(width)
        first_SL = np.where(depths_L >= shared_S[:, None], np.arange(count)[:, None], 0)
        self.owner_SL = np.maximum.accumulate(first_SL, axis=0)
        self.new_SL = (depths_L >= shared_S[:, None]) & (depths_L < lengths_S[:, None])
        self.ids_SL, self.lengths_S = ids_SL, lengths_S
        self.starts = starts
        self.counts, self.trunks = _trunks(starts, shared_S, lengths_S)
        """Sequences of each tree, and how many tokens they all begin with; each has another one behind."""
        self.tree_S = np.cumsum(np.isin(np.arange(count), starts)) - 1
        self.sizes = _sizes(starts, shared_S, lengths_S)
        begin_T = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
        self.node_SL = np.cumsum(self.new_SL).reshape(self.new_SL.shape) - 1 - begin_T[self.tree_S][:, None]
        """Place in its row of each node that ``new_SL`` marks."""

    def branching(self, token_cost: int) -> Bools:
        """(trees,) which are cheaper as a trunk and a row for each sequence; padding counts."""
        row = self.sizes * (token_cost + self.sizes)
        return _worth(self.starts, self.counts, self.trunks, self.lengths_S, token_cost, row)

    def trunk_packs(self, sequence_N: Ints, depth_N: Ints, budget: int, trees: Ints) -> list[Pack]:
        """Trunks and branches for some trees; see `packs`."""
        longest = np.maximum.reduceat(self.lengths_S, self.starts) - self.trunks
        found: list[Pack] = []
        taken: list[int] = []
        rows = trunk = width = 0
        for tree in trees[np.lexsort((-longest[trees], -self.trunks[trees]))].tolist():
            sizes = (max(trunk, int(self.trunks[tree])), max(width, int(longest[tree])))
            count = int(self.counts[tree])
            if taken and (len(taken) + 1) * sizes[0] + (rows + count) * sizes[1] > budget:
                found.append(self._trunk_pack(np.asarray(taken), sequence_N, depth_N))
                taken, rows, sizes = [], 0, (int(self.trunks[tree]), int(longest[tree]))
            taken.append(tree)
            rows += count
            trunk, width = sizes
        return [*found, self._trunk_pack(np.asarray(taken), sequence_N, depth_N)] if taken else found

    def _trunk_pack(self, trees_T: Ints, sequence_N: Ints, depth_N: Ints) -> Pack:
        trunk_R = np.repeat(np.arange(len(trees_T)), self.counts[trees_T])
        sequence_R = np.concatenate([self.starts[tree] + np.arange(self.counts[tree]) for tree in trees_T])
        length_R = self.trunks[trees_T][trunk_R]
        trunk, width = int(length_R.max()), int((self.lengths_S[sequence_R] - length_R).max())
        begun_TP = np.arange(trunk) < self.trunks[trees_T][:, None]
        ids_TP = np.where(begun_TP, self.ids_SL[self.starts[trees_T], :trunk], 0)
        depth_RM = length_R[:, None] + np.arange(width)
        real_RM = depth_RM < self.lengths_S[sequence_R][:, None]
        depths_RM = np.where(real_RM, depth_RM, 0)
        mask_RMK = np.empty((len(sequence_R), width, trunk + width), bool)
        mask_RMK[:, :, :trunk] = begun_TP[trunk_R][:, None]
        mask_RMK[:, :, trunk:] = np.tri(width, dtype=bool)
        row_S = np.full(len(self.lengths_S), -1)
        row_S[sequence_R] = np.arange(len(sequence_R))
        tokens_N = np.flatnonzero(row_S[sequence_N] >= 0)
        row_N, depth_N = row_S[sequence_N[tokens_N]], depth_N[tokens_N]
        inside_N = depth_N < length_R[row_N]
        branch_N = ids_TP.size + row_N * width + depth_N - length_R[row_N]
        return Pack(
            np.where(real_RM, self.ids_SL[sequence_R[:, None], depths_RM], 0),
            depths_RM,
            mask_RMK,
            tokens_N,
            np.where(inside_N, trunk_R[row_N] * trunk + depth_N, branch_N),
            Trunks(ids_TP, trunk_R),
        )

    def packs(self, sequence_N: Ints, depth_N: Ints, budget: int, trees: Ints) -> list[Pack]:
        """Rows for some trees; ``sequence_N`` and ``depth_N`` are the nodes that predict trained tokens."""
        tree_N = self.tree_S[sequence_N]
        node_N = self.node_SL[self.owner_SL[sequence_N, depth_N], depth_N]
        order = trees[np.argsort(-self.sizes[trees], kind="stable")]
        found = []
        begin = 0
        while begin < len(order):
            width = int(self.sizes[order[begin]])
            rows = max(budget // width, 1)
            found.append(self._pack(order[begin : begin + rows], width, tree_N, node_N))
            begin += rows
        return found

    def _pack(self, trees_R: Ints, width: int, tree_N: Ints, node_N: Ints) -> Pack:
        row_T = np.full(len(self.sizes), -1)
        row_T[trees_R] = np.arange(len(trees_R))
        sequence, depth = np.nonzero(self.new_SL & (row_T[self.tree_S] >= 0)[:, None])
        at = (row_T[self.tree_S[sequence]], self.node_SL[sequence, depth])
        shape = (len(trees_R), width)
        ids_RM, depths_RM, owners_RM = np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.full(shape, -1)
        ids_RM[at] = self.ids_SL[sequence, depth]
        depths_RM[at] = depth
        owners_RM[at] = sequence
        branches = bool((depths_RM[owners_RM >= 0] != np.nonzero(owners_RM >= 0)[1]).any())
        tokens_N = np.flatnonzero(row_T[tree_N] >= 0)
        return Pack(
            ids_RM,
            depths_RM,
            self._mask(owners_RM, depths_RM) if branches else None,
            tokens_N,
            row_T[tree_N[tokens_N]] * width + node_N[tokens_N],
        )

    def _mask(self, owners_RM: Ints, depths_RM: Ints) -> Bools:
        """A node is an ancestor if it is the one that owns its depth in the other's sequence."""
        owner_RMM = self.owner_SL[owners_RM[:, :, None], depths_RM[:, None, :]]
        ancestor = owner_RMM == owners_RM[:, None, :]
        ancestor &= depths_RM[:, None, :] <= depths_RM[:, :, None]
        # Padding attends to itself: a row of the softmax without any entry would be NaN.
        return np.asarray(ancestor | np.eye(owners_RM.shape[1], dtype=bool))


def _shared(ids_SL: Ints, lengths_S: Ints) -> Ints:
    """(S,) how many first tokens each sequence has in common with the one before it."""
    shared_S = np.zeros_like(lengths_S)
    differs = ids_SL[1:] != ids_SL[:-1]
    common = np.where(differs.any(1), differs.argmax(1), ids_SL.shape[1])
    shared_S[1:] = np.minimum(common, np.minimum(lengths_S[1:], lengths_S[:-1]))
    return shared_S


def _starts(shared_S: Ints, lengths_S: Ints, budget: int) -> Ints:
    """Sequences that begin a tree: they share less than half with the one before, or the tree is full."""
    starts = []
    size = budget + 1
    previous = 0
    for index, (shared, length) in enumerate(zip(shared_S.tolist(), lengths_S.tolist(), strict=True)):
        # A long row pays for attention between branches, so a short common beginning is not worth joining for.
        if 2 * shared < min(length, previous) or size + length - shared > budget:
            starts.append(index)
            size = length
        else:
            size += length - shared
        previous = length
    return np.asarray(starts)


def _trunks(starts: Ints, shared_S: Ints, lengths_S: Ints) -> tuple[Ints, Ints]:
    """(trees,) how many sequences each has, and how many tokens they all begin with, so that each has one behind."""
    common_S = np.minimum(shared_S, lengths_S - 1)
    common_S[starts] = lengths_S[starts] - 1
    return np.diff(np.append(starts, len(lengths_S))), np.minimum.reduceat(common_S, starts)


def _worth(starts: Ints, counts: Ints, trunks: Ints, lengths_S: Ints, token_cost: int, otherwise: Ints) -> Bools:
    """(trees,) which cost clearly less than ``otherwise`` as a trunk and a row for each sequence; padding counts."""
    longest = np.maximum.reduceat(lengths_S, starts)
    rows = counts * (longest - trunks)
    cost = (trunks + rows) * token_cost + trunks**2 + rows * longest
    return np.asarray((counts > 1) & (trunks >= _SHORTEST_TRUNK) & (cost < _WORTH * otherwise))


def _joined(starts: Ints, shared_S: Ints, lengths_S: Ints, token_cost: int) -> Ints:
    """The starts without those between neighbours that share enough for a trunk, where one for all of them pays."""
    sizes = _sizes(starts, shared_S, lengths_S)
    first = shared_S[starts] < _SHORTEST_TRUNK
    apart = np.add.reduceat(sizes * (token_cost + sizes), np.flatnonzero(first))
    join = _worth(starts[first], *_trunks(starts[first], shared_S, lengths_S), lengths_S, token_cost, apart)
    return np.asarray(starts[first | ~join[np.cumsum(first) - 1]])


def _sizes(starts: Ints, shared_S: Ints, lengths_S: Ints) -> Ints:
    """(trees,) number of nodes of each."""
    new_S = lengths_S - shared_S
    new_S[starts] = lengths_S[starts]
    return np.asarray(np.add.reduceat(new_S, starts))
