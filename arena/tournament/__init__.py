"""Tournaments: agents meet on the same tasks in both seats, and are rated with intervals.

    config = load_tournament(Path("cup.yaml"))
    standings = run_tournament(config, "runs/cup", created="2026-01-31T12:00:00")

`config` is the file, `checks` says whether it can work, `world` builds what it names, `rounds` plays what the schedule
(`arena.scheduling`) asks for, `arms` and `rejudged` measure beside the games, and `standings` and `analysis` say what
came of them.
"""

from arena.tournament.checks import check_tournament
from arena.tournament.config import TournamentConfig
from arena.tournament.live import Live
from arena.tournament.loading import load_tournament
from arena.tournament.pairing import check_pairing, entered, matches_of, pairing_plans
from arena.tournament.play import run_tournament
from arena.tournament.standings import Standings, standings_of

__all__ = [
    "Live",
    "Standings",
    "TournamentConfig",
    "check_pairing",
    "check_tournament",
    "entered",
    "load_tournament",
    "matches_of",
    "pairing_plans",
    "run_tournament",
    "standings_of",
]
