"""From token ids to trained vectors: the embedding layer and what stands around it in a GPT.

Read embedding.py first, then onehot.py (why a lookup is a matrix product) and gpt.py.
"""
from embedding.bag import EmbeddingBag
from embedding.config import GPTConfig
from embedding.embedding import Embedding
from embedding.gpt import GPT2_STD, InputEmbedding, PositionalEmbedding, TiedHead, TokenEmbedding
from embedding.memory import MemoryReport, memory_report
from embedding.model import NextToken
from embedding.neighbours import nearest
from embedding.onehot import OneHotEmbedding
from embedding.pretrained import from_pretrained
from embedding.windows import SlidingWindows, batches

__all__ = [
    "GPT2_STD", "Embedding", "EmbeddingBag", "GPTConfig", "InputEmbedding", "MemoryReport", "NextToken",
    "OneHotEmbedding", "PositionalEmbedding", "SlidingWindows", "TiedHead", "TokenEmbedding", "batches",
    "from_pretrained", "memory_report", "nearest",
]
