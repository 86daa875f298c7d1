"""Data that comes batch by batch, of which no more is held than the batch that is read."""
import numpy as np

from . import _data, _tandem
from ._errors import DataError, UsageError


class _Reader:
    """Gives the next samples of an iterable, as many as are asked for, whatever the sizes of its batches.

    An iterable that can be iterated anew (a DataLoader, a data set) begins again where it has ended; a generator has no more then.
    """

    def __init__(self, model, iterable):
        self._model, self._iterable, self._iterator = model, iterable, iter(iterable)
        self._batches = 0  # taken so far
        self._samples = False  # whether a batch since the iterable's beginning had some
        self.first = None  # [(name, role, array)] of the first batch
        self.first = self._take()
        self._rest = [array for _, _, array in self.first]  # of the last batch what was not given yet

    def _item(self):
        for _ in range(2):
            try:
                return next(self._iterator)
            except StopIteration:
                if self._batches and not self._samples:
                    raise DataError("the data's batches have no samples") from None
                again = iter(self._iterable)
                if again is self._iterator:
                    break
                self._iterator, self._samples = again, False
        raise DataError(f"the data has ended after {self._batches} batches, expected more: steps_per_epoch asks for them"
                        if self._batches else "the data has no batches")

    def _take(self):
        while True:
            fields = _data.named(self._model, *_data.split_item(self._item(), self._model.inputs))
            self._batches += 1
            if self.first is not None:
                self._compare(fields)
            lengths = {name: value.shape[0] if value.ndim else None for name, _, value in fields}
            if len(set(lengths.values())) > 1 or None in lengths.values():
                raise DataError(f"batch {self._batches}: not as many samples everywhere: {lengths}")
            if next(iter(lengths.values())) > 0:
                self._samples = True
                return fields

    def _compare(self, fields):
        def types(of):
            return {name: f"{value.dtype} [N{''.join(f', {size}' for size in value.shape[1:])}]" for name, _, value in of}
        wanted, got = types(self.first), types(fields)
        if got != wanted:
            raise DataError(f"batch {self._batches} has {got}, the first batch had {wanted}")

    def next(self, count):
        """The next `count` samples: an array of each field."""
        parts = [[] for _ in self.first]
        while count > 0:
            if len(self._rest[0]) == 0:
                self._rest = [array for _, _, array in self._take()]
            taken = min(count, len(self._rest[0]))
            for part, array in zip(parts, self._rest):
                part.append(array[:taken])
            self._rest = [array[taken:] for array in self._rest]
            count -= taken
        return [np.ascontiguousarray(part[0]) if len(part) == 1 else np.concatenate(part) for part in parts]


def opened(model, iterable, steps_per_epoch, batch_size):
    """(the extension module's data, the batch's size): an epoch is steps_per_epoch batches of `batch_size` (None: the first batch's)."""
    if steps_per_epoch < 1:
        raise UsageError(f"steps_per_epoch={steps_per_epoch}, expected 1 or more")
    reader = _Reader(model, iterable)
    size = batch_size or len(reader.first[0][2])
    return _tandem.Batches(reader.next, steps_per_epoch * size, reader.first), size
