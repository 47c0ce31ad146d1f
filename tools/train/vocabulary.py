"""Learning the vocabulary: SentencePiece BPE with byte fallback, made so that copying is easy.

A small model finds it hard to copy a word that is cut into other tokens where
it comes from than where it goes to: ` kitchen` in a request, `kitchen` within
quotes in a call. So no word's cut depends on what stands before it:

- BPE learns words alone, without spaces, digits or punctuation, and words are
  parted where a capital follows a small letter.
- The commonest pieces get a twin with a space before it. Twins score below all
  other merges: a word is cut first, then its first piece takes the space.
- Digits, spaces and marks are one token each, and what JSON Schemas repeat all
  the time (`", "description": "`) is one token that is found before merging.
"""

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import sentencepiece as spm
from sentencepiece import sentencepiece_model_pb2 as pb

from .tokenizer import CONTROL, SPACE

CALL = ("<tool_call>", "</tool_call>")
STRUCTURE = (
    '{"name": "', '", "description": "', '", "parameters": {"type": "object", "properties": {"',
    '", "parameters": {"type": "object"', '", "parameters": {"', '"type": "object"', '"properties": {"', '"properties": {}',
    '}, "required": ["', '"required": ["', '": {"type": "', '"}, "', '"}}, "', '}, "', '", "enum": ["', '"enum": ["', '"]}', '"]}}',
    '"]}}}', '": {"description": "', '", "type": "', '", "minimum": ', ', "minimum": ', ', "maximum": ', '"minimum": ', '"maximum": ',
    '", "default": ', ', "default": ', '", "', '": "', '": {"', '": ', ', "', '"}', '"}}', '}}', '}}}', '"}}}', '"}}}}', ', "description": "',
    '", "arguments": {"', '", "arguments": {}}', '", "arguments": {', '"additionalProperties": false', '": true', '": false',
    '"type": "', 'string"', 'integer"', 'number"', 'boolean"', 'object"', 'array"', '"items": {"type": "string"}', '": ["', '"], "',
    '"}, "required": ["', '"}}, "required": ["', '}}, "required": ["', '"]}}, "required": ["', '"]}, "required": ["', '"]}}, "',
    '", "parameters": {"type": "object", "properties": {}}}', '"string", "description": "', '"string"}}', '"string"}, "',
    '"integer"}, "', '"integer", "minimum": ', '"integer", "description": "', '"number", "description": "', '"number"}, "', '"boolean"}, "',
    '"string", "enum": ["', '": {"type": "string", "description": "', '": {"type": "string", "enum": ["', '": {"type": "integer", "description": "',
    '": {"type": "string"}, "', '": {"type": "string"}}, "required": ["', "\n<tool_call>\n", "system\n", "user\n", "assistant\n",
)  # fmt: skip
_WORDS = re.compile(r"[A-Z]?[a-zß-öø-ÿ]+|[A-Z]+(?![a-z])")


def _words(texts: Iterable[str]) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Words, words after a space, and all other characters, with how often."""
    words: Counter[str] = Counter()
    spaced: Counter[str] = Counter()
    marks: Counter[str] = Counter()
    for text in texts:
        for m in _WORDS.finditer(text):
            words[m[0]] += 1
            if text[m.start() - 1 : m.start()] == " ":
                spaced[m[0]] += 1
        marks.update(c for c in _WORDS.sub("", text) if c not in " \n")
    return words, spaced, marks


def train(texts: Iterable[str], size: int, out: Path) -> None:
    """Learns a vocabulary of `size` pieces and writes a SentencePiece model."""
    words, spaced, marks = _words(texts)
    fixed = CONTROL + CALL + STRUCTURE
    characters = {c for w in words for c in w} | {c for c, n in marks.items() if n > 20} | set(map(chr, range(33, 127)))
    room = size - 1 - len(fixed) - 256 - 1 - len(characters)
    twins = room * 9 // 20
    learnt = _learn(words, len(characters) + room - twins + 3)
    pieces = [p for p in learnt if len(p) > 1][: room - twins]
    first = _first_pieces(spaced, pieces, characters)
    after = [p for p, _ in first.most_common(twins)]
    out.write_bytes(_assemble(fixed, pieces, sorted(characters), after).SerializeToString())


def _learn(words: Counter[str], size: int) -> list[str]:
    """BPE pieces of words, in the order in which they were merged."""
    model = io.BytesIO()
    # Rare words count, too: square roots keep "the" from being everything.
    lines: Iterator[str] = (w for w, n in sorted(words.items()) if n > 2 for _ in range(max(1, int(n**0.5))))
    spm.SentencePieceTrainer.train(
        sentence_iterator=lines, model_writer=model, model_type="bpe", vocab_size=size, character_coverage=1.0,
        normalization_rule_name="identity", add_dummy_prefix=False, remove_extra_whitespaces=False,
        bos_id=-1, eos_id=-1, num_threads=1, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    learnt = pb.ModelProto.FromString(model.getvalue())
    return [p.piece for p in learnt.pieces if p.type == pb.ModelProto.SentencePiece.NORMAL]


def _first_pieces(spaced: Counter[str], pieces: list[str], characters: set[str]) -> Counter[str]:
    """What words after a space begin with."""
    plain = spm.SentencePieceProcessor(model_proto=_assemble((), pieces, sorted(characters), []).SerializeToString())
    first: Counter[str] = Counter()
    for word, n in spaced.items():
        ids = plain.encode(word)
        if ids:
            first[plain.id_to_piece(ids[0])] += n
    return first


def _assemble(fixed: Iterable[str], pieces: list[str], characters: list[str], after: list[str]) -> pb.ModelProto:
    kinds = pb.ModelProto.SentencePiece
    model = pb.ModelProto()
    model.trainer_spec.model_type = pb.TrainerSpec.BPE
    model.trainer_spec.byte_fallback = True
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = False
    model.normalizer_spec.remove_extra_whitespaces = False
    score = 0.0

    def add(piece: str, kind: int) -> None:
        nonlocal score
        model.pieces.add(piece=piece, score=score if kind == kinds.NORMAL else 0.0, type=kind)
        score -= kind == kinds.NORMAL

    add("<unk>", kinds.UNKNOWN)
    for piece in fixed:
        add(piece.replace(" ", SPACE), kinds.CONTROL if piece in CONTROL else kinds.USER_DEFINED)
    for byte in range(256):
        add(f"<0x{byte:02X}>", kinds.BYTE)
    for piece in pieces:
        add(piece, kinds.NORMAL)
    for piece in after:
        add(SPACE + piece, kinds.NORMAL)
    for piece in [SPACE, *characters]:
        add(piece, kinds.NORMAL)
    model.trainer_spec.vocab_size = len(model.pieces)
    return model
