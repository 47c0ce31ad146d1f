"""Text to tokens and back, as the engine does it. `vocabulary.py` makes what is loaded here."""

import re
from collections.abc import Iterable
from pathlib import Path

import sentencepiece as spm

CONTROL = ("<s>", "</s>", "<|im_start|>", "<|im_end|>", "<tools>", "</tools>", "<tool_response>", "</tool_response>")
SPACE = "\u2581"
"""How pieces spell a space."""

_SPECIAL = re.compile("(" + "|".join(re.escape(c) for c in sorted(CONTROL, key=len, reverse=True)) + ")")


class Tokenizer:
    """Text to ids, as the engine does it."""

    def __init__(self, path: Path):
        """Loads the model that `train` wrote."""
        if not path.exists():
            raise SystemExit(f"there is no {path}: run the step 'tokenizer' first")
        self.proto = path.read_bytes()
        self.spm = spm.SentencePieceProcessor(model_proto=self.proto)
        self.size = self.spm.get_piece_size()
        self._control = {c: self.spm.piece_to_id(c) for c in CONTROL}
        # The plain call; `encode` spends more time on its options than on short texts.
        self._plain = self.spm.EncodeAsIds
        self.end = self._control["<|im_end|>"]

    def encode(self, text: str) -> list[int]:
        """Ids of a text; control tokens in it are read as such."""
        ids: list[int] = []
        for i, part in enumerate(_SPECIAL.split(text)):
            if i % 2:
                ids.append(self._control[part])
            elif part:
                ids += self._plain(part)
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids."""
        out = bytearray()
        for i in ids:
            piece = self.spm.id_to_piece(i)
            if self.spm.is_byte(i):
                out.append(int(piece[3:5], 16))
            else:
                out += piece.replace(SPACE, " ").encode()
        return out.decode(errors="replace")
