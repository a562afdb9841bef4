"""Protocol buffers: the wire format of Llama's tokenizer.model, and of models in ONNX.

Source: protobuf.dev, Encoding.
"""
from collections.abc import Iterator


def fields(data: bytes, begin: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """The fields of the message data[begin:end]: (number, value, first, last), data[first:last] being its bytes.

    A message is its fields, one after another. A field is a key, 8 * number + type, and then

        type 0   a varint: 7 bits a byte, the lowest first; the high bit says that another byte follows
        type 2   a length as a varint, then so many bytes: a string, or a message again
        type 5   4 bytes (a float);   type 1   8 bytes

    The value is that of a varint, and 0 for the other types. By hand: 08 AC 02 is field 1, type 0, and the number
    0x2C + (0x02 << 7) = 300.

    >>> list(fields(bytes.fromhex("08AC02 1203616263"), 0, 8))
    [(1, 300, 1, 3), (2, 0, 5, 8)]
    """
    i = begin
    while i < end:
        at = i
        key, i = _varint(data, i, end)
        number, type = key >> 3, key & 7
        if number == 0 or type not in (0, 1, 2, 5):
            raise ValueError(f"byte {at}: a field with number {number} and type {type}, which is none: damaged")
        first, value = i, 0
        if type == 0:
            value, i = _varint(data, i, end)
        elif type == 2:
            length, first = _varint(data, i, end)
            i = first + length
        else:
            i += 4 if type == 5 else 8
        if i > end:
            raise ValueError(f"byte {at}: field {number} needs {i - first} bytes, {end - first} are left: cut short")
        yield number, value, first, i


def _varint(data: bytes, begin: int, end: int) -> tuple[int, int]:
    value = 0
    for i in range(begin, min(end, begin + 10)):
        value |= (data[i] & 0x7F) << 7 * (i - begin)
        if data[i] < 0x80:
            return value, i + 1
    reason = "cut short" if end < begin + 10 else "more than 10 bytes"
    raise ValueError(f"byte {begin}: a number that does not end: {reason}")
