"""minigrad.random and minigrad.normals by themselves: what a seed determines, and what is refused."""
import itertools
import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import normals, random, shuffle
from minigrad.random import Generator

DTYPES = [np.float32, np.float64]


@given(st.integers(-(2**63), 2**64 - 1))
def test_the_words_are_those_of_the_readable_mersenne_twister(seed):
    readable = itertools.islice(random.mersenne_twister(seed), 1300)  # more than two states' worth
    assert Generator(seed)._words(1300).tolist() == list(readable)


def test_seed_123_starts_with_the_numbers_that_torch_prints():
    random.manual_seed(123)
    table = random.randn(6, 3)
    assert table.dtype == np.float32 and table.shape == (6, 3)
    assert table[0].tolist() == [0.3373701870441437, -0.17777721583843231, -0.16895627975463867]


def test_fewer_than_sixteen_are_no_prefix_of_sixteen():
    """torch has two ways to make normal numbers (pytorch issue 80202); both are kept."""
    columns = [random.manual_seed(0).randn(*shape)[:, 0].tolist() for shape in [(1, 7), (1, 8), (2, 8)]]
    assert columns == [[1.5409960746765137], [1.5409960746765137], [-1.1258398294448853, 0.32227492332458496]]


def test_every_second_single_normal_was_made_with_the_one_before():
    together = Generator(7).randn(4)
    one, other = Generator(7), Generator(7)
    assert [one.randn(1)[0] for _ in range(4)] == together.tolist()
    other.randn(1), other.randn(18)
    assert other.randn(1)[0] == together[1]  # kept through a draw of another kind
    assert other.manual_seed(7).randn(1)[0] == together[0]  # and dropped by a new seed


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_number_does_not_depend_on_threads_or_blocks(dtype, monkeypatch):
    monkeypatch.setattr(random, "BLOCK", 64)
    draws = []
    for threads in (1, 2, 7):
        monkeypatch.setattr(random, "thread_count", lambda threads=threads: threads)
        draws.append([Generator(3).normal(0.5, 2.0, 1003, dtype), Generator(3).uniform(-1, 2, 1003, dtype)])
    monkeypatch.setattr(random, "BLOCK", 1 << 17)
    draws.append([Generator(3).normal(0.5, 2.0, 1003, dtype), Generator(3).uniform(-1, 2, 1003, dtype)])
    for draw in draws[1:]:
        assert np.array_equal(draw, draws[0])


def test_an_error_in_a_thread_reaches_the_caller(monkeypatch):
    def fail(self, words, out):
        raise MemoryError("no room")

    monkeypatch.setattr(random, "BLOCK", 64)
    monkeypatch.setattr(normals.BoxMuller32, "__call__", fail)
    with pytest.raises(MemoryError, match="no room"):
        Generator(0).randn(1024)


@pytest.mark.parametrize("dtype", DTYPES)
def test_normal_numbers_are_normal(dtype):
    """Mean, deviation and tails of 200,000 numbers lie where they should, within five standard errors."""
    draw = Generator(11).normal(3.0, 0.5, 200_000, dtype)
    n = draw.size
    assert abs(draw.mean() - 3) < 5 * 0.5 / n**0.5
    assert abs(draw.std() - 0.5) < 5 * 0.5 / (2 * n) ** 0.5
    for deviations, share in [(1, 0.682689), (2, 0.954500), (3, 0.997300)]:
        inside = (abs(draw - 3) < deviations * 0.5).mean()
        assert abs(inside - share) < 5 * (share * (1 - share) / n) ** 0.5


@given(st.integers(0, 2**32), st.floats(-(2.0**99), 2.0**99, width=32), st.floats(0, 2.0**99, width=32), st.sampled_from(DTYPES))
def test_uniform_numbers_never_reach_the_upper_bound(seed, low, width, dtype):
    low, high = dtype(low), dtype(low) + dtype(width)
    draw = Generator(seed).uniform(float(low), float(high), 50, dtype)
    assert (low <= draw).all() and ((draw < high).all() or low == high)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 2**64 - 1))
def test_integers_stay_in_their_range(low, span):
    high = min(low + span, 2**63)
    draw = Generator(5).randint(low, high, 30)
    assert all(low <= value < high for value in draw.tolist())


@given(st.integers(0, 200))
def test_a_permutation_holds_each_number_once(n):
    assert sorted(Generator(n).randperm(n).tolist()) == list(range(n))


@given(st.data())
def test_swaps_made_together_are_those_made_one_after_another(data):
    steps = data.draw(st.integers(0, 40))
    values = np.arange(steps + data.draw(st.integers(1, 5)))
    targets = np.array([data.draw(st.integers(i, len(values) - 1)) for i in range(steps)], np.int64)
    each, together = values.copy(), values.copy()
    shuffle.swap_each(each, targets)
    shuffle.swap_together(together, targets)
    assert together.tolist() == each.tolist()


@pytest.mark.parametrize("n", [2, 3, 601, 1000, 5000])
def test_a_permutation_does_not_depend_on_how_many_swaps_are_made_together(monkeypatch, n):
    expected = np.arange(n)
    steps = Generator(n)._words(n - 1) % np.arange(n, 1, -1, dtype=np.uint64)
    shuffle.swap_each(expected, np.arange(n - 1) + steps.astype(np.int64))
    for together in (700, 1 << 14):
        monkeypatch.setattr(random, "TOGETHER", together)
        assert Generator(n).randperm(n).tolist() == expected.tolist()


@pytest.mark.parametrize("n", [0, 1, 2, 3, 40, 1000])
def test_a_permutation_too_long_for_one_word_a_swap_swaps_with_places_before(monkeypatch, n):
    monkeypatch.setattr(random, "LONG_PERMUTATION", 0)
    expected, drawn = list(range(n)), normals.pair_up(Generator(n)._words(2 * n)).tolist()
    for i, number in enumerate(drawn):
        place = number % (i + 1)
        expected[i], expected[place] = expected[place], expected[i]
    for together in (7, 1 << 14):
        monkeypatch.setattr(random, "TOGETHER", together)
        assert Generator(n).randperm(n).tolist() == expected


# the sum of a product and a float, as wide as float64 goes
factors = st.floats(-1e80, 1e80, allow_subnormal=False).filter(lambda x: x == 0 or abs(x) > 1e-80)


@given(factors, factors, factors)
def test_fma_rounds_once_in_float64(a, b, c):
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    assert normals.fma(np.array([a]), np.float64(b), np.float64(c))[0] == float(exact)


@given(st.floats(0, 1), st.floats(2.0**890, 2.0**1020), st.floats(-(2.0**1020), 2.0**1020))
def test_fma_does_not_overflow_on_the_way(a, b, c):
    if a > 2**-50 and (c == 0 or abs(c) > 1):
        assert normals.fma(np.array([a]), np.float64(b), np.float64(c))[0] == float(Fraction(a) * Fraction(b) + Fraction(c))


floats = st.floats(-(2.0**60), 2.0**60, width=32)


@given(floats, floats, floats, st.integers(-1, 1))
def test_fma_rounds_once_in_float32(a, b, c, nudge):
    """Also where the sum lies a hair beside the middle of two float32, which float64 alone would round twice."""
    if nudge and c:
        half_way = np.spacing(np.float32(c)) / 2
        a, b = np.float32(half_way), np.float32(1 + nudge * 2.0**-23)
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    result = normals.fma(np.array([a], np.float32), np.float32(b), np.float32(c))[0]
    down, up = np.nextafter(result, np.float32(-np.inf)), np.nextafter(result, np.float32(np.inf))
    distance = abs(Fraction(float(result)) - exact)
    for other in (down, up):
        rival = abs(Fraction(float(other)) - exact)
        assert distance < rival or (distance == rival and result.view(np.int32) % 2 == 0)


def test_a_state_is_plain_data_and_the_stream_goes_on_from_it():
    generator = Generator(-3)
    generator.randn(5), generator.rand(1000)
    state = json.loads(json.dumps(generator.get_state()))

    def draws(g):
        return [g.randn(5), g.rand(40), g.randint(0, 9, 7), g.randperm(12), g.randn(33)]

    rest = draws(generator)
    other = Generator(99).set_state(state)
    assert other.initial_seed() == 2**64 - 3
    for ours, theirs in zip(rest, draws(other)):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"words": [1, 2]}, "2 words of 624"),
        ({"words": [2**32] * 624}, "words from 4294967296 to 4294967296, not 32-bit"),
        ({"words": [0.5] * 624}, "TypeError"),
        ({"position": 625}, "position 625 of 624"),
        ({"seed": -1}, "seed -1"),
        ({"kept_normal": "x"}, "could not convert string to float"),
    ],
)
def test_a_damaged_state_is_refused_and_changes_nothing(change, message):
    generator = Generator(1)
    before = generator.get_state()
    with pytest.raises(ValueError, match=message):
        generator.set_state(before | change)
    with pytest.raises(ValueError, match="no state of a Generator: KeyError: 'words'"):
        generator.set_state({name: value for name, value in before.items() if name != "words"})
    assert generator.get_state() == before


def test_seeds_are_integers_of_64_bits():
    assert Generator(-1).initial_seed() == 2**64 - 1
    assert Generator(True).initial_seed() == Generator(np.uint8(1)).initial_seed() == 1
    assert np.array_equal(Generator(2**32 + 5).rand(3), Generator(5).rand(3))
    for seed in (2**64, -(2**63) - 1):
        with pytest.raises(ValueError, match=rf"the seed is {seed}; it must be at least -2\*\*63 and less than 2\*\*64"):
            Generator(seed)
    for seed in (1.7, "1", None, np.float64(2)):
        with pytest.raises(TypeError, match="it must be an integer"):
            random.manual_seed(seed)


@pytest.mark.parametrize(
    "draw, error, message",
    [
        (lambda g: g.randn(-1), ValueError, "the size is -1; no length may be negative"),
        (lambda g: g.randn(2, 3.0), TypeError, "a size is 3.0, a float; it must be an integer"),
        (lambda g: g.rand(3, dtype=np.int32), TypeError, "dtype is int32; float32 and float64 are there"),
        (lambda g: g.normal(0, -1, 3), ValueError, "std is -1; a standard deviation is 0 or more"),
        (lambda g: g.normal(float("nan"), 1, 3), ValueError, "mean is nan; it must be a finite float32"),
        (lambda g: g.normal(0, 1e39, 3), ValueError, r"std is 1e\+39; it must be a finite float32"),
        (lambda g: g.uniform(1, 0, 3), ValueError, "low is 1 and high is 0; low may not be above high"),
        (lambda g: g.uniform(-3e38, 3e38, 3), ValueError, r"high - low is 6e\+38; it must be a finite float32"),
        (lambda g: g.randint(3, 3, 2), ValueError, "from 3 up to, not including, 3: there are none"),
        (lambda g: g.randint(0, 300, 2, np.uint8), ValueError, r"in \[0, 300\) do not fit uint8"),
        (lambda g: g.randint(0, 2.5, 2), TypeError, "high is 2.5, a float; it must be an integer"),
        (lambda g: g.randint(0, 5, 2, np.float32), TypeError, "dtype is float32"),
        (lambda g: g.randperm(-1), ValueError, "n is -1"),
        (lambda g: g.randperm(2**63), ValueError, "n is 9223372036854775808; .* do not fit int64"),
    ],
)
def test_a_refused_draw_names_the_value_and_draws_nothing(draw, error, message):
    generator = Generator(0)
    before = generator.get_state()
    with pytest.raises(error, match=message):
        draw(generator)
    assert generator.get_state() == before


def test_shapes():
    generator = Generator(0)
    assert generator.randn().shape == generator.normal().shape == generator.randint(0, 3, ()).shape == ()
    assert generator.rand((2, 3)).shape == generator.rand(2, 3).shape == (2, 3)
    assert generator.randn(0, 3).shape == generator.uniform(0, 1, (0, 3)).shape == (0, 3)
