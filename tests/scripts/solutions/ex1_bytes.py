def byte_alphabet():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet = {byte: chr(byte) for byte in printable}
    others = [byte for byte in range(256) if byte not in alphabet]
    return alphabet | {byte: chr(256 + n) for n, byte in enumerate(others)}


def merge(tokens, pair):
    merged, i = [], 0
    while i < len(tokens):
        if tuple(tokens[i:i + 2]) == pair:
            merged.append(pair[0] + pair[1])
            i += 2
        else:
            merged.append(tokens[i])
            i += 1
    return merged
