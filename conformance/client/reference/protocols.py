"""The nine protocols: making queries for a record, and decoding it from answers (wire.md 9, 10, 12, 13)."""

import blake3
import numpy as np

from . import lwe
from .dpf import Domain
from .errors import BadRequest, Malformed
from .grid import Grid, check_bytes
from .prf import FUNCTIONS
from .ring import DEGREE, ring_set
from .rlwe import Expanded, OneShot, OneShotSecret, RingSecret, Rotated, Short, join_bits
from .streams import chacha20


class Protocol:
    """Base class of all protocols; `params` is the JSON of wire.md 4.5."""

    # Members of the parameters beside `protocol` (wire.md 4.5).
    members = {"set", "ring", "seed", "grid"}
    # Optional members, omitted if they have their default.
    optional = set()
    parties = 1
    shape = None
    hint_bytes = 0

    def __init__(self, params, grid):
        self.params, self.grid = params, grid

    @property
    def keys_bytes(self):
        return self.shape.keys_bytes if self.shape else 0

    @property
    def lengths(self):
        """Sizes of a query, an answer, the evaluation keys and the hint in bytes (wire.md 4.2)."""
        return self.query_bytes, self.answer_bytes, self.keys_bytes, self.hint_bytes

    def open(self, hint, secrets, rng):
        """Stores the hint. Takes the ring secret of the shape from `secrets`, or adds a fresh one (wire.md 11.5)."""
        self.hint = hint
        if self.keys_bytes:
            if self.shape.key not in secrets:
                secrets[self.shape.key] = RingSecret(self.shape, rng)
            self.ring = secrets[self.shape.key]

    @property
    def keys(self):
        """Bytes of the evaluation keys; empty if the protocol needs none."""
        return self.ring.keys if self.keys_bytes else b""

    def query(self, index, rng):
        """Makes the queries for a record, one for each party. Also returns the state for decoding."""
        if not 0 <= index < self.grid.records:
            raise BadRequest(f"no such record: the table has records 0 to {self.grid.records - 1}")
        return self.ask(*self.grid.place(index), rng)

    def split(self, data, size):
        return [data[start : start + size] for start in range(0, len(data), size)]


# wire.md 13.7: most entries that move to other bins for a further one.
MAX_MOVES = 12


class InBins(Protocol):
    """Base class of the protocols whose tables may lie in bins: runs of records dealt to the bins in turn (wire.md 13.7)."""

    def deal(self, run, bins):
        self.run, self.bin_count = run, min(bins, -(-self.grid.records // run))

    def bin_of(self, index):
        return index // self.run % self.bin_count

    def records_of(self, bin_number):
        """Returns the number of a bin's records."""
        whole, rest = divmod(self.grid.records, self.run * self.bin_count)
        return whole * self.run + min(self.run, max(0, rest - bin_number * self.run))

    def record(self, bin_number, place):
        """Returns a record of a bin, by its place in the bin."""
        turn, within = divmod(place, self.run)
        return (turn * self.bin_count + bin_number) * self.run + within

    def choose(self, wanted, rng):
        """Chooses a record of each bin that has records: one of the copies of a wanted entry, or a dummy (wire.md 13.7).

        `wanted` has the records of each entry's copies.
        """
        for index in (index for entry in wanted for index in entry):
            if not 0 <= index < self.grid.records:
                raise BadRequest(f"no such record: the table has records 0 to {self.grid.records - 1}")
        assigned = {}
        for entry, bin_number in self.assign(wanted).items():
            assigned[bin_number] = next(index for index in wanted[entry] if self.bin_of(index) == bin_number)
        chosen = []
        for bin_number in range(self.bin_count):
            # A single bin with a wanted record needs no dummy.
            draws = self.bin_count > 1 or not wanted
            place = int(rng.words(1)[0]) * self.records_of(bin_number) >> 64 if draws else 0
            chosen.append(assigned.get(bin_number, self.record(bin_number, place)))
        return chosen

    def assign(self, wanted):
        """Returns the bin of each entry that has one, by the entry's number (wire.md 13.7)."""
        bins = [{self.bin_of(index) for index in entry} for entry in wanted]
        own = {}
        for entry in range(len(wanted)):
            if wanted[entry] in wanted[:entry]:
                continue
            # Number m of the list has the bins that are free after at most m moves.
            freed = [set(range(self.bin_count)) - set(own.values())]
            for _ in range(min(MAX_MOVES, entry)):
                freed.append(freed[-1] | {taken for other, taken in own.items() if bins[other] & freed[-1]})
            waiting = entry
            while waiting is not None:
                reached = [m for m, free in enumerate(freed) if bins[waiting] & free]
                if not reached:
                    break
                taken = min(bins[waiting] & freed[reached[0]])
                other = next((other for other, its in own.items() if its == taken), None)
                own[waiting] = taken
                if other is not None:
                    del own[other]
                waiting = other
        return own

    def query(self, index, rng):
        queries, _, state = self.fetch([[index]], rng)
        return queries, (index, state)

    def decode(self, state, answers):
        index, state = state
        return self.decode_fetch(state, answers)[index]


class Folding(Protocol):
    """Base class of the protocols that begin with a fold (wire.md 8)."""

    across = False

    def __init__(self, params, grid=None):
        super().__init__(params, Grid(grid or params["grid"], self.across))
        if self.grid.columns % lwe.RING or self.grid.columns > lwe.MAX_COLUMNS:
            raise Malformed("columns are no multiple of 256 up to 2^20")
        self.first = self.matrix(0, self.grid.columns)
        self.degree = self.first.degree
        self.dropped = params.get("dropped_bits", 0)
        if not 0 <= self.dropped <= (lwe.MAX_DROPPED_BITS if "ring" in params else 0):
            raise Malformed("more bits are dropped than may be")
        self.first_bytes = lwe.bodies_bytes(self.grid.columns, self.dropped)
        self.hint_bits = params.get("hint_bits", 32)
        if not lwe.LEAST_HINT_BITS <= self.hint_bits <= 32:
            raise Malformed("a hint has numbers of 16 to 32 bits")

    def matrix(self, fold, columns):
        key = lwe.matrix_key(bytes.fromhex(self.params["seed"]), fold)
        return lwe.PublicMatrix(self.params["set"], key, columns)

    def column_of(self, column, rng):
        """Encrypts the unit vector of a column. Returns the bodies, their secret and their factor (wire.md 8.3, 8.8)."""
        return lwe.encrypt_unit(self.first, column, rng, dropped=self.dropped)

    def columns_of(self, column, rng):
        """Encrypts the unit vectors of the columns of a record's parts. Returns the bodies, and a secret and factor for each
        (wire.md 8.3, 8.8)."""
        asked = [self.column_of(column + part, rng) for part in range(self.grid.parts)]
        return b"".join(bodies for bodies, *_ in asked), [keeps for _, *keeps in asked]

    def expanded(self):
        """Returns the shape of a query by expansion (wire.md 11.6, 12.3)."""
        return Expanded(ring_set(self.params["ring"], True), self.degree, 1)

    def packing(self, packed, groups=1):
        """Returns the shape of a query for `packed` packed ciphertexts (wire.md 11.6, 12)."""
        chosen = ring_set(self.params["ring"], True)
        if self.params.get("keys", "per-query") != "per-query":
            raise Malformed("keys reach a server in another way than there is")
        if "keys" in self.params:
            if not chosen.dropped_bits or groups != 1:
                raise Malformed("queries bring their keys where chunks are rotated and nothing is selected")
            if self.params.get("queries", "short") != "short":
                raise Malformed("queries have another form than there is")
            shape = (Short if "queries" in self.params else OneShot)(chosen, self.degree, 1, packed)
            self.uniform, self.hint_bytes = None, packed * shape.uniform_bytes
            return shape
        if "queries" in self.params:
            raise Malformed("queries are short where they bring their keys")
        if self.params["ring"] == "paper":
            return Expanded(chosen, self.degree, groups)
        return Rotated(chosen, self.degree, groups, packed)

    def packed(self, secret, factor, group, rng):
        """Encrypts an LWE secret. Returns the ciphertext, and a reader of the packed ciphertexts in the answer.

        The reader returns a list of the numbers of all ciphertexts, in order (wire.md 11.6, 11.8).
        """

        def numbers(secret, ciphertexts):
            phases = (phase for ciphertext in ciphertexts for phase in secret.phases(ciphertext))
            return factor.numbers(phases, 64).tolist()

        if self.keys_bytes:
            ciphertext = self.ring.query(self.shape, secret, group, rng)
            return ciphertext, lambda results: numbers(self.ring, self.split(results, self.shape.result_bytes))
        if self.uniform is None:
            self.uniform = self.shape.uniform(bytes.fromhex(self.params["seed"]))
        one_shot = OneShotSecret(self.shape, self.uniform, secret, rng)

        def read(results):
            halves = zip(self.split(self.hint, self.shape.uniform_bytes), self.split(results, self.shape.result_bytes))
            return numbers(one_shot, (a + b for a, b in halves))

        return one_shot.asked, read


class Simple(Folding):
    """The protocol `simple` (wire.md 9)."""

    members = {"set", "seed", "records", "record_bytes", "rows", "columns"}
    optional = {"hint_bits"}
    across = True

    def __init__(self, params):
        grid = {name: params[name] for name in ("records", "record_bytes", "columns")}
        super().__init__(params, {**grid, "unit_rows": params["rows"], "groups": 1})
        self.query_bytes = 4 * self.grid.parts * self.grid.columns
        self.answer_bytes = 2 * self.grid.parts * self.grid.unit
        self.hint_bytes = lwe.hint_bytes(self.grid.unit * self.degree, self.hint_bits)

    def ask(self, column, _group, offset, rng):
        columns = (column + part for part in range(self.grid.parts))
        asked = [lwe.encrypt_plain_unit(self.first, column, rng) for column in columns]
        return [b"".join(bodies for bodies, _ in asked)], ([secret for _, secret in asked], offset)

    def decode(self, state, answers):
        secrets, offset = state
        hint = lwe.hint_rows(self.hint, self.degree, self.hint_bits)
        pairs = zip(self.split(answers[0], 2 * self.grid.unit), secrets)
        phases = (lwe.words(words) + lwe.inner(hint, secret) for words, secret in pairs)
        units = [lwe.nearest_bytes(of_part).tolist() for of_part in phases]
        return self.grid.cut(units, offset)


class TwoFolds(Folding):
    """Common base of `double` and `exppack-double` (wire.md 10)."""

    across = True

    def __init__(self, params):
        super().__init__(params)
        self.second = self.matrix(1, self.grid.groups)
        self.fixed_rows = 2 * self.degree * self.grid.unit
        self.moving_bytes = 2 * (self.degree + 1) * 2 * self.grid.unit * self.grid.parts
        self.bodies_bytes = self.grid.parts * self.first_bytes + 4 * self.grid.groups

    def two_queries(self, column, group, rng):
        """Makes the queries of both folds (wire.md 10.2)."""
        first, of_first = self.columns_of(column, rng)
        second, *of_second = lwe.encrypt_unit(self.second, group, rng)
        return first + second, of_first, of_second

    def record(self, fixed, moving, first, second, offset):
        """Decodes the record from the numbers of the fixed rows and the ciphertexts of the moving rows (wire.md 10.4)."""
        secret, factor = second
        ciphertexts = lwe.words(moving).reshape(-1, self.degree + 1)
        moving = factor.numbers(ciphertexts[:, -1] + lwe.inner(ciphertexts[:, :-1], secret), 32)
        hint = lwe.words(fixed.astype(np.uint8).tobytes()).reshape(-1, self.degree)
        answers = lwe.words(moving.astype(np.uint8).tobytes()).reshape(self.grid.parts, self.grid.unit)
        units = [
            factor.numbers(answer + lwe.inner(hint, secret), 32).tolist() for answer, (secret, factor) in zip(answers, first)
        ]
        record = self.grid.cut(units, offset)
        check_bytes(fixed)
        check_bytes(moving)
        return record


class Double(TwoFolds):
    """The protocol `double` (wire.md 10)."""

    members = {"set", "seed", "grid"}
    optional = {"hint_bits"}

    def __init__(self, params):
        super().__init__(params)
        self.query_bytes = self.bodies_bytes
        self.answer_bytes = 2 * self.fixed_rows + self.moving_bytes
        self.hint_bytes = lwe.hint_bytes(self.fixed_rows * self.degree, self.hint_bits)

    def ask(self, column, group, offset, rng):
        query, first, second = self.two_queries(column, group, rng)
        return [query], (first, second, offset)

    def decode(self, state, answers):
        first, second, offset = state
        secret, factor = second
        words, moving = lwe.words(answers[0][: 2 * self.fixed_rows]), answers[0][2 * self.fixed_rows :]
        hint = lwe.hint_rows(self.hint, self.degree, self.hint_bits)
        fixed = factor.numbers(words + lwe.inner(hint, secret), 32)
        return self.record(fixed, moving, first, second, offset)


class ExpPackDouble(TwoFolds):
    """The protocol `exppack-double` (wire.md 12.2)."""

    optional = {"dropped_bits", "keys", "queries"}

    def __init__(self, params):
        super().__init__(params)
        packed = -(-self.fixed_rows // DEGREE)
        self.shape = self.packing(packed)
        self.packed_bytes = packed * self.shape.result_bytes
        self.query_bytes = self.bodies_bytes + self.shape.query_bytes
        self.answer_bytes = self.packed_bytes + self.moving_bytes

    def ask(self, column, group, offset, rng):
        query, first, second = self.two_queries(column, group, rng)
        ciphertext, read = self.packed(*second, 0, rng)
        return [query + ciphertext], (first, second, offset, read)

    def decode(self, state, answers):
        first, second, offset, read = state
        packed, moving = answers[0][: self.packed_bytes], answers[0][self.packed_bytes :]
        fixed = np.array(read(packed)[: self.fixed_rows])
        return self.record(fixed, moving, first, second, offset)


class ExpPackSimple(Folding, InBins):
    """The protocol `exppack-simple` (wire.md 12.1)."""

    optional = {"dropped_bits", "keys", "queries"}
    across = True

    def __init__(self, params):
        super().__init__(params)
        bins, rows = self.grid.groups, DEGREE if self.grid.groups == 1 else lwe.PANEL_ROWS
        if self.grid.unit % rows:
            raise Malformed(f"a unit is no column of a multiple of {rows} bytes")
        if bins > 1 << 16 or bins * self.grid.columns > lwe.MAX_COLUMNS_OF_BINS:
            raise Malformed("there are more bins than may be, or more columns in them")
        self.deal(self.grid.per_unit, bins)
        if self.bin_count < bins:
            raise Malformed("a bin has no records")
        keys = [lwe.bin_matrix_key(bytes.fromhex(params["seed"]), bin_number) for bin_number in range(bins)]
        self.matrices = [lwe.PublicMatrix(params["set"], key, self.grid.columns) for key in keys]
        packed = -(-bins * self.grid.unit // DEGREE)
        self.shape = self.packing(packed)
        self.part_bytes = packed * self.shape.result_bytes
        self.query_bytes = self.grid.parts * (bins * self.first_bytes + self.shape.query_bytes)
        self.answer_bytes = self.grid.parts * self.part_bytes

    def fetch(self, wanted, rng):
        """Makes the query for a record of each bin. Also returns these records, and the state for decoding."""
        chosen = self.choose(wanted, rng)
        query, readers = b"", []
        for part in range(self.grid.parts):
            secret, factors = None, []
            for matrix, index in zip(self.matrices, chosen):
                column = self.grid.place(index)[0] + part
                bodies, secret, factor = lwe.encrypt_unit(matrix, column, rng, secret, self.dropped)
                query += bodies
                factors.append(factor)
            ciphertext, read = self.packed(secret, lwe.BlindingOfBins(factors, self.grid.unit), 0, rng)
            query += ciphertext
            readers.append(read)
        return [query], chosen, (chosen, readers)

    def decode_fetch(self, state, answers):
        """Decodes the records of all bins, including dummies. Returns them by index."""
        chosen, readers = state
        parts = [read(part) for read, part in zip(readers, self.split(answers[0], self.part_bytes))]
        units = ([self.split(numbers, self.grid.unit)[bin_number] for numbers in parts] for bin_number in range(len(chosen)))
        return {index: self.grid.cut(of_bin, self.grid.place(index)[2]) for index, of_bin in zip(chosen, units)}


class Blocks(Folding):
    """Base class of the protocols whose units are blocks of 4096 bytes (wire.md 12.3, 12.4)."""

    optional = {"dropped_bits"}

    def __init__(self, params):
        super().__init__(params)
        if self.grid.unit != DEGREE:
            raise Malformed("a unit has not 4096 bytes")


class DoublePack(Blocks):
    """The protocol `double-pack` (wire.md 12.3)."""

    def __init__(self, params):
        super().__init__(params)
        self.shape = self.expanded()
        self.second = self.matrix(1, self.grid.groups)
        self.part_bytes = self.shape.set.response_bytes // DEGREE * self.shape.set.response_bytes
        self.query_bytes = self.first_bytes + 4 * self.grid.groups + self.shape.query_bytes
        self.answer_bytes = self.grid.parts * self.part_bytes

    def ask(self, column, group, offset, rng):
        bodies, secret, of_first = self.column_of(column, rng)
        second, _, of_second = lwe.encrypt_unit(self.second, group, rng, secret)
        return [bodies + second + self.ring.query(self.shape, secret, 0, rng)], (of_first, of_second, offset)

    def decode(self, state, answers):
        of_first, of_second, offset = state
        response, units, inner = self.shape.set.response_bytes, [], []
        for part in self.split(answers[0], self.part_bytes):
            phases = (phase for outer in self.split(part, response) for phase in self.ring.phases(outer))
            inner.append(of_second.numbers(phases, 64))
            ciphertext = inner[-1].astype(np.uint8).tobytes()
            units.append(of_first.numbers(self.ring.phases(ciphertext), 64).tolist())
        record = self.grid.cut(units, offset)
        for numbers in inner:
            check_bytes(numbers)
        return record


class Hybrid(Blocks):
    """The protocol `hybrid` (wire.md 12.4)."""

    optional = {"dropped_bits", "keys", "queries"}

    def __init__(self, params):
        super().__init__(params)
        self.shape = self.packing(self.grid.parts * self.grid.groups, self.grid.groups)
        self.query_bytes = self.first_bytes + self.shape.query_bytes
        self.answer_bytes = self.grid.parts * self.shape.result_bytes

    def ask(self, column, group, offset, rng):
        bodies, *keeps = self.column_of(column, rng)
        ciphertext, read = self.packed(*keeps, group, rng)
        return [bodies + ciphertext], (read, offset)

    def decode(self, state, answers):
        read, offset = state
        return self.grid.cut(self.split(read(answers[0]), self.grid.unit), offset)


def pad_key(params):
    """Returns the key of the stream of the public pad (wire.md 12.5)."""
    pad = bytes.fromhex(params["pad"])
    return blake3.blake3(pad, derive_key_context="spirea v1: public pad of polynomials").digest()


class Onion(Protocol):
    """The protocol `onion` (wire.md 12.5)."""

    members = {"ring", "pad", "grid"}

    def __init__(self, params):
        super().__init__(params, Grid(params["grid"], False))
        chosen = ring_set(params["ring"], False)
        self.bits = chosen.plaintext_bits
        if self.grid.unit != DEGREE * self.bits // 8 or self.grid.columns > 512:
            raise Malformed("a unit is no plaintext, or there are more than 512 columns")
        self.shape = Expanded(chosen, self.grid.columns, self.grid.groups)
        self.query_bytes = self.shape.query_bytes
        self.answer_bytes = self.grid.parts * chosen.response_bytes

    def ask(self, column, group, offset, rng):
        numbers = [int(i == column) for i in range(self.grid.columns)]
        return [self.ring.query(self.shape, numbers, group, rng)], (column, group, offset)

    def pad(self, part, column, group):
        """Returns the pad that was added to the coefficients of a unit (wire.md 12.5)."""
        unit = (part * self.grid.groups + group) * self.grid.columns + column
        return chacha20(pad_key(self.params), [unit], DEGREE)[0] & np.uint32((1 << self.bits) - 1)

    def decode(self, state, answers):
        column, group, offset = state
        units = []
        for part, ciphertext in enumerate(self.split(answers[0], self.shape.set.response_bytes)):
            padded, pad = self.ring.decode(ciphertext, self.bits), self.pad(part, column, group)
            numbers = [(number - int(word)) % (1 << self.bits) for number, word in zip(padded, pad)]
            units.append(join_bits(numbers, self.bits))
        return self.grid.cut(units, offset)


class TwoServers(InBins):
    """Base class of the protocols with two servers (wire.md 13)."""

    members = {"prf", "shares", "grid"}
    optional = {"bins"}
    parties = 2

    def __init__(self, params):
        super().__init__(params, Grid(params["grid"], False))
        if params["prf"] not in FUNCTIONS or self.grid.groups != 1:
            raise Malformed("the pseudorandom function is not known, or rows have groups")
        self.word_bits = self.shares[params["shares"]]
        self.bins = params.get("bins", 1)
        if not 1 <= self.bins <= 1 << 16 or self.grid.columns % self.bins:
            raise Malformed("there are not 1 to 2^16 bins of as many rows each")
        self.bin_rows = self.grid.columns // self.bins
        self.deal(self.bin_rows * self.grid.per_unit, self.bins)
        self.domain = Domain(params["prf"], self.bin_rows, self.word_bits)
        self.row_bytes = self.grid.parts * self.grid.unit
        self.query_bytes = self.bins * self.domain.key_bytes
        self.answer_bytes = self.bins * self.row_bytes

    def fetch(self, wanted, rng):
        """Makes the queries, one for each party, for a record of each bin (wire.md 13.7).

        Also returns these records, and the state for decoding: the records again.
        """
        chosen = self.choose(wanted, rng)
        rows = [self.grid.place(index)[0] % self.bin_rows for index in chosen] + [0] * (self.bins - len(chosen))
        keys = [self.domain.keys(row, rng) for row in rows]
        return [b"".join(of_party) for of_party in zip(*keys)], chosen, chosen

    def decode_fetch(self, chosen, answers):
        """Decodes the fetched records, including dummies. Returns them by index."""
        rows = self.split(self.add(*answers), self.row_bytes)
        return {
            index: self.grid.cut(self.split(row, self.grid.unit), self.grid.place(index)[2])
            for index, row in zip(chosen, rows)
        }


class DpfXor(TwoServers):
    """The protocol `dpf-xor` (wire.md 13.6)."""

    # Bits of a share, by its name.
    shares = {"bit": 1}

    def add(self, zero, one):
        return bytes(a ^ b for a, b in zip(zero, one))


class DpfSum(TwoServers):
    """The protocol `dpf-sum` (wire.md 13.6)."""

    shares = {"u32": 32, "u64": 64}

    def add(self, zero, one):
        kind = f"<u{self.word_bits // 8}"
        return (np.frombuffer(zero, kind) + np.frombuffer(one, kind)).tobytes()


PROTOCOLS = {
    "simple": Simple,
    "double": Double,
    "exppack-simple": ExpPackSimple,
    "exppack-double": ExpPackDouble,
    "double-pack": DoublePack,
    "hybrid": Hybrid,
    "onion": Onion,
    "dpf-xor": DpfXor,
    "dpf-sum": DpfSum,
}


def protocol_of(params):
    """Makes the protocol of parameters (wire.md 4.5)."""
    try:
        protocol = PROTOCOLS[params["protocol"]]
        if set(params) - protocol.optional != {"protocol", *protocol.members}:
            raise Malformed("the parameters have other members than those of their protocol")
        return protocol(params)
    except (KeyError, TypeError, ValueError) as error:
        raise Malformed(f"the parameters cannot be used: {error!r}") from error
