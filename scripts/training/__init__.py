"""The parts of scripts/train_embeddings.py: the text, the run and its folder, progress, the words, the profile."""
