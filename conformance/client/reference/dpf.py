"""Distributed point functions: the two keys of a row (wire.md 13.3 to 13.5)."""

from .prf import FUNCTIONS, to_bytes

LEAF_BLOCKS = 4


class Domain:
    """Domain of a point function: the rows of a table, and the output bits of a share."""

    def __init__(self, prf, rows, bits):
        self.prf, self.bits = FUNCTIONS[prf], bits
        self.per_leaf = 128 * LEAF_BLOCKS // bits
        # wire.md 13.3.
        self.depth = (-(-rows // self.per_leaf) - 1).bit_length()

    @property
    def key_bytes(self):
        """Size of a key in bytes (wire.md 13.4)."""
        return 1 + 16 + 16 * self.depth + -(-self.depth // 8) + 16 * LEAF_BLOCKS

    def blocks(self, node, count):
        """Expands a node's seed, whose lowest bit is 0, to blocks (wire.md 13.3)."""
        seed = (node & ~1).to_bytes(16, "little")
        return [int.from_bytes(self.prf(seed, i), "little") for i in range(count)]

    def leaf(self, node):
        """Returns the outputs of a leaf, lowest first."""
        data = sum(block << 128 * i for i, block in enumerate(self.blocks(node, LEAF_BLOCKS)))
        return [data >> self.bits * place & ((1 << self.bits) - 1) for place in range(self.per_leaf)]

    def keys(self, row, rng):
        """Generates the keys of party 0 and of party 1 that select a row (wire.md 13.5)."""
        roots = []
        for _ in range(2):
            high, low = (int(word) for word in rng.words(2))
            roots.append((high << 64 | low) & ~1)
        path, place = divmod(row, self.per_leaf)
        nodes, lefts, rights = [roots[0], roots[1] | 1], [], []
        for level in range(self.depth):
            side = path >> (self.depth - 1 - level) & 1
            children = [self.blocks(node, 2) for node in nodes]
            sums = [children[0][i] ^ children[1][i] for i in (0, 1)]
            off = sums[1 - side] & ~1
            corrections = [off | (sums[i] & 1) ^ (i == side) for i in (0, 1)]
            nodes = [of[side] ^ (corrections[side] if node & 1 else 0) for node, of in zip(nodes, children)]
            lefts.append(corrections[0])
            rights.append(corrections[1] & 1)
        zero, one = map(self.leaf, nodes)
        correction = [b - a for a, b in zip(zero, one)]
        correction[place] += 1
        sign = -1 if nodes[1] & 1 else 1
        leaf = sum((sign * word) % (1 << self.bits) << self.bits * i for i, word in enumerate(correction))
        controls = sum(bit << i for i, bit in enumerate(rights)).to_bytes(-(-self.depth // 8), "little")
        rest = to_bytes(lefts, 16) + controls + leaf.to_bytes(16 * LEAF_BLOCKS, "little")
        return [bytes([party]) + roots[party].to_bytes(16, "little") + rest for party in (0, 1)]
