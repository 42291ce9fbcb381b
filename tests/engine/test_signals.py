"""A signal asks politely once; the second one acts as it always did."""

import os
import signal
import threading
from types import SimpleNamespace

import pytest

from pencil.engine import signals
from pencil.engine.signals import StopRequest

SIGNALS = [signal.SIGINT, signal.SIGTERM]


def send(number):
    os.kill(os.getpid(), number)


@pytest.fixture
def heard():
    """Numbers of the signals that reach the handlers installed before; restores what pytest had."""
    numbers = []
    before = {number: signal.signal(number, lambda got, _: numbers.append(got)) for number in SIGNALS}
    yield numbers
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_sets_requested_and_goes_no_further(heard, number):
    with StopRequest() as stop:
        assert not stop.requested
        send(number)
        assert stop.requested
    assert heard == []


@pytest.mark.parametrize("first", SIGNALS)
@pytest.mark.parametrize("second", SIGNALS)
def test_the_second_signal_acts_as_before(heard, first, second):
    with StopRequest() as stop:
        send(first)
        send(second)
        assert stop.requested
    assert heard == [second]


def test_the_second_interrupt_is_a_keyboard_interrupt_in_a_plain_program(heard):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with StopRequest():
        send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)


@pytest.mark.parametrize("number", SIGNALS)
def test_afterwards_signals_mean_what_they_meant(heard, number):
    with StopRequest() as stop:
        pass
    send(number)
    assert heard == [number]
    assert not stop.requested


def test_handlers_come_back_when_the_body_raises(heard):
    handlers = [signal.getsignal(number) for number in SIGNALS]
    with pytest.raises(ZeroDivisionError), StopRequest():
        raise ZeroDivisionError
    assert [signal.getsignal(number) for number in SIGNALS] == handlers


def test_one_request_may_be_used_again(heard):
    stop = StopRequest()
    for _ in range(2):
        with stop:
            send(signal.SIGTERM)
    assert heard == []


def test_another_thread_installs_nothing_and_fails_nothing(heard):
    handlers = [signal.getsignal(number) for number in SIGNALS]
    inside = []

    def work():
        with StopRequest() as stop:
            inside.append(([signal.getsignal(number) for number in SIGNALS], stop.requested))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert inside == [(handlers, False)]
    assert [signal.getsignal(number) for number in SIGNALS] == handlers


def test_under_torchrun_a_second_signal_at_once_is_the_first_one_passed_on(heard, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "job")
    now = 100.0
    monkeypatch.setattr(signals, "time", SimpleNamespace(monotonic=lambda: now))
    with StopRequest() as stop:
        send(signal.SIGINT)
        now += signals.ECHO_SECONDS
        send(signal.SIGTERM)
        assert stop.requested
        assert heard == []
        now += 0.001
        send(signal.SIGTERM)
        assert heard == [signal.SIGTERM]
