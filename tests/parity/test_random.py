"""minigrad.random beside torch's CPU generator: equal to the last bit where torch runs its AVX2 code."""
import numpy as np
import pytest

from minigrad import normals, random
from minigrad.random import Generator

SIZES = (1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 47, 100, 1000, 5)
DTYPES = ("float32", "float64")


@pytest.fixture
def same(torch):
    """Compare ours with theirs: shape, dtype, every bit; without AVX2 within 4e-6 of the numbers' `scale`."""
    avx2 = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")

    def compare(ours, theirs, scale=1.0):
        theirs = theirs.numpy()
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        if avx2 or ours.dtype.kind == "i":
            assert ours.tobytes() == theirs.tobytes()
        else:
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=4e-6 * scale)

    return compare


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", [0, 42, 2**31, 2**32 - 1, 2**32 + 5, 2**40 + 7, -1, -5, 2**64 - 1, -(2**63)])
def test_a_mixed_sequence_of_draws_from_one_seed(torch, same, seed, dtype):
    ours, theirs = Generator(seed), torch.Generator().manual_seed(seed)
    assert ours.initial_seed() == theirs.initial_seed()
    kind = getattr(torch, dtype)
    for n in SIZES:
        same(ours.randn(n, dtype=dtype), torch.randn(n, dtype=kind, generator=theirs))
        same(ours.rand(n, dtype=dtype), torch.rand(n, dtype=kind, generator=theirs))
        for mean, std in [(0, 0.02), (1.5, 0.3), (-1e-3, 1e3), (0.1, 0.0)]:
            target = torch.empty(n, dtype=kind)
            same(ours.normal(mean, std, n, dtype), target.normal_(mean, std, generator=theirs), abs(mean) + std)
        for low, high in [(-0.1, 0.1), (0, 5), (-3, 7.7), (1, 1), (1, 1.0000001)]:
            target = torch.empty(n, dtype=kind)
            same(ours.uniform(low, high, n, dtype), target.uniform_(low, high, generator=theirs), abs(low) + high)
        for low, high in [(0, 10), (-5, 7), (0, 2**28 - 1), (0, 2**28), (3, 2**40), (-(2**63), 2**63 - 1), (0, 1)]:
            same(ours.randint(low, high, n), torch.randint(low, high, (n,), generator=theirs))
        same(ours.randperm(n), torch.randperm(n, generator=theirs))


@pytest.mark.parametrize("n", [599, 602, 2**14 + 1, 2**14 + 2, 100_000, 1_000_003])
def test_a_long_permutation(torch, same, n):
    ours, theirs = Generator(n), torch.Generator().manual_seed(n)
    same(ours.randperm(n), torch.randperm(n, generator=theirs))
    same(ours.rand(5), torch.rand(5, generator=theirs))  # as many words were drawn


@pytest.mark.slow
def test_a_permutation_of_so_many_that_torch_shuffles_in_another_way(torch):
    n = 2**32 // 20  # takes four gigabytes
    assert n == random.LONG_PERMUTATION
    theirs = torch.randperm(n, generator=torch.Generator().manual_seed(3)).numpy()
    assert np.array_equal(Generator(3).randperm(n), theirs)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32"])
def test_integers_of_other_types(torch, same, dtype):
    ours, theirs = Generator(1), torch.Generator().manual_seed(1)
    same(ours.randint(3, 100, 50, dtype), torch.randint(3, 100, (50,), dtype=getattr(torch, dtype), generator=theirs))


def test_a_layer_s_table_of_a_thousand_tokens(torch, same):
    torch.manual_seed(123)
    same(Generator(123).randn(1000, 768), torch.nn.Embedding(1000, 768).weight.detach())


@pytest.mark.slow
def test_gpt2_s_table(torch, same):
    torch.manual_seed(123)
    same(Generator(123).randn(50257, 768), torch.nn.Embedding(50257, 768).weight.detach())


def untempered(words):
    """The words of state from which the Mersenne Twister puts out `words`."""
    state = words ^ words >> 18
    state ^= state << 15 & 0xEFC60000
    undone = state
    for _ in range(4):
        undone = state ^ undone << 7 & 0x9D2C5680
    state = undone
    for _ in range(2):
        undone = state ^ undone >> 11
    return undone


def torch_normals(torch, words):
    """What torch makes of given words: it is told that they are next."""
    each = 608  # whole rows of sixteen in a state of 624 words
    theirs, out = torch.Generator(), torch.empty(words.size)
    state = theirs.get_state().numpy().copy()  # in 64-bit places: seed, (left, seeded), next, then 624 of state
    state[8:12], state[16:24] = np.array([624], np.uint32).view(np.uint8), 0
    places = state[24 : 24 + 624 * 8].view(np.uint64)
    tensor, source = torch.from_numpy(state), untempered(words)
    for start in range(0, words.size, each):
        part = source[start : start + each]
        places[: part.size] = part
        theirs.set_state(tensor)
        out[start : start + each].normal_(generator=theirs)
    return out


@pytest.mark.parametrize("step", [61, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("part", ["radius", "angle"])
def test_every_radius_and_angle_that_exists(torch, same, part, step):
    """There are 2**24 of each. A table of any size from any seed is made of these, so all tables are equal.

    Radii are taken at angle 0, where the cosine is 1; angles at the word whose radius is 1.
    """
    drawn = np.arange(0, 2**24, step, dtype=np.uint32)
    drawn = drawn[: drawn.size // 8 * 8].reshape(-1, 8)
    words = np.zeros((len(drawn), 2, 8), np.uint32)
    if part == "radius":
        words[:, 0] = drawn
    else:
        box_muller, near = normals.BoxMuller32(512), np.zeros((64, 2, 8), np.uint32)
        near[:, 0] = 6601360 - 256 + np.arange(512).reshape(-1, 8)  # 1 - exp(-1/2), in units of 2**-24
        radii = np.empty(1024, np.float32)
        box_muller(near.reshape(-1).copy(), radii)
        words[:, 0] = near[:, 0].reshape(-1)[radii.reshape(-1, 2, 8)[:, 0].reshape(-1) == 1][0]
        words[:, 1] = drawn
    words = words.reshape(-1)
    ours, box_muller = np.empty(words.size, np.float32), normals.BoxMuller32(1 << 16)
    for start in range(0, words.size, 1 << 17):
        box_muller(words[start : start + (1 << 17)].copy(), ours[start : start + (1 << 17)])
    same(ours + np.float32(0), torch_normals(torch, words))  # + 0: torch adds the mean, which makes -0 into 0
