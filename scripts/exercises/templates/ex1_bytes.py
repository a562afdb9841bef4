"""Exercise 1: from text to tokens. The byte alphabet, and one merge.

GPT-2 reads text as bytes in UTF-8. To be able to print every byte, it writes each as a character of its own.
"""


def byte_alphabet() -> dict[int, str]:
    """The character that stands for each of the 256 bytes.

    Bytes that are printable characters in Latin-1 stand for themselves: "!" (33) to "~" (126), "¡" (161) to "¬" (172)
    and "®" (174) to "ÿ" (255). All others, in ascending order, become the characters 256, 257, 258, ...

    For instance byte 65 is "A", and byte 0, the first that is not printable, is "Ā", the character 256.
    """
    ...


def merge(tokens: list[str], pair: tuple[str, str]) -> list[str]:
    """A new list in which each two neighbours that are `pair` have become one token; `tokens` stays as it is.

    From left to right, and a token that has been joined is not joined again:
    merge(["l", "o", "w", "l", "o"], ("l", "o")) is ["lo", "w", "lo"].
    """
    ...
