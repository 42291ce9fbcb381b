"""Two hosts with addresses of their own: one loses its rank, or its link for good.

All faults, on two and three hosts: benchmarks/faults/hosts.py.
"""

import sys
from pathlib import Path

import pytest

from pencil.run import resume

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
try:
    import elastic
    from faults import hosts, namespaces
finally:
    sys.path.pop(0)

REASON = namespaces.unavailable()
pytestmark = [
    pytest.mark.ranks,
    pytest.mark.skipif(REASON is not None, reason=str(REASON)),
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Two ranks on one host, undisturbed, with all checkpoints."""
    folder = tmp_path_factory.mktemp("hosts")
    elastic.write_features(folder / "features.npz")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elastic, "SETTINGS", (*elastic.SETTINGS, f"checkpoint.keep={hosts.ALL}"))
        patch.setattr(elastic, "LIMIT", hosts.LIMIT)
        assert elastic.one_run(folder, "one-host", lambda *_: {})["completed"]
    return folder / "one-host"


def test_two_hosts_of_which_one_loses_its_rank_end_as_two_ranks_on_one_host(expected):
    out = expected.with_name("killed")
    with namespaces.hosts(2) as place:
        job = hosts.Job(place, out).start(*place)
        job.reach(50)
        hosts.worker_killed(job, place[1])
        job.finish()
        assert "exitcode: -9" in job.log(place[1]).read_text()
    assert hosts.difference(out, expected) == ""


def test_a_link_that_is_cut_for_good_ends_every_rank_in_one_line_and_one_host_continues(
    expected, monkeypatch
):
    monkeypatch.setattr(hosts, "SILENCE", 4)
    out = expected.with_name("cut")
    with namespaces.hosts(2) as place:
        job = hosts.Job(place, out, restarts=0).start(*place)
        job.reach(50)
        workers = job.workers(*place)
        place[1].cut()
        job.fail(place[:1])
        hosts.until(lambda: not any(map(hosts.alive, workers)), "the end of both ranks")
        assert "error, rank 1: another rank was lost" in job.log(place[1]).read_text()
    step = elastic.newest_step(out)
    assert 50 <= step < elastic.STEPS
    reference = hosts.rewound(expected, step)
    assert resume(out).is_finished
    assert resume(reference).is_finished
    assert hosts.difference(out, reference) == ""
