"""Sets that have no element in common, and grow together."""

from collections import defaultdict

__all__ = ["DisjointSets"]


class DisjointSets:
    """A partition of the numbers from 0 to n - 1, at first each on its own.

    Parameters
    ----------
    n : int
        How many numbers.

    References
    ----------
    Galler & Fischer 1964, "An improved equivalence algorithm".
    """

    def __init__(self, n: int) -> None:
        self._leaders = list(range(n))

    def are_joined(self, i: int, j: int) -> bool:
        """Return whether two numbers are in the same set.

        Parameters
        ----------
        i, j : int
            The numbers.

        Returns
        -------
        bool
            Whether they are.
        """
        return self._leader(i) == self._leader(j)

    def join(self, i: int, j: int) -> None:
        """Make one set of those of two numbers.

        Parameters
        ----------
        i, j : int
            The numbers.
        """
        first, second = sorted((self._leader(i), self._leader(j)))
        self._leaders[second] = first

    def members(self) -> list[list[int]]:
        """Return all sets, by their least numbers.

        Returns
        -------
        list of list of int
            The numbers of each set, in order.
        """
        found: dict[int, list[int]] = defaultdict(list)
        for i in range(len(self._leaders)):
            found[self._leader(i)].append(i)
        return list(found.values())

    def _leader(self, i: int) -> int:
        leaders = self._leaders
        while leaders[i] != i:
            leaders[i] = leaders[leaders[i]]
            i = leaders[i]
        return i
