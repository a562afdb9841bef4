"""Protocol buffers: the fields of a message, and what a damaged one is refused with."""
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpe.protobuf import fields


def varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


@given(st.lists(st.tuples(st.integers(1, 2**29 - 1), st.integers(0, 2**64 - 1) | st.binary(max_size=200))))
def test_fields_are_read_as_they_are_written(message):
    data = b"".join(
        varint(8 * number + 2) + varint(len(value)) + value if isinstance(value, bytes) else varint(8 * number) + varint(value)
        for number, value in message
    )
    read = list(fields(b"before" + data + b"\xff", 6, 6 + len(data)))
    assert [number for number, *_ in read] == [number for number, _ in message]
    for (_, value, first, last), (_, written) in zip(read, message):
        if isinstance(written, bytes):
            assert (value, (b"before" + data)[first:last]) == (0, written)
        else:
            assert value == written


def test_numbers_of_fixed_width_are_their_bytes():
    assert list(fields(bytes.fromhex("0D 0000803F 11 000000000000F03F"), 0, 14)) == [(1, 0, 1, 5), (2, 0, 6, 14)]


@given(st.binary(max_size=60))
def test_any_bytes_are_a_protocol_buffer_or_a_value_error(data):
    try:
        list(fields(data, 0, len(data)))
    except ValueError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x0a\x05abcd", "byte 0: field 1 needs 5 bytes, 4 are left: cut short"),
        (b"\x0a\xff", "byte 1: a number that does not end: cut short"),
        (b"\x0a" + b"\xff" * 20, "byte 1: a number that does not end: more than 10 bytes"),
        (b"<!DOCTYPE html>", "byte 0: a field with number 7 and type 4, which is none: damaged"),
        (b"\x08\x01\x00\x00", "byte 2: a field with number 0 and type 0, which is none: damaged"),
    ],
)
def test_a_damaged_message_is_refused_with_the_place_and_the_reason(data, reason):
    with pytest.raises(ValueError) as refused:
        list(fields(data, 0, len(data)))
    assert str(refused.value) == reason
