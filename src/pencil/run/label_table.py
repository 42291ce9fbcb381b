"""The labels of a finished run by row: calibrated probabilities with their verdicts, and what the method learned.

What people decided about some rows also says how far to trust the suggestions of the others. So the table is one after
so many entries of the review's history: the newest by default, 0 for what the run itself believes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pencil.algorithm import Rows, TopRows
from pencil.belief import NO_CLASS, Belief, Checks, NoiseSums, Ranking, Released, doubtful, released
from pencil.engine import fitting_method
from pencil.estimates import RelabelCounts
from pencil.estimates.relabel import NEVER
from pencil.methods import Method
from pencil.results import (
    POSTERIOR,
    RELABEL,
    Decided,
    DecisionReader,
    Estimates,
    Judged,
    NearRows,
    SavedLabels,
    VerdictRule,
    damaged,
    judge,
    last_entry,
    read_card,
    read_decisions,
    read_estimates,
    read_neighbours,
    was_reviewed,
)
from pencil.results.estimates import ESTIMATES
from pencil.results.judged import certain, informed_rows, runners_up
from pencil.results.neighbours import TRAIN
from pencil.results.saved import SavedRows
from pencil.run.directory import RunDirectory
from pencil.run.kept_beliefs import is_belief, kept_as
from pencil.stores import StoreChoice, rows_at_once
from pencil.stores.given import UNKNOWN


@dataclass(frozen=True)
class LabelTable:
    """The labels of a run, read on demand.

    Attributes:
        class_names: The classes, in the order of a distribution.
        saved: The labels on disk.
        choice: The store that the rows were kept in.
        method: The method that interprets the rows.
        width: The number of values of a whole row.
        posterior: The calibrated probabilities on disk.
        posterior_choice: The store that they were kept in.
        stored: The noise of the labels before people decided anything.
        rule: The verdict rule.
        entry: The last entry of the review's history that counts; 0 for none.
        near: Near-identical rows and outliers; None if the run did not look for them.
    """

    class_names: tuple[str, ...]
    saved: SavedLabels
    choice: StoreChoice
    method: Method
    width: int
    posterior: SavedLabels
    posterior_choice: StoreChoice
    stored: Estimates
    rule: VerdictRule
    entry: int = 0
    near: NearRows | None = None

    @classmethod
    def open(
        cls, directory: RunDirectory, max_false_relabels: float | None = None, *, entry: int | None = None
    ) -> LabelTable:
        """Open the table of a finished run.

        Args:
            directory: The run.
            max_false_relabels: Replaces the share of the run's verdict rule.
            entry: The last entry of the review's history that counts; None for all, 0 for none.
        """
        directory.require_finished()
        names, config = read_card(directory.path).class_names, directory.config
        choice, method = kept_as(directory)
        width, method = method.row_width(len(names)), fitting_method(method, choice, len(names))
        saved = SavedLabels(directory.path, len(names), choice.make(0, width).state())
        estimates = read_estimates(directory.path, len(names))
        kept = _kept_store(directory, estimates)
        posterior = SavedLabels(directory.path, len(names), kept.make(0, len(names)).state(), name=POSTERIOR)
        if posterior.num_rows != saved.num_rows:
            raise damaged(posterior.folder, f"{posterior.num_rows} rows instead of {saved.num_rows}")
        rule = config.verdict
        if max_false_relabels is not None:
            rule = replace(rule, max_false_relabels=max_false_relabels)
        if entry is None:
            entry = last_entry(directory.path) if was_reviewed(directory.path) else 0
        near = read_neighbours(directory.path, saved.num_rows)
        return cls(names, saved, choice, method, width, posterior, kept, estimates, rule, entry, near)

    def __len__(self) -> int:
        return self.saved.num_rows

    def chunks(self, *, decided: bool = True, learned: bool = False) -> Iterator[Judged]:
        """Yield all rows in order, in chunks of limited size.

        With ``decided``, decided rows are as people said. With ``learned``, rows also have the class to use if few
        wrong labels are to be left: the likeliest by the belief, or by what the method learned from images.
        """
        folder, names = self.saved.folder.parent, self.class_names
        reads = decided and was_reviewed(folder)
        decisions = DecisionReader(folder, len(names), self.entry) if reads else None
        for saved in self._saved_chunks():
            judged = self._judged(saved, None if decisions is None else decisions.take(saved.ids))
            yield replace(judged, best=self._best(judged, saved)) if learned else judged
        if decisions is not None:
            decisions.finish()

    def row(self, number: int) -> Judged:
        """One row, without the decision about it."""
        return self._judged(self.posterior.rows(number, number + 1), None)

    def learned_chunks(self) -> Iterator[Judged]:
        """Yield all rows in order with y^d, the labels that the method learned, in place of the posterior.

        y^d is not calibrated, so each row is judged by itself.
        """
        least = self.rule.row_threshold()
        for saved in self.saved.chunks(rows_at_once(self.choice.make(0, self.width).row_width)):
            given = saved.given
            yield judge(
                self._belief(saved),
                given.hard,
                least,
                ids=saved.ids,
                first=saved.first,
                trusted=given.trusted,
            )

    @cached_property
    def estimates(self) -> Estimates:
        """The noise of the labels by all that is known; reads all rows once if people decided about some."""
        if not self.answers:
            return self.stored
        sums = NoiseSums(len(self.class_names))
        for judged in self.chunks():
            sums.add(judged.distribution, judged.given)
        surest = self.stored.surest if self._released is None else 1.0
        noise = sums.noise(Checks.told(passed=surest > 0))
        alarms = tuple(self.stored.alarms) if self._released is None else ()
        found = replace(noise, alarms=alarms, surest=surest)
        return Estimates.of(found, self.stored.source, self.stored.store)

    @property
    def version(self) -> str:
        """Another text for another entry, if decisions change what is said about other rows."""
        return "" if self._released is None else str(self.entry)

    @cached_property
    def answers(self) -> dict[int, int]:
        """What people said a row is, by its number, before the run or by decisions; ``NO_CLASS`` for a dropped one."""
        folder, names, found = self.saved.folder.parent, self.class_names, dict[int, int]()
        for saved in self._saved_chunks() if self.posterior.has_before else ():
            if (before := saved.given.before) is not None:
                places = (before != UNKNOWN).nonzero()[:, 0]
                rows = (places + saved.first).tolist()
                found |= dict(zip(rows, saved.given.hard[places].tolist(), strict=True))
        made = read_decisions(folder, self.entry, num_classes=len(names)) if self.entry else ()
        return found | {each.row: NO_CLASS if each.label is None else each.label for each in made}

    def belief(self) -> Belief:
        """The belief about all rows in memory, with all answers."""
        parts, given, best = [], [], []
        both = zip(self._saved_chunks(), self.chunks(decided=False, learned=True), strict=True)
        for saved, judged in both:
            rows, known = self._posterior(saved), saved.given.verified.nonzero()[:, 0]
            rows = certain(rows, known, saved.given.hard[known])
            parts.append((rows.dense() if isinstance(rows, TopRows) else rows).float())
            given.append(saved.given.doubted)
            best.append(judged.taken("best") if saved.likeliest is None else saved.likeliest)
        whole = torch.cat(parts)
        none = (1 - whole.sum(1, keepdim=True)).clamp_min(0)
        checks = self.stored.checks or Checks.told(passed=self.stored.surest > 0)
        return Belief(torch.cat(given), torch.cat([whole, none], 1), torch.cat(best), checks, self.answers)

    def ask(self, number: int) -> list[int]:
        """Rows whose answers release most; see ``Belief.ask``. Reads all rows once."""
        ranking, _ = self._ranking
        rows: list[int] = ranking.spread(number, torch.tensor(list(self.answers), dtype=torch.long)).tolist()
        return rows

    @property
    def question(self) -> str:
        """What answers would tell, see ``Ranking``. Reads all rows once."""
        return self._ranking[0].question

    @cached_property
    def thresholds(self) -> Tensor:
        """The lowest confidence (C,) at which a label of each given class is replaced; reads all rows once."""
        classes, checks = len(self.class_names), self.stored.checks
        counts = RelabelCounts(classes, self.stored.surest)
        less = self.rule.less_doubt(0.0 if checks is None else checks.doubt, classes)
        for saved in self._saved_chunks():
            given, best = saved.given.hard, self._posterior(saved).max(dim=1)
            candidate = best.indices != given
            if saved.given.trusted is not None:
                candidate &= ~saved.given.trusted
            counts.add(given, less.confidence(best.values), candidate)
        return less.stated(self.rule.thresholds(counts))

    @cached_property
    def _ranking(self) -> tuple[Ranking, Tensor]:
        """The rows whose label may be replaced, and the given classes of the answered rows (A,)."""
        parts, given, rows = [], [], torch.tensor(list(self.answers), dtype=torch.long)
        for saved in self._saved_chunks():
            hard = saved.given.doubted
            stated, other = runners_up(self._posterior(saved), hard)
            stated = stated.masked_fill(saved.given.verified, 0.0)
            some = doubtful(stated)
            parts.append((some + saved.first, other[some], stated[some].float()))
            mine = rows[(rows >= saved.first) & (rows < saved.first + len(hard))]
            given.append(hard[mine - saved.first])
        whole = (torch.cat(each) for each in zip(*parts, strict=True))
        return Ranking.of(*whole), torch.cat(given)

    @cached_property
    def _released(self) -> Released | None:
        """What decisions say about the other rows."""
        if not self.answers:
            return None
        ranking, given = self._ranking
        return released(ranking, given, self.answers, self.rule.max_false_relabels)

    @property
    def described_rule(self) -> dict[str, Any]:
        """The settings that the verdicts depend on, as plain values."""
        return asdict(self.rule)

    def _saved_chunks(self) -> Iterator[SavedRows]:
        row_width = self.posterior_choice.make(0, len(self.class_names)).row_width
        return self.posterior.chunks(rows_at_once(row_width))

    def _judged(self, saved: SavedRows, decided: Decided | None) -> Judged:
        given, near = saved.given, self.near
        rows = slice(saved.first, saved.first + len(saved.ids))
        posterior, least = self._by_decisions(saved)
        judged = judge(
            posterior,
            given.hard,
            least,
            ids=saved.ids,
            first=saved.first,
            trusted=given.trusted,
            decided=decided,
        )
        if near is None:
            return judged
        return replace(judged, group=near.groups[TRAIN][rows], outlier=near.outlier[rows])

    def _by_decisions(self, saved: SavedRows) -> tuple[Rows, Tensor]:
        """The probabilities, and the lowest confidence (B,) at which a label is replaced, with what decisions say."""
        posterior, least = self._posterior(saved), self.thresholds[saved.given.hard]
        if self._released is None:
            return posterior, least
        places, found = self._released.within(saved.first, len(saved.ids))
        allowed = torch.where(found.chosen, 0.0, NEVER)
        least = torch.full_like(least, NEVER).index_copy(0, places, allowed)
        return informed_rows(posterior, saved.given.doubted, places, found), least

    def _posterior(self, saved: SavedRows) -> Rows:
        rows = _gathered(self.posterior_choice, saved, len(self.class_names))
        return self._checked(rows, saved, self.posterior.folder)

    def _best(self, judged: Judged, saved: SavedRows) -> Tensor:
        """(B,) the class that is right most often; see ``Belief.best``."""
        if saved.likeliest is None or self.stored.checks is None:
            return self._learned(judged)
        usual = saved.likeliest if self.stored.checks.passed else judged.given
        sure = judged.is_decided | judged.trusted | (judged.verdict == RELABEL)
        return torch.where(sure, judged.suggested, usual)

    def _learned(self, judged: Judged) -> Tensor:
        """(B,) the likeliest class of y^d; the suggestion where people decided, or where no labels are learned."""
        if not self.method.learns_labels:
            return judged.suggested
        rows = self.saved.rows(judged.first, judged.first + len(judged))
        learned = self._belief(rows).max(dim=1).indices
        return torch.where(judged.is_decided | judged.trusted, judged.suggested, learned)

    def _belief(self, saved: SavedRows) -> Rows:
        """The distributions that the method derives from stored rows."""
        rows = _gathered(self.choice, saved, self.width)
        belief: Rows = self.method.label_distribution(rows, saved.given.values, len(self.class_names))
        return self._checked(belief, saved, self.saved.folder)

    def _checked(self, belief: Rows, saved: SavedRows, folder: Path) -> Rows:
        if not is_belief(belief):
            last = saved.first + len(saved.ids) - 1
            raise damaged(
                folder,
                f"rows {saved.first} to {last} contain invalid probabilities; do not use these labels",
            )
        return belief


def _gathered(choice: StoreChoice, saved: SavedRows, width: int) -> Rows:
    """Stored rows as the store that kept them returns them."""
    store = choice.make(len(saved.ids), width)
    for key, value in store.state().items():
        value.copy_(saved.rows[key])
    return store.gather(torch.arange(len(saved.ids)))


def _kept_store(directory: RunDirectory, estimates: Estimates) -> StoreChoice:
    try:
        return StoreChoice.parse(estimates.store).in_memory
    except ValueError as error:
        raise damaged(directory.path / ESTIMATES, error) from error
