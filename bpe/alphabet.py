"""The byte alphabet: a printable character for each of the 256 bytes, so that a text file can hold any token.

A token is a sequence of bytes, and most sequences cannot be written down: a space would end the field, a newline
the line, and 0xE2 alone is no UTF-8. GPT-2's files write each byte as one character: the 188 bytes that print in
Latin-1 as what they print, the other 68, in order, as the characters from U+0100 on.

By hand: "é hi" is the UTF-8 bytes C3 A9 20 68 69.
- C3 and A9 print in Latin-1: "Ã" and "©". So do 68 and 69: "h" and "i".
- 20, the space, does not. Before it come 00 to 1F, which do not either: 32 bytes. So the space is the character
  U+0100 + 32 = U+0120, "Ġ".
The files write "Ã©Ġhi".

In GPT-2's vocabulary the ids of the bytes have this order too, printable bytes first: "!" (21) is id 0, the space
188 + 32 = 220.

Source: openai/gpt-2, src/encoder.py, bytes_to_unicode.
"""
PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]  # AD, the soft hyphen, does not print
BYTES_IN_ID_ORDER = bytes(PRINTABLE + sorted(set(range(0x100)) - set(PRINTABLE)))

BYTE_TO_CHARACTER = {
    byte: chr(byte if index < len(PRINTABLE) else 0x100 + index - len(PRINTABLE))
    for index, byte in enumerate(BYTES_IN_ID_ORDER)
}
CHARACTER_TO_BYTE = {character: byte for byte, character in BYTE_TO_CHARACTER.items()}


def to_characters(token: bytes) -> str:
    """Write a token in the byte alphabet.

    >>> to_characters("é hi".encode())
    'Ã©Ġhi'
    """
    return "".join(BYTE_TO_CHARACTER[byte] for byte in token)


def to_bytes(characters: str) -> bytes:
    """Read a token written in the byte alphabet; KeyError with the character that is not in it.

    >>> to_bytes("Ã©Ġhi").decode()
    'é hi'
    """
    return bytes(CHARACTER_TO_BYTE[character] for character in characters)
