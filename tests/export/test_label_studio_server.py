"""The round trip through a real Label Studio on loopback: tasks in, predictions seen, choices out.

Runs where PENCIL_LABEL_STUDIO names the program ``label-studio``, in an environment of its own.
"""

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from pencil.export.label_studio import read_choices
from pencil.export.tools import ExportOptions, export

PROGRAM = os.environ.get("PENCIL_LABEL_STUDIO")
TOKEN = "0123456789abcdef0123456789abcdef01234567"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PROGRAM, reason="PENCIL_LABEL_STUDIO names no label-studio program"),
    pytest.mark.timeout(900),
]


def ask(address, body=None):
    """What the server answers, as JSON."""
    headers = {"Authorization": f"Token {TOKEN}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(address, data, headers), timeout=120) as answer:
        return json.loads(answer.read() or "null")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of a new Label Studio, which ends with the tests."""
    folder = tmp_path_factory.mktemp("label studio")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "LABEL_STUDIO_BASE_DATA_DIR": str(folder),
        "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
        "COLLECT_ANALYTICS": "false",
        "LATEST_VERSION_CHECK": "false",
    }
    account = ["--username", "ann@example.org", "--password", "only on loopback", "--user-token", TOKEN]
    command = [
        PROGRAM,
        "start",
        "--no-browser",
        "--internal-host",
        "127.0.0.1",
        "--port",
        str(port),
        *account,
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
        try:
            wait_until_healthy(f"http://127.0.0.1:{port}/health", process, folder / "log")
            yield f"http://127.0.0.1:{port}/api"
        finally:
            process.terminate()
            process.wait(timeout=60)


def wait_until_healthy(address, process, log):
    until = time.monotonic() + 600
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            urllib.request.urlopen(address, timeout=5).close()
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(2)
        else:
            return
    raise TimeoutError(log.read_text()[-3000:])


@pytest.mark.parametrize("shown", ["image", "text"])
def test_tasks_go_in_predictions_are_seen_and_choices_come_out(server, run, rows, tmp_path, shown):
    options = ExportOptions(prefix="http://127.0.0.1/")
    if shown == "text":
        lines = [f"{row.id},about {row.given}" for row in rows]
        (tmp_path / "texts.csv").write_text("\n".join(["id,text", *lines]), encoding="utf-8")
        options = ExportOptions(texts=tmp_path / "texts.csv")
    export(run, "label-studio", tmp_path / "tasks.json", options)
    config = (tmp_path / "tasks.xml").read_text(encoding="utf-8")
    project = ask(f"{server}/projects", {"title": f"pencil, {shown}", "label_config": config})["id"]
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    imported = ask(f"{server}/projects/{project}/import", tasks)
    assert (imported["task_count"], imported["prediction_count"]) == (len(rows), len(rows))

    page = ask(f"{server}/tasks?project={project}&fields=all&page_size={len(rows)}")
    seen = {task["data"]["pencil_id"]: task for task in page["tasks"]}
    assert seen.keys() == {row.id for row in rows}
    for row in rows:
        (prediction,) = seen[row.id]["predictions"]
        assert prediction["result"][0]["value"]["choices"] == [row.suggested]
        assert prediction["score"] == pytest.approx(row.confidence)

    kept, changed, skipped = rows[0], rows[1], rows[2]
    other = next(row.given for row in rows if row.given != changed.suggested)
    for row, label, cancelled in (
        (kept, kept.suggested, False),
        (changed, other, False),
        (skipped, None, True),
    ):
        result = seen[row.id]["predictions"][0]["result"] if label else []
        chosen = [{**each, "value": {"choices": [label]}} for each in result]
        task = seen[row.id]["id"]
        ask(f"{server}/tasks/{task}/annotations/", {"result": chosen, "was_cancelled": cancelled})
    back = ask(f"{server}/projects/{project}/export?exportType=JSON&download_all_tasks=true")
    (tmp_path / "export.json").write_text(json.dumps(back))
    found = read_choices(tmp_path / "export.json")
    assert found.labels == {kept.id: kept.suggested, changed.id: other}
    assert set(found.open) == {row.id for row in rows[2:]}
    assert not found.disputed
