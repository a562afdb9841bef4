"""The model of scripts/train_embeddings.py beside the same in torch: from a seed to the losses, step by step."""
import numpy as np
import pytest
from benchmarks.training import torch_loss

from embedding.model import NextToken
from minigrad import random
from minigrad.optim import AdamW

pytestmark = pytest.mark.parity
V, C, T, H, B, STEPS = 500, 16, 4, 24, 32, 12


def torch_parameters(torch, seed):
    """Drawn by torch itself, in the order in which NextToken draws."""
    torch.manual_seed(seed)
    tables = [torch.empty(rows, C).normal_(0, 0.02) for rows in (V, T)]
    layers = [(torch.normal(0.0, n ** -0.5, (n, m)), torch.zeros(m)) for n, m in ((T * C, H), (H, C))]
    return [torch.nn.Parameter(p) for p in (torch.eye(C).repeat(T, 1), *tables, *layers[0], *layers[1])]


def test_a_seed_gives_torchs_model(torch):
    random.manual_seed(7)
    for ours, theirs in zip(NextToken(V, C, T, H).parameters(), torch_parameters(torch, 7), strict=True):
        assert np.array_equal(ours.data, theirs.detach().numpy())


@pytest.mark.parametrize("kind", ["whole logits", "in chunks"])
def test_the_losses_of_some_steps_are_torchs(torch, kind):
    random.manual_seed(7)
    model, theirs = NextToken(V, C, T, H), torch_parameters(torch, 7)
    optimizer, their_optimizer = AdamW(model.parameters(), lr=2e-3), torch.optim.AdamW(theirs, lr=2e-3)
    generator = random.Generator(0)
    losses = []
    for _ in range(STEPS):
        ids = (V * generator.rand(B, T + 1) ** 3).astype(np.int64)  # some often, most seldom
        loss = model.loss(ids[:, :T], ids[:, T])
        model.zero_grad()
        loss.backward()
        optimizer.step()
        x, y = torch.tensor(ids[:, :T]), torch.tensor(ids[:, T])
        their_loss = torch_loss(theirs, x, y, kind)
        their_optimizer.zero_grad()
        their_loss.backward()
        their_optimizer.step()
        losses.append((loss.item(), their_loss.item()))
    ours, reference = np.array(losses).T
    assert np.abs(ours - reference).max() < 1e-4
    for mine, other in zip(model.parameters(), theirs, strict=True):
        assert np.abs(mine.data - other.detach().numpy()).max() < 1e-4
