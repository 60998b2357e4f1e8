"""Places of records in the database (wire.md 7)."""

from .errors import Malformed, Unverified


class Grid:
    """The grid: records in units, units in groups and columns."""

    def __init__(self, grid, across):
        """Checks a grid. If `across`, the parts of a record lie in adjacent columns, else below each other (wire.md 7.2)."""
        self.records, self.record_bytes = grid["records"], grid["record_bytes"]
        self.unit, self.groups, self.columns = grid["unit_rows"], grid["groups"], grid["columns"]
        if min(self.records, self.record_bytes, self.unit, self.groups, self.columns) < 1:
            raise Malformed("a number of the grid is 0")
        self.parts = -(-self.record_bytes // self.unit)
        self.per_unit = max(self.unit // self.record_bytes, 1)
        self.step = self.parts if across else 1
        if self.records > self.columns // self.step * self.groups * self.per_unit:
            raise Malformed("the grid has no room for its records")

    def place(self, index):
        """Returns a record's column and group, and the offset of its first byte in the unit (wire.md 7.1)."""
        unit, within = divmod(index, self.per_unit)
        return unit // self.groups * self.step, unit % self.groups, within * self.record_bytes

    def cut(self, units, offset):
        """Assembles the record from the numbers of its parts' units (wire.md 7.2)."""
        record = []
        for unit in units:
            wanted = min(self.record_bytes - len(record), self.unit - offset)
            record += unit[offset : offset + wanted]
        check_bytes(record)
        return bytes(record)


def check_bytes(numbers):
    """Refuses an answer that decodes to 256, which is not a byte (wire.md 8.8)."""
    if 256 in numbers:
        raise Unverified("the answer decodes to a number that is no byte: it is withheld")
