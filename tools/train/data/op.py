"""What tools there can be: families of devices, and operations on them.

Texts give alternatives between `|`. In them `{n}` is the device, `{key}` an
argument; what stands in brackets falls away together where its argument is
absent.
"""

from dataclasses import dataclass, field

from .values import Kind


@dataclass(frozen=True)
class Param:
    """An argument, however a tool may call it."""

    names: str
    kind: Kind
    about: str = ""
    required: float = 0.85
    """How often tools require it."""
    default: float = 0.3
    """How often one that is not required names a default."""


@dataclass(frozen=True)
class Op:
    """An operation: what its tools are called, and how people ask for it."""

    group: str
    """Operations of one group on one device mean nearly the same."""
    names: str
    about: str
    asks: str
    """Imperative, without a full stop."""
    params: dict[str, Param] = field(default_factory=dict)
    hints: str = ""
    """Whole sentences that ask for it in a roundabout way, arguments included."""
    reads: str = ""
    """What its result is: `kind` of `data/results.py`, and words for it."""
    mate: str = ""
    """Group of the opposite, which makes a good distractor."""


@dataclass(frozen=True)
class Family:
    """Devices that the same can be done with. `nouns` that mean the same are
    separated by `/`, others by commas."""

    name: str
    nouns: str
    ops: tuple[Op, ...]

    def groups(self) -> list[tuple[str, ...]]:
        """The devices, each with its synonyms."""
        return [tuple(w.strip() for w in g.split("/")) for g in self.nouns.replace("\n", " ").split(",") if g.strip()]
