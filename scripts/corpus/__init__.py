"""The parts of scripts/encode_corpus.py: what is read, how it is dealt out, who encodes it, where it goes."""
