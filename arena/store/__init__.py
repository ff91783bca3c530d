"""The run directory: every finished episode in one database, so that a killed run goes on where it stopped.

    with Store.open("runs/first") as store:
        run = store.begin("run", config, created="2026-01-31T12:00:00", resume=True)
        todo = [key for key in keys if key not in run.finished("play")]
        run.add("play", episodes)          # one transaction; when it returns, kill -9 cannot lose them
        run.finish("done")

Append only: nothing that was stored is changed. One process writes a directory at a time (a lock that the system
releases when the process dies); any number may read. SQLite in write-ahead mode by default. In a database by
SQLAlchemy URL many processes may share one run (``begin(..., share=True)``): each plays what it has claimed, and the
claims of those that died are free again (`arena.store.sharing`).
"""

from arena.store.opening import DATABASE, is_url
from arena.store.places import Store
from arena.store.runs import RunHandle

__all__ = ["DATABASE", "RunHandle", "Store", "is_url"]
