"""Special tokens: texts with an id of their own, such as <|endoftext|>, that take no part in merges.

They steer a model, so text that merely contains one must not become one unasked: a caller says which are allowed to
be tokens and which are refused with an error, and the rest is read as any other text.
"""
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Literal

Special = Literal["all"] | Collection[str] | None  # None: none
NONE: frozenset[str] = frozenset()


def allowed_in(
    text: str, special_tokens: Mapping[str, int], allowed_special: Special, disallowed_special: Special
) -> frozenset[str]:
    """The special tokens that `text` may have as tokens; ValueError when it has one that is disallowed.

    >>> tokens = {"<a>": 1, "<b>": 2}
    >>> allowed_in("<a>", tokens, allowed_special={"<a>"}, disallowed_special="all")
    frozenset({'<a>'})
    >>> allowed_in("x<b>", tokens, allowed_special={"<a>"}, disallowed_special="all")
    Traceback (most recent call last):
    ValueError: the text has the special token '<b>' at index 1. To encode it as a token, pass ...
    """
    all_others = isinstance(disallowed_special, str) and disallowed_special == "all"
    disallowed = special_tokens if all_others else chosen("disallowed_special", disallowed_special, special_tokens)
    found = [token for token in disallowed if token in text]
    if not found and isinstance(allowed_special, (frozenset, set)) and not allowed_special:
        return NONE  # as nearly always: quickly
    allowed = chosen("allowed_special", allowed_special, special_tokens)
    if found and all_others:
        found = [token for token in found if token not in allowed]
    if found:
        token = min(found, key=text.index)
        raise ValueError(
            f"the text has the special token {token!r} at index {text.index(token)}. To encode it as a token, pass "
            f"allowed_special={{{token!r}}}; to encode it as any other text, pass disallowed_special=()"
        )
    return allowed.intersection(special_tokens)


def chosen(argument: str, tokens: Special, special_tokens: Mapping[str, int]) -> frozenset[str]:
    """The tokens that `argument` names, those of `special_tokens` if it is "all"; TypeError for what names none."""
    if tokens is None:
        return NONE
    if isinstance(tokens, str) and tokens == "all":
        return frozenset(special_tokens)
    # An iterator is no collection: what is read of it for one text is not there for the next.
    if isinstance(tokens, (str, bytes)) or not isinstance(tokens, Collection):
        kind = "string" if isinstance(tokens, (str, bytes)) else type(tokens).__name__
        raise TypeError(f'{argument} must be "all" or a collection of strings, not the {kind} {tokens!r:.60}')
    for token in tokens:
        if not isinstance(token, str):
            raise TypeError(f"{argument} has {token!r:.60}, a {type(token).__name__}: special tokens are strings")
    return frozenset(tokens)


def parts(text: str, special_tokens: Mapping[str, int], allowed: Collection[str]) -> Iterator[tuple[str, int | None]]:
    """Cut at the allowed special tokens: the text before each with its id, and the last with None.

    >>> list(parts("one<a>two", {"<a>": 1}, {"<a>"}))
    [('one', 1), ('two', None)]
    """
    begin = 0
    if allowed:
        longest_first = sorted(allowed, key=len, reverse=True)  # so that <a><b> wins over <a>
        for match in re.finditer("|".join(map(re.escape, longest_first)), text):
            yield text[begin : match.start()], special_tokens[match.group()]
            begin = match.end()
    yield text[begin:], None


def has_brackets(token: str) -> bool:
    """Whether it is written like <so> or [SO]: by that GPT-2's files tell a special token, which no merge makes."""
    return len(token) > 2 and token[0] + token[-1] in ("<>", "[]")
