"""Token trees: whatever the sequences, each trained token is predicted from exactly its own prefix."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from arena.training.packing import pack
from arena.training.sequences import TrainingSequence

# Three ids make shared prefixes, whole prefixes and equal sequences common.
streams = st.lists(st.lists(st.integers(0, 2), min_size=2, max_size=8), min_size=1, max_size=12)


def sequence(ids, data):
    positions = data.draw(st.sets(st.integers(1, len(ids) - 1), min_size=1))
    return TrainingSequence(ids, sorted(positions), None, [0] * len(positions), "a", "e", 1)


@given(streams, st.sampled_from([1, 12, 40, 1000]), st.booleans(), st.data())
def test_every_trained_token_sees_its_prefix(ids, budget, trees, data):
    sequences = [sequence(one, data) for one in ids]
    tokens = [(one, position) for one in sequences for position in one.positions]
    seen = []
    for part in pack(sequences, budget=budget, trees=trees):
        rows, width = part.ids_RM.shape
        assert rows == 1 or rows * width <= budget
        mask_RMM = part.mask_RMM
        if mask_RMM is None:
            mask_RMM = np.broadcast_to(np.tri(width, dtype=bool), (rows, width, width))
        for token, node in zip(part.tokens_N.tolist(), part.nodes_N.tolist(), strict=True):
            row, column = divmod(node, width)
            visible = np.flatnonzero(mask_RMM[row, column])
            one, position = tokens[token]
            assert part.ids_RM[row, visible].tolist() == one.ids[:position]
            if part.mask_RMM is not None:
                assert part.depths_RM[row, visible].tolist() == list(range(position))
            seen.append(token)
    assert sorted(seen) == list(range(len(tokens)))


def test_a_group_of_rollouts_shares_its_prompt():
    prompt = list(range(20))
    rollouts = [TrainingSequence([*prompt, 30 + i, 40, 50], [20, 22], None, [0, 1], "a", str(i), 20) for i in range(8)]
    (one,) = pack(rollouts, budget=1000)
    assert one.ids_RM.shape == (1, 20 + 8 * 2)


long_beginnings = st.lists(
    st.tuples(st.integers(0, 1), st.lists(st.integers(0, 2), min_size=1, max_size=9)), min_size=1
)


@given(long_beginnings, st.sampled_from([1, 90, 1000]), st.data())
def test_behind_a_trunk_every_trained_token_sees_its_prefix(tails, budget, data):
    # Two prompts, one longer than the other, so that trunks of one pack are padded.
    sequences = [sequence([7 + prompt] * (33 + 4 * prompt) + tail, data) for prompt, tail in tails]
    tokens = [(one, position) for one in sequences for position in one.positions]
    seen = []
    for part in pack(sequences, budget=budget, token_cost=1):
        ids, own = part.ids_RM, np.arange(part.ids_RM.shape[1])
        for token, node in zip(part.tokens_N.tolist(), part.nodes_N.tolist(), strict=True):
            one, position = tokens[token]
            if part.trunks is None:
                row, column = divmod(node, ids.shape[1])
                mask = np.tri(len(own), dtype=bool) if part.mask_RMM is None else part.mask_RMM[row]
                assert ids[row, mask[column]].tolist() == one.ids[:position]
            elif node < part.trunks.ids_TP.size:
                trunk, column = divmod(node, part.trunks.ids_TP.shape[1])
                assert part.trunks.ids_TP[trunk, : column + 1].tolist() == one.ids[:position]
            else:
                row, column = divmod(node - part.trunks.ids_TP.size, ids.shape[1])
                begun = part.trunks.ids_TP[part.trunks.trunk_R[row]]
                visible = part.mask_RMM[row, column]
                assert np.concatenate([begun, ids[row]])[visible].tolist() == one.ids[:position]
                assert part.depths_RM[row, column] == position - 1
            seen.append(token)
    assert sorted(seen) == list(range(len(tokens)))


def test_long_rollouts_go_on_from_a_trunk_and_short_ones_share_a_row():
    prompt = list(range(40))
    rollouts = [
        TrainingSequence([*prompt, *[50 + i] * 30], [*range(40, 70)], None, [0] * 30, "a", "", 40) for i in range(8)
    ]
    (one,) = pack(rollouts, budget=1000, token_cost=10)
    assert one.trunks is not None
    assert (one.trunks.ids_TP.shape, one.ids_RM.shape, one.size) == ((1, 40), (8, 29), 40 + 8 * 29)
    (dear,) = pack(rollouts, budget=1000, token_cost=10**6)
    assert dear.trunks is None, "where attention costs nothing beside the rest, one pass is enough"


def test_a_prompt_is_a_trunk_also_where_the_rollouts_are_longer_than_it():
    prompt = list(range(40))
    rollouts = [TrainingSequence([*prompt, *[50 + i] * 61], [*range(40, 101)], None, [], "a", "", 40) for i in range(8)]
    (one,) = pack(rollouts, budget=1000, token_cost=500)
    assert one.trunks is not None
    assert one.size == 40 + 8 * 60
