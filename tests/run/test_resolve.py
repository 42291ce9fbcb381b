"""Settings that were left open are decided once, and known again."""

import pytest
import torch

from pencil.engine import Runtime
from pencil.run.resolve import resolve, resolves_to

RUNTIME = Runtime(device=torch.device("cpu"))


@pytest.mark.parametrize(("memory", "store"), [(10**9, "dense"), (1, "dense:mapped")])
def test_the_store_follows_the_memory(make_config, monkeypatch, memory, store):
    monkeypatch.setattr("pencil.run.resolve.free_memory", lambda: memory)
    config, prepared = resolve(make_config(), RUNTIME)
    assert config.store == store
    assert len(prepared.train) > 0
    chosen = make_config(store="top:2")
    assert resolve(chosen, RUNTIME)[0] == chosen


def test_what_was_decided_is_known_again_and_other_settings_are_not(make_config):
    asked = make_config(data={"trusted": {"path": "reviewed"}})
    kept = make_config(data={"trusted": {"path": "reviewed", "entry": 7}}, store="top:2")
    assert resolves_to(asked, kept)
    assert resolves_to(kept, kept)
    assert not resolves_to(make_config(), kept)
    assert not resolves_to(make_config(data={"trusted": {"path": "reviewed", "entry": 6}}), kept)
    assert not resolves_to(make_config(data={"trusted": {"path": "reviewed"}}, store="dense"), kept)
