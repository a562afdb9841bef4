"""Many steps of every optimiser beside torch's."""
import numpy as np
import pytest

from minigrad import RowSparse, Tensor
from minigrad.functional import embedding
from minigrad.losses import cross_entropy
from minigrad.optim import SGD, Adam, AdamW

pytestmark = pytest.mark.parity

OURS = {"SGD": SGD, "Adam": Adam, "AdamW": AdamW}
CASES = [
    ("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.1, "momentum": 0.9}), ("SGD", {"lr": 0.1, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1, "dampening": 0.2}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1, "nesterov": True}),
    ("SGD", {}), ("Adam", {}), ("AdamW", {}), ("Adam", {"lr": 0.1, "weight_decay": 0.1}),
    ("AdamW", {"lr": 0.1, "weight_decay": 0.3}), ("Adam", {"lr": 0.05, "betas": (0.5, 0.9), "eps": 1e-3}),
]


def close(ours, theirs, dtype):
    rtol = 2e-6 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name, options", CASES, ids=str)
def test_a_hundred_dense_steps(torch, name, options, dtype):
    rng = np.random.default_rng(0)
    start = rng.normal(size=(5, 3)).astype(dtype)
    p, tp = Tensor(start, requires_grad=True), torch.tensor(start, requires_grad=True)
    ours, theirs = OURS[name]([p], **options), getattr(torch.optim, name)([tp], **options)
    for step in range(100):
        g = rng.normal(size=start.shape).astype(dtype)
        if step % 7 == 3:
            g[:] = 0
        p.grad, tp.grad = Tensor(g), torch.tensor(g)
        if step % 11 == 5:
            p.grad = tp.grad = None  # skipped, and not counted
        ours.step()
        theirs.step()
    close(p.data, tp, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name, options", [
    ("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.1, "momentum": 0.9}), ("Adam", {"lr": 0.1}), ("Adam", {"eps": 1e-2, "lr": 0.1}),
], ids=str)  # fmt: skip
def test_a_hundred_row_sparse_steps(torch, name, options, dtype):
    rng = np.random.default_rng(0)
    start = rng.normal(size=(20, 3)).astype(dtype)
    p, tp = Tensor(start, requires_grad=True), torch.tensor(start, requires_grad=True)
    ours = OURS[name]([p], **options)
    theirs = getattr(torch.optim, {"Adam": "SparseAdam"}.get(name, name))([tp], **options)
    for _ in range(100):
        ids = rng.integers(0, 20, rng.integers(0, 9))
        rows = rng.normal(size=(len(ids), 3)).astype(dtype)
        p.grad = RowSparse(ids, rows, p.shape)
        tp.grad = torch.sparse_coo_tensor(ids[None], rows, p.shape, check_invariants=True)
        ours.step()
        theirs.step()
    close(p.data, tp, dtype)
    if name == "Adam":
        close(ours.state[0]["exp_avg_sq"], theirs.state[tp]["exp_avg_sq"], dtype)


def test_momentum_and_dampening_set_between_steps(torch):
    p, tp = Tensor([1.0], requires_grad=True), torch.tensor([1.0], requires_grad=True)
    ours, theirs = SGD([p], lr=0.1), torch.optim.SGD([tp], lr=0.1)
    for momentum, dampening in [(0, 0), (0.9, 0.5), (0.9, 0.5), (0, 0.5), (0.5, 0.25), (0.5, 0)]:
        ours.momentum, ours.dampening = momentum, dampening
        theirs.param_groups[0].update(momentum=momentum, dampening=dampening)
        p.grad, tp.grad = Tensor([1.0]), torch.tensor([1.0])
        ours.step()
        theirs.step()
        close(p.data, tp, "float32")


@pytest.mark.parametrize("name", OURS)
def test_a_tied_table_learns_as_in_torch(torch, name):
    rng = np.random.default_rng(0)
    start = rng.normal(size=(11, 4)) * 0.1
    p, tp = Tensor(start, requires_grad=True), torch.tensor(start, requires_grad=True)
    ours, theirs = OURS[name]([p, p], lr=0.05), getattr(torch.optim, name)([tp], lr=0.05)
    losses = []
    for _ in range(40):
        ids = rng.integers(0, 11, 7)
        targets = (ids * 3 + 1) % 11
        ours.zero_grad()
        loss = cross_entropy(embedding(ids, p) @ p.T, targets)
        loss.backward()
        ours.step()
        theirs.zero_grad()
        their_loss = torch.nn.functional.cross_entropy(
            torch.nn.functional.embedding(torch.tensor(ids), tp) @ tp.T, torch.tensor(targets)
        )
        their_loss.backward()
        theirs.step()
        losses.append((loss.item(), their_loss.item()))
    np.testing.assert_allclose(*zip(*losses), rtol=1e-9)
    close(p.data, tp, "float64")
