"""Where the memory of a GPT goes: parameters, what training adds to them, and what a one-hot input would have cost."""
from __future__ import annotations

import dataclasses

from embedding.config import GPTConfig, check_size

FLOAT, ID = 4, 8  # bytes of a float32 and of an int64
GPT2_SIZES = {  # Radford et al. 2019, table 2
    "gpt2": GPTConfig(n_layer=12, n_head=12, n_embd=768),
    "gpt2-medium": GPTConfig(n_layer=24, n_head=16, n_embd=1024),
    "gpt2-large": GPTConfig(n_layer=36, n_head=20, n_embd=1280),
    "gpt2-xl": GPTConfig(n_layer=48, n_head=25, n_embd=1600),
}


@dataclasses.dataclass(frozen=True)
class MemoryReport:
    """What `memory_report` counted; sizes in bytes of float32, ids of int64. Printed, it is a table."""

    config: GPTConfig
    batch: int
    sequence: int
    parameter_count: int
    table_count: int  # V x C: the parameters of the token table
    parameters: int
    gradients: int
    adam_state: int  # two averages, of the gradient and of its square, for each parameter
    ids: int
    one_hot_input: int  # B x T x V: the ids as one-hot vectors
    lookup_output: int  # B x T x C: what either way gives
    activations: int  # what the forward pass keeps for the way back
    table_share: float  # of the parameters
    tying_saves: int  # the second V x C table of a head of its own; as much again for its gradient, twice for Adam

    def __str__(self) -> str:
        return "\n".join(f"{name:<26}{value:>12}  {note}".rstrip() for name, value, note in self.rows())

    def rows(self) -> list[tuple[str, str, str]]:
        """The lines of the table: what, how much, and how that comes about."""
        config, tokens = self.config, f"{self.batch} x {self.sequence}"
        table = f"{config.vocab_size:,} x {config.n_embd:,} = {self.table_count:,} of {self.parameter_count:,}"
        return [
            ("parameters", size(self.parameters), f"{self.parameter_count:,}"),
            ("gradients", size(self.gradients), "one for each parameter"),
            ("Adam state", size(self.adam_state), "two for each parameter"),
            ("activations", size(self.activations), f"kept for the way back, {tokens} tokens"),
            ("ids", size(self.ids), f"{tokens} integers: what the input is"),
            ("one-hot input", size(self.one_hot_input), f"{tokens} x {config.vocab_size:,}: what a lookup saves"),
            ("lookup's output", size(self.lookup_output), f"{tokens} x {config.n_embd:,}"),
            ("the table's share", f"{self.table_share:.0%}", table),
            ("tying saves", size(self.tying_saves), "a second table of the same size, for the head"),
        ]


def memory_report(config: GPTConfig, batch: int, sequence: int) -> MemoryReport:
    """What a GPT-2 of these sizes takes to train on `batch` x `sequence` tokens (B, T), in float32.

    Parameters: a block has 12 C^2 + 13 C (two layer norms 4 C, attention 4 C^2 + 4 C, the hidden layer 8 C^2 + 5 C);
    besides the two tables, V C and P C, there is a last layer norm, 2 C. The head is tied to the token table.

    Activations: what a plain implementation keeps for the way back, without dropout and without recomputing. A block
    keeps, for each token, 16 C (its input, both norms' outputs, queries, keys and values, what attention read, the
    sum after it, and the hidden layer before and after GELU) and n_head T attention weights; the end keeps the last
    norm's input and output, 2 C, and V probabilities. (The fused `linear_cross_entropy` does without the last.)

    Raises TypeError for a batch or a sequence that is no integer, ValueError for one below 1 or a sequence longer than
    block_size.

    >>> report = memory_report(GPTConfig(), batch=32, sequence=1024)
    >>> report.table_count, report.one_hot_input, f"{report.table_share:.0%}"
    (38597376, 6587285504, '31%')
    """
    for name, value in (("batch", batch), ("sequence", sequence)):
        check_size(name, value)
    if sequence > config.block_size:
        raise ValueError(f"a sequence of {sequence} tokens is longer than the position table: {config.block_size}")
    width, tokens = config.n_embd, batch * sequence
    table = config.vocab_size * width
    count = table + config.block_size * width + config.n_layer * (12 * width**2 + 13 * width) + 2 * width
    kept = config.n_layer * (16 * width + config.n_head * sequence) + 2 * width + config.vocab_size
    return MemoryReport(
        config, batch, sequence,
        parameter_count=count,
        table_count=table,
        parameters=count * FLOAT,
        gradients=count * FLOAT,
        adam_state=2 * count * FLOAT,
        ids=tokens * ID,
        one_hot_input=tokens * config.vocab_size * FLOAT,
        lookup_output=tokens * width * FLOAT,
        activations=tokens * kept * FLOAT,
        table_share=table / count,
        tying_saves=table * FLOAT,
    )  # fmt: skip


def size(number: int) -> str:
    """Bytes as a person says them: powers of 1000.

    >>> size(6_587_285_504), size(262_144), size(12)
    ('6.6 GB', '262 kB', '12 B')
    """
    value, unit = float(number), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 999.5:
            break
        value, unit = value / 1000, larger
    return f"{value:.1f} {unit}" if unit != "B" and value < 99.95 else f"{value:.0f} {unit}"
