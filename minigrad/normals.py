"""Words to numbers, with torch's bits: uniform ones, and normal ones by the method of Box and Muller.

random.py says which words become which numbers; here is the arithmetic. It is torch's own, step for step: what
makes equal bits is rounding at the same places.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]


def pair_up(words: Words) -> NDArray[np.uint64]:
    """(2N,) words to (N,) numbers of 64 bits, the first of a pair above the second."""
    return words[0::2].astype(np.uint64) << np.uint64(32) | words[1::2]


def uniform(words: Words, real: np.dtype[Any]) -> NDArray[Any]:
    """Words to numbers in [0, 1): the low 24 bits of each, or the low 53 of each two, and no rounding."""
    if real == np.float32:
        return (words & np.uint32(0xFFFFFF)).view(np.int32).astype(np.float32) * np.float32(2**-24)
    return (pair_up(words) & np.uint64(2**53 - 1)).astype(np.float64) * 2.0**-53


class BoxMuller64:
    """float64 words to normal numbers, rows of sixteen: eight u1, then eight u2; eight cosines, then eight sines.

    The logarithm, cosine and sine are the C library's, as in torch; NumPy may bring its own.
    """

    def __init__(self, pairs: int) -> None:
        """Nothing to keep: `pairs` is the size of the scratch space that the float32 version needs."""

    def __call__(self, words: Words, out: NDArray[np.float64]) -> None:
        u1, u2 = uniform(words, out.dtype).reshape(-1, 2, 8).swapaxes(0, 1).reshape(2, -1)
        radius = np.sqrt(-2.0 * np.array([math.log(u) for u in (1.0 - u1).tolist()]))
        angles = (2.0 * math.pi * u2).tolist()
        rows = out.reshape(-1, 2, 8)
        rows[:, 0] = (radius * np.array([math.cos(angle) for angle in angles])).reshape(-1, 8)
        rows[:, 1] = (radius * np.array([math.sin(angle) for angle in angles])).reshape(-1, 8)


_EIGHT = np.dtype("V32")  # eight 32-bit numbers moved as one: half a row of sixteen
_ROOT_HALF_BITS = 0x3F3504F3  # sqrt(1/2) as float32, read as an integer: exponent above 23 bits of mantissa
_TWO_PI = np.float32(2 * math.pi)

# Cephes' polynomials (S. Moshier, logf.c and sinf.c), which torch evaluates in float32:
# log(1 + x) = x - x^2/2 + x^3 P(x) for 1 + x in [sqrt(1/2), sqrt(2)), highest power first,
_LOG = np.array(
    [7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
     2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1], np.float32).astype(np.float64)  # fmt: skip
# log(2) in two parts, of which the first has so few bits that its products with exponents are exact,
_LOG2_HIGH, _LOG2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
# cos(x) = 1 - x^2/2 + x^4 C(x^2) and sin(x) = x + x^3 S(x^2) for |x| <= pi/4; columns C, S,
_COS_SIN = np.array(
    [[2.443315711809948e-5, -1.9515295891e-4], [-1.388731625493765e-3, 8.3321608736e-3],
     [4.166664568298827e-2, -1.6666654611e-1]], np.float32).astype(np.float64)[:, :, None]  # fmt: skip
# and pi/4 in three parts of few bits, which a float64 holds as one: not the float64 nearest to pi/4.
_QUARTER_PI = 0.78515625 + 2.4187564849853515625e-4 + float(np.float32(3.77489497744594108e-8))


class BoxMuller32:
    """The same for float32, as torch on AVX2: Cephes' polynomials with fused multiply-adds.

    A fused multiply-add, a * b + c rounded once, is what makes the bits. In float64 the product of two float32
    is exact, so a * b + c rounded to float32 is the same, but for a sum that float64 rounds onto the middle of
    two float32. It never does here: each of the 2**24 radii and the 2**24 angles that exist has been compared
    with torch's (tests/parity/test_random.py).

    What follows are some seventy whole-array steps over a block; the arrays are kept from block to block, since
    fresh memory costs more than the arithmetic.
    """

    def __init__(self, pairs: int) -> None:
        self.halves = np.empty((2, pairs), np.int32)  # the words: 0 for the radius, 1 for the angle
        self.pair = np.empty((2, pairs), np.float32)
        self.poly = np.empty((2, pairs), np.float32)
        self.wide = np.empty((3, pairs), np.float64)
        self.real, self.other = np.empty((2, pairs), np.float32)
        self.whole = np.empty(pairs, np.int32)

    def __call__(self, words: Words, out: NDArray[np.float32]) -> None:
        """(N,) words to (N,) normal numbers, N a multiple of 16."""
        n = words.size // 2
        halves, pair = self.halves[:, :n], self.pair[:, :n]
        np.bitwise_and(words, 0xFFFFFF, out=words)
        np.copyto(halves.view(_EIGHT), words.view(_EIGHT).reshape(-1, 2).T)
        np.subtract(1 << 24, halves[0], out=halves[0])  # 1 - u1, in (0, 1]: its logarithm is finite
        np.copyto(pair, halves, casting="unsafe")  # exact: integers up to 2**24
        radius = self._radius(pair[0])
        np.multiply(pair[1], _TWO_PI * np.float32(2**-24), out=pair[1])
        normals = self._cos_sin(pair[1])
        np.multiply(normals, radius, out=normals)
        np.copyto(out.view(_EIGHT).reshape(-1, 2).T, normals.view(_EIGHT))

    def _radius(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """sqrt(-2 log(x / 2**24)) for x in 1 .. 2**24, in place."""
        n = x.size
        y, z = self.poly[:, :n]
        wide, x_wide = self.wide[0, :n], self.wide[2, :n]
        exponent, low, bits = self.real[:n], self.other[:n], self.whole[:n]

        # x / 2**24 = 2**exponent * m with m in [sqrt(1/2), sqrt(2)): read off the bits of x
        np.subtract(x.view(np.int32), _ROOT_HALF_BITS + (24 << 23), out=bits)
        np.right_shift(bits, 23, out=low.view(np.int32))
        np.copyto(exponent, low.view(np.int32), casting="unsafe")
        np.bitwise_and(bits, 0x7FFFFF, out=bits)
        np.add(bits, _ROOT_HALF_BITS, out=bits)
        np.subtract(bits.view(np.float32), np.float32(1), out=x)  # from here on, x is m - 1

        np.copyto(x_wide, x)
        _fma32(_LOG[0], x_wide, _LOG[1], wide, out=y)
        for coefficient in _LOG[2:]:
            _fma32(y, x_wide, coefficient, wide, out=y)
        np.multiply(x, x, out=z)
        np.multiply(y, x, out=y)
        np.multiply(exponent, _LOG2_LOW, out=low)
        _fma32(y, z, low, wide, out=y)  # x^3 P(x) + exponent * log2_low
        np.multiply(z, np.float32(0.5), out=z)
        np.subtract(y, z, out=y)
        np.add(x, y, out=x)
        np.multiply(exponent, _LOG2_HIGH, out=exponent)
        np.add(x, exponent, out=x)  # the logarithm
        np.multiply(x, np.float32(-2), out=x)
        return np.sqrt(x, out=x)

    def _cos_sin(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """(2, n): the cosines and the sines of the angles x in [0, 2 pi); x is overwritten."""
        n = x.size
        poly, wide, z_wide = self.poly[:, :n], self.wide[:2, :n], self.wide[2, :n]
        z, octant, signs = self.real[:n], self.whole[:n], self.halves[:, :n]
        cosine, sine = poly

        # x becomes the distance to the nearest multiple of pi/2, an even number of eighths of the circle
        np.multiply(x, np.float32(4 / math.pi), out=z)
        np.copyto(octant, z, casting="unsafe")  # the fraction is cut off
        np.add(octant, 1, out=octant)
        np.bitwise_and(octant, ~1, out=signs[0])
        _fma32(signs[0], -_QUARTER_PI, x, wide[0], out=x)

        np.multiply(x, x, out=z)
        np.copyto(z_wide, z)
        _fma32(_COS_SIN[0], z_wide, _COS_SIN[1], wide, out=poly)
        _fma32(poly, z_wide, _COS_SIN[2], wide, out=poly)
        np.multiply(poly, z, out=poly)
        np.multiply(z, np.float32(-0.5), out=z)
        _fma32(cosine, z_wide, z, wide[0], out=cosine)
        np.add(cosine, np.float32(1), out=cosine)
        _fma32(sine, x, x, wide[1], out=sine)

        # Back to the angle: at odd multiples of pi/2 the two change places (bit 1 of the octant, made a mask) ...
        bits, difference = poly.view(np.int32), z.view(np.int32)
        np.bitwise_xor(bits[0], bits[1], out=difference)
        np.left_shift(octant, 30, out=signs[0])
        np.right_shift(signs[0], 31, out=signs[0])
        np.bitwise_and(difference, signs[0], out=difference)
        np.bitwise_xor(bits, difference, out=bits)
        # ... and signs flip: of the sine where bit 2 is set, of the cosine where it is set two octants on
        np.left_shift(octant, 29, out=signs[1])
        np.add(signs[1], 1 << 30, out=signs[0])
        np.bitwise_and(signs, np.int32(-(2**31)), out=signs)
        np.bitwise_xor(bits, signs, out=bits)
        return poly


def _fma32(a: Any, b: Any, c: Any, wide: NDArray[np.float64], out: NDArray[np.float32]) -> None:
    """out = a * b + c with one rounding, through `wide`; see BoxMuller32 on why that is right."""
    np.copyto(wide, a)
    np.multiply(wide, b, out=wide)
    np.add(wide, c, out=wide)
    np.copyto(out, wide, casting="same_kind")


def fma(a: NDArray[Any], b: Any, c: Any) -> NDArray[Any]:
    """a * b + c for any finite numbers with one rounding, in the dtype of `a` (S. Boldo and G. Melquiond, 2008).

    So torch's kernels compute `x * (high - low) + low` and `x * std + mean`. The exact sum is kept as a leading
    and a trailing float64. Rounding it "to odd" first (when inexact, to the neighbour whose last bit is 1) keeps
    the final rounding from taking it for a tie.
    """
    if a.dtype == np.float32:
        product = a.astype(np.float64) * np.float64(b)  # exact: 24 + 24 bits
        return _round_to_odd(*_two_sum(product, np.float64(c))).astype(np.float32)
    if max(abs(b), abs(c)) > 2.0**900:  # leave room for what _split multiplies by
        return fma(a, b * 2.0**-100, c * 2.0**-100) * 2.0**100
    product, rest = _two_product(a, b)
    high, low = _two_sum(c, rest)
    high, middle = _two_sum(product, high)
    return high + _round_to_odd(*_two_sum(low, middle))


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """a + b rounded, and what the rounding lost: together exact (D. Knuth)."""
    total = a + b
    b_part = total - a
    return total, (a - (total - b_part)) + (b - b_part)


def _two_product(a: Any, b: Any) -> tuple[Any, Any]:
    """a * b rounded, and what the rounding lost: together exact (T. Dekker)."""
    product = a * b
    (a1, a2), (b1, b2) = _split(a), _split(b)
    return product, a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2)


def _split(a: Any) -> tuple[Any, Any]:
    """A float64 as the sum of two numbers of 26 bits (G. Veltkamp)."""
    scaled = a * (2.0**27 + 1)
    high = scaled - (scaled - a)
    return high, a - high


def _round_to_odd(total: NDArray[np.float64], lost: NDArray[np.float64]) -> NDArray[np.float64]:
    """total + lost, where `total` is the nearest float64, changed in place to the odd one of the two around it."""
    bits = total.view(np.int64)
    even = np.flatnonzero((lost != 0) & (bits & 1 == 0))
    bits[even] += np.where((lost[even] > 0) == (total[even] > 0), 1, -1)  # one place towards what was lost
    return total
