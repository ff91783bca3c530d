"""``arena run`` and ``arena tournament`` tell what models cost, stop where money ends, and go on with more of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from arena.cli.app import app

PROTOCOL = """\
name: talk
fields: [question, answers]
roles:
  pro: {argues: 0, sees: [question, answers]}
  con: {argues: 1, sees: [question, answers]}
  judge: {sees: [question, answers]}
nodes:
  one: {speak: pro}
  two: {speak: con}
  verdict: {judge: judge}
edges: [start -> one -> two -> verdict -> end]
"""
CALL = 10 * 0.1 + 2 * 0.2
"""US dollars for an answer of the server below: 10 tokens in, 2 out, by the prices below."""


class Server(ThreadingHTTPServer):
    """Says "yes" to everything."""

    daemon_threads = False
    calls = 0


class Yes(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        assert isinstance(self.server, Server)
        self.server.calls += 1
        choice = {"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
        body = json.dumps({"id": "1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage})
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    Path("p.yaml").write_text(PROTOCOL)
    Path("prices.yaml").write_text("m: {input: 100000, output: 200000}\n")
    tasks = [{"id": f"t{i}", "question": f"Q{i}?", "answers": ["yes", "no"], "label": i % 2} for i in range(4)]
    Path("q.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    with Server(("127.0.0.1", 0), Yes) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def model(server: Server, **more: object) -> str:
    args = {"model": "m", "base_url": f"http://127.0.0.1:{server.server_port}/v1", "prices": "prices.yaml", **more}
    return "openai:" + ",".join(f"{name}={value}" for name, value in args.items())


def arena(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output + repr(result.exception)
    return result.stdout if code == 0 else result.stderr


def run(spec: str, *more: str, code: int = 0) -> str:
    agents = ("--agent", f"pro={spec}", "--agent", "con=fixed:text=no")
    options = ("--judge", "exact", "--out", "out", "--concurrency", "1")
    return arena("run", "p.yaml", "--tasks", "q.jsonl", *agents, *options, *more, code=code)


def tournament(spec: str, *more: str) -> str:
    agents = {"ann": spec, "bob": "fixed:text=no"}
    config = {"tournament": "t", "protocol": "p.yaml", "tasks": "q.jsonl", "n": 2, "agents": agents, "judge": "exact"}
    Path("t.yaml").write_text(yaml.safe_dump(config))
    return arena("tournament", "t.yaml", "--out", "cup", "--concurrency", "1", *more)


LINE = "m: 4 calls, 40 tokens in (0 cached), 8 out (0 thinking), 5.6000 USD"


def test_a_run_ends_with_what_it_cost(server: Server) -> None:
    assert LINE in run(model(server))


def test_a_tournament_ends_with_what_it_cost(server: Server) -> None:
    assert LINE in tournament(model(server))


def test_what_a_tournament_cost_is_told_as_json_as_that_of_a_run_is(server: Server) -> None:
    (played,) = json.loads(run(model(server), "--json"))["usage"]
    (rated,) = json.loads(tournament(model(server), "--json"))["usage"]
    assert played == rated
    assert (played["model"], played["calls"], played["cost"]) == ("m", 4, pytest.approx(4 * CALL))


def test_a_run_that_spent_its_money_goes_on_with_more_and_is_the_same_in_the_end(server: Server) -> None:
    text = run(model(server, max_cost=2 * CALL))
    assert "max_cost of agent 'm' is reached" in text
    assert "with 2 of its episodes unplayed" in text
    assert json.loads(run(model(server, max_cost=100), "--resume", "--json"))["episodes"] == 4
    assert server.calls == 4


def test_a_run_goes_on_with_other_limits_of_the_server_and_another_cache(server: Server) -> None:
    run(model(server, max_cost=2 * CALL))
    limits = {"timeout": 9, "retries": 1, "concurrency": 2, "rpm": 60000, "cache": "kept"}
    assert json.loads(run(model(server, **limits), "--resume", "--json"))["episodes"] == 4


def test_a_run_does_not_go_on_with_what_decides_answers(server: Server) -> None:
    run(model(server, max_cost=2 * CALL))
    assert "temperature=0.5" in run(model(server, temperature=0.5), "--resume", code=2)


def test_a_tournament_that_spent_its_money_says_so_and_goes_on_with_more(server: Server) -> None:
    text = tournament(model(server, max_cost=2 * CALL))
    assert "The tournament was stopped (" in text
    assert "with 2 of its games unplayed" in text
    assert "Go on by --resume --out cup" in text
    standings = json.loads(tournament(model(server, max_cost=100), "--resume", "--json"))
    assert (standings["matches"], standings["missing"], standings["stopped"]) == (4, 0, "")
    assert server.calls == 4


def test_answers_that_were_kept_cost_nothing(server: Server) -> None:
    run(model(server, cache="kept"))
    again = arena(
        *("run", "p.yaml", "--tasks", "q.jsonl", "--agent", f"pro={model(server, cache='kept')}"),
        *("--agent", "con=fixed:text=no", "--judge", "exact", "--out", "again"),
    )
    assert "m: 0 calls, 4 from the cache, 0 tokens in (0 cached), 0 out (0 thinking), 0.0000 USD" in again
    assert server.calls == 4


def test_a_model_without_a_price_is_told_plainly(server: Server) -> None:
    spec = model(server).replace(",prices=prices.yaml", "")
    assert "cost unknown (no price of it here: give prices=FILE)" in run(spec)
