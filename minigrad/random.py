"""torch's random numbers, bit for bit: how a seed becomes a normal number.

1. **A seed becomes words.** The low 32 bits of the seed fill the state of the Mersenne Twister, mt19937, which
   then yields 32-bit words without end (`mersenne_twister` below is all of it).
2. **A word becomes a uniform number.** Its low 24 bits, divided by 2**24, are a float32 in [0, 1). A float64
   takes two words and keeps 53 bits.
3. **Two uniform numbers become two normal numbers.** A point of the plane whose coordinates are independent
   normal numbers has an angle that is uniform, and a squared radius that is exponential. So, backwards
   (Box and Muller, 1958):

       radius = sqrt(-2 log(1 - u1))        angle = 2 pi u2
       normals = radius cos(angle), radius sin(angle)

4. **The order is part of the contract.** Sixteen float32 numbers and more are made in blocks of sixteen: eight
   u1, then eight u2; eight cosines, then eight sines. Fewer are made one at a time in float64, u2 before u1,
   and the sine is kept for the next call. This is why `randn(7)` is no prefix of `randn(16)`.

Steps 2 and 3 are normals.py.

The bits are those of torch 2.13 on the CPU, on x86 with AVX2; elsewhere torch itself differs from them in the
last places (at most 4e-6), while these stay what they are: apart from the logarithm, sine and cosine of the C
library for float64 and for fewer than sixteen numbers, only correctly rounded operations are used.

>>> manual_seed(123)
Generator(seed=123)
>>> print(randn(6, 3)[0])
[ 0.3373702  -0.17777722 -0.16895628]
"""
from __future__ import annotations

import math
import operator
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from minigrad import normals
from minigrad.normals import Words
from minigrad.shuffle import TOGETHER, swap_back_together, swap_each, swap_together
from minigrad.threads import thread_count

__all__ = [
    "Generator", "get_state", "initial_seed", "manual_seed", "mersenne_twister", "normal", "rand", "randint", "randn",
    "randperm", "set_state", "uniform",
]  # fmt: skip

Size = int | tuple[int, ...]
BLOCK = 1 << 17  # words drawn and turned into numbers at a time: their scratch space stays in the cache
LONG_PERMUTATION = (2**32 - 1) // 20  # from this length on torch shuffles in another way
DEFAULT_SEED = 67280421310721  # that of torch.Generator()


def mersenne_twister(seed: int) -> Iterator[int]:
    """The 32-bit words of mt19937 (Matsumoto and Nishimura, 1998), written to be read.

    624 words of state; each new word mixes the one 624 back (its top bit), the one 623 back (the rest) and the
    one 397 back. What goes out is tempered: four shifts that spread the bits. `Generator` takes the same words
    from NumPy, which makes them in compiled code.

    >>> words = mersenne_twister(5489)
    >>> next(words), next(words)
    (3499211612, 581869302)
    """
    state = [seed & 0xFFFFFFFF]
    for i in range(1, 624):
        state.append((1812433253 * (state[-1] ^ state[-1] >> 30) + i) & 0xFFFFFFFF)
    i = 0
    while True:
        mixed = state[i] & 0x80000000 | state[(i + 1) % 624] & 0x7FFFFFFF
        word = state[i] = state[(i + 397) % 624] ^ mixed >> 1 ^ (0x9908B0DF if mixed & 1 else 0)
        i = (i + 1) % 624
        word ^= word >> 11
        word ^= word << 7 & 0x9D2C5680
        word ^= word << 15 & 0xEFC60000
        yield word ^ word >> 18


class Generator:
    """A stream of random numbers: the same seed gives the numbers of `torch.Generator().manual_seed(seed)`.

    Every method returns a new array; `dtype` is float32 or float64 where numbers are real. A size is an int or
    a tuple of ints. A generator is not to be drawn from by two threads at once; it uses several by itself for a
    large draw (as many as OMP_NUM_THREADS allows), which changes nothing in the numbers.

    Raises TypeError and ValueError for a seed, size or dtype that has no meaning; nothing is drawn then.

    >>> generator = Generator(0)
    >>> print(generator.rand(3), generator.randint(0, 10, 3), generator.randperm(4))
    [0.4962566  0.7682218  0.08847743] [0 3 9] [3 2 0 1]
    """

    def __init__(self, seed: int = DEFAULT_SEED) -> None:
        self.manual_seed(seed)

    def __repr__(self) -> str:
        return f"Generator(seed={self._seed})"

    def manual_seed(self, seed: int) -> Generator:
        """Start again from `seed`, an integer in [-2**63, 2**64); a negative one stands for itself + 2**64."""
        number = _integer("the seed", seed)
        if not -(2**63) <= number < 2**64:
            raise ValueError(f"the seed is {number}; it must be at least -2**63 and less than 2**64")
        self._seed = number % 2**64
        self._source = np.random.RandomState(self._seed & 0xFFFFFFFF)  # `mersenne_twister` in compiled code
        self._kept: float | None = None  # the sine of the last pair, when only its cosine was asked for
        return self

    def initial_seed(self) -> int:
        """The seed this stream began with, in [0, 2**64)."""
        return self._seed

    def get_state(self) -> dict[str, Any]:
        """Where the stream stands, as ints, a list of ints, and a float or None: JSON can hold it.

        >>> generator = Generator(0)
        >>> state = generator.get_state()
        >>> bool(generator.randn(5).sum() == generator.set_state(state).randn(5).sum())
        True
        """
        state = self._source.get_state(legacy=False)["state"]
        return {
            "seed": self._seed,
            "words": state["key"].tolist(),
            "position": int(state["pos"]),
            "kept_normal": self._kept,
        }

    def set_state(self, state: dict[str, Any]) -> Generator:
        """Go on from where `get_state` was called. ValueError, and nothing changed, if it is no such state."""
        try:
            seed, position = operator.index(state["seed"]), operator.index(state["position"])
            key = np.array([operator.index(word) for word in state["words"]], dtype=object)
            kept = None if state["kept_normal"] is None else float(state["kept_normal"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"this is no state of a Generator: {type(error).__name__}: {error}") from None
        if not 0 <= seed < 2**64 or not 0 <= position <= 624 or len(key) != 624:
            raise ValueError(
                f"this is no state of a Generator: seed {seed}, position {position} of 624, {len(key)} words of 624"
            )
        if key.min() < 0 or key.max() >= 2**32:
            raise ValueError(f"this is no state of a Generator: words from {key.min()} to {key.max()}, not 32-bit")
        full = self._source.get_state(legacy=False)
        full["state"] = {"key": key.astype(np.uint32), "pos": position}
        self._source.set_state(full)
        self._seed, self._kept = seed, kept
        return self

    def rand(self, *shape: int, dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """Uniform numbers in [0, 1), as torch.rand."""
        return self.uniform(0.0, 1.0, _from_varargs(shape), dtype)

    def randn(self, *shape: int, dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """Normal numbers with mean 0 and standard deviation 1, as torch.randn."""
        return self.normal(0.0, 1.0, _from_varargs(shape), dtype)

    def uniform(
        self, low: float = 0.0, high: float = 1.0, size: Size = (), dtype: DTypeLike = np.float32
    ) -> NDArray[Any]:
        """Uniform numbers in [low, high), as torch.empty(size).uniform_(low, high).

        ValueError unless low <= high, and both and their distance are finite in `dtype`.
        """
        real, shape = _real(dtype), _shape(size)
        a, b = _finite("low", low, real), _finite("high", high, real)
        if low > high:
            raise ValueError(f"low is {low} and high is {high}; low may not be above high")
        _finite("high - low", float(high) - float(low), real)
        out = np.empty(shape, real)

        def write(words: Words, block: NDArray[Any]) -> None:
            block[:] = normals.uniform(words, real)
            if (a, b) != (0, 1):
                block[:] = normals.fma(block, b - a, a)
                block[block == b] = a  # the sum may have been rounded up to the bound that is left out

        self._fill(out.reshape(-1), lambda: write)
        return out

    def normal(
        self, mean: float = 0.0, std: float = 1.0, size: Size = (), dtype: DTypeLike = np.float32
    ) -> NDArray[Any]:
        """Normal numbers, as torch.normal(mean, std, size). ValueError if std is negative, or either is not finite."""
        real, shape = _real(dtype), _shape(size)
        shift, scale = _finite("mean", mean, real), _finite("std", std, real)
        if std < 0:
            raise ValueError(f"std is {std}; a standard deviation is 0 or more")
        out = np.empty(shape, real)
        flat, spare = out.reshape(-1), out.size % 16
        if out.size < 16:
            singles = np.array([self._single_normal() for _ in range(out.size)], np.float64)
            flat[:] = normals.fma(singles, np.float64(std), np.float64(mean))
            return out
        box_muller = normals.BoxMuller32 if real == np.float32 else normals.BoxMuller64

        def writer() -> Callable[[Words, NDArray[Any]], None]:
            write_standard = box_muller(min(out.size, BLOCK) // 2)

            def write(words: Words, block: NDArray[Any]) -> None:
                write_standard(words, block)
                if shift == 0:  # then these two steps round but once (and the sum turns -0 into 0, as in torch)
                    np.multiply(block, scale, out=block)
                    np.add(block, shift, out=block)
                else:
                    block[:] = normals.fma(block, scale, shift)

            return write

        self._fill(flat[: out.size - spare], writer)
        if spare:  # torch has drawn for these too, then draws the last sixteen anew, over part of the last block
            self._words(spare * real.itemsize // 4)
            self._fill(flat[-16:], writer)
        return out

    def _single_normal(self) -> float:
        """A normal number by itself, in float64; every second one was made with the one before."""
        if self._kept is not None:
            single, self._kept = self._kept, None
            return single
        u2, u1 = normals.uniform(self._words(4), np.dtype(np.float64)).tolist()
        radius, angle = math.sqrt(-2.0 * math.log1p(-u1)), 2.0 * math.pi * u2
        self._kept = radius * math.sin(angle)
        return radius * math.cos(angle)

    def randint(self, low: int, high: int, size: Size, dtype: DTypeLike = np.int64) -> NDArray[Any]:
        """Integers in [low, high), as torch.randint(low, high, size): low + word % (high - low).

        A range of 2**28 and more takes two words a number. ValueError if the range is empty or `dtype` cannot
        hold it.
        """
        low, high, shape, kind = _integer("low", low), _integer("high", high), _shape(size), np.dtype(dtype)
        if kind.kind not in "iu":
            raise TypeError(f"dtype is {kind}; random integers need an integer dtype")
        if not low < high:
            raise ValueError(f"random integers from {low} up to, not including, {high}: there are none")
        bounds = np.iinfo(kind)
        if low < bounds.min or high - 1 > bounds.max or high > 2**63:
            raise ValueError(f"random integers in [{low}, {high}) do not fit {kind}")
        count, span = math.prod(shape), high - low
        if span < 2**28:
            drawn = (self._words(count) % np.uint32(span)).astype(np.uint64)
        else:
            drawn = normals.pair_up(self._words(2 * count)) % np.uint64(span)
        # modulo 2**64 and read as signed: the sum is right even where low is negative and span above 2**63
        return (drawn + np.uint64(low % 2**64)).view(np.int64).astype(kind).reshape(shape)

    def randperm(self, n: int) -> NDArray[np.int64]:
        """A permutation of 0 .. n-1, as torch.randperm: each place in turn swaps with itself or a later one.

        From n = 214,748,364 on, as in torch, with itself or an earlier one, and of two words.
        """
        n = _integer("n", n)
        if n < 0:
            raise ValueError(f"n is {n}; a permutation is of 0 or more numbers")
        if n >= 2**63:
            raise ValueError(f"n is {n}; the numbers of so long a permutation do not fit int64")
        order = np.arange(n, dtype=np.int64)
        if n >= LONG_PERMUTATION:
            for start in range(0, n, TOGETHER):
                places = np.arange(start, min(start + TOGETHER, n), dtype=np.uint64)  # and one more are there up to it
                targets = normals.pair_up(self._words(2 * len(places))) % (places + np.uint64(1))
                swap_back_together(order, start, targets.astype(np.int64))
            return order
        for start in range(0, n - 1, TOGETHER):
            steps = min(TOGETHER, n - 1 - start)
            left = np.arange(n - start, n - start - steps, -1, dtype=np.uint64)  # places from here to the end
            targets = (self._words(steps) % left).astype(np.int64) + np.arange(steps)
            (swap_together if steps > 600 else swap_each)(order[start:], targets)  # for few, arrays are no quicker
        return order

    def _words(self, count: int) -> Words:
        """The next `count` words of the stream."""
        return self._source.randint(0, 2**32, count, dtype=np.uint32)

    def _fill(self, out: NDArray[Any], writer: Callable[[], Callable[[Words, NDArray[Any]], None]]) -> None:
        """Draw words for `out`, block by block, and let a writer turn each block of words into numbers.

        Blocks of words are drawn in order, whoever draws them; each thread has a writer of its own (`writer()`
        makes one) and writes its own part of `out`. So the numbers do not depend on the number of threads.
        """
        each, starts, turn = out.itemsize // 4, iter(range(0, out.size, BLOCK)), threading.Lock()

        def work() -> None:
            write = writer()
            while True:
                with turn:
                    start = next(starts, None)
                    if start is None:
                        return
                    block = out[start : start + BLOCK]
                    words = self._words(each * block.size)
                write(words, block)

        helpers = min(thread_count(), out.size // BLOCK) - 1
        if helpers < 1:
            return work()
        with ThreadPoolExecutor(helpers) as pool:
            waiting = [pool.submit(work) for _ in range(helpers)]
            work()
            for helper in waiting:
                helper.result()


def _real(dtype: DTypeLike) -> np.dtype[Any]:
    real = np.dtype(dtype)
    if real not in (np.float32, np.float64):
        raise TypeError(f"dtype is {real}; float32 and float64 are there")
    return real


def _integer(what: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{what} is {value!r}, a {type(value).__name__}; it must be an integer") from None


def _finite(what: str, value: float, real: np.dtype[Any]) -> Any:
    """`value` as a scalar of dtype `real`, which must be able to hold it."""
    if not abs(float(value)) <= float(np.finfo(real).max):  # not <=: so that nan is refused
        raise ValueError(f"{what} is {value}; it must be a finite {real}")
    return real.type(value)


def _shape(size: Size) -> tuple[int, ...]:
    shape = tuple(_integer("a size", length) for length in (size if isinstance(size, (tuple, list)) else (size,)))
    if any(length < 0 for length in shape):
        raise ValueError(f"the size is {size!r}; no length may be negative")
    return shape


def _from_varargs(shape: tuple[Any, ...]) -> Any:
    """`rand(2, 3)` and `rand((2, 3))` mean the same."""
    return shape[0] if len(shape) == 1 else shape


# Until it is seeded the shared generator starts anywhere, as torch's does.
_default = Generator(int.from_bytes(os.urandom(8), "little"))
manual_seed = _default.manual_seed
initial_seed = _default.initial_seed
get_state = _default.get_state
set_state = _default.set_state
rand = _default.rand
randn = _default.randn
uniform = _default.uniform
normal = _default.normal
randint = _default.randint
randperm = _default.randperm
