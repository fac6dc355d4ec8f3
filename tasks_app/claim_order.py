"""Which waiting task is claimed next, so that no client starves another and nothing waits for ever.

Priority comes first, then the client that was served longest ago, then age. A task rises by one priority each time it
has waited for ``STEP``. Of a client that runs as much as it may nothing is claimed, and nobody waits behind it.

There is one walk for each priority and age: along the clients in the order of their turns, to the first that has such a
task, which an index knows. How many tasks wait makes no difference.
"""

from datetime import timedelta
from typing import Any, Protocol

from django.db import connection
from django.utils import timezone

from lmsp_site.ids import first_id_at
from tasks_app.states import CLAIMED, Status


class _Waiting(Protocol):
    """What is asked of a task that waits."""

    @property
    def id(self) -> str: ...
    @property
    def client_id(self) -> str: ...
    @property
    def priority(self) -> int: ...


STEP = timedelta(minutes=5)
"""For how long a task waits until it counts as one of the next higher priority."""

# No task is ever to wait for longer: one that seems to was made before the clock was set back.
LONGEST_DELAY = timedelta(minutes=10)

_LOWEST = 2
# By the priority that they count as: priorities, and for how many steps their tasks have waited.
_WALKS = [(level, level + steps, steps) for level in range(_LOWEST + 1) for steps in range(_LOWEST + 1 - level)]
# Greater than every id.
_ANY_AGE = "task_~"

# The planner would guess, and where it guesses wrong it goes through all that wait, once for each client.
_OF_CLIENT = "tasks t INDEXED BY waiting_tasks_of_client"
_BY_STATE = "tasks t INDEXED BY unfinished_by_claim_order"
_QUEUED = f"t.status = '{Status.QUEUED}' AND t.finished_at IS NULL"
_DUE = (
    "(t.claimable_at IS NULL OR t.claimable_at <= %(now)s OR t.claimable_at > %(never)s)"
    " AND (t.expires_at IS NULL OR t.expires_at > %(now)s)"
)
_CLAIMED = "t.status IN ({}) AND t.finished_at IS NULL".format(", ".join(f"'{status}'" for status in sorted(CLAIMED)))
_LIMIT = "coalesce(clients.max_running, service_config.max_running)"
# What is claimed is little, whoever has it; where nobody has a limit it is not even looked at.
_AT_LIMIT = f"""
    SELECT clients.id FROM {_BY_STATE}
    CROSS JOIN clients ON clients.id = t.client_id CROSS JOIN service_config
    WHERE (EXISTS (SELECT 1 FROM clients WHERE max_running > 0)
            OR EXISTS (SELECT 1 FROM service_config WHERE max_running > 0))
        AND {_CLAIMED} AND {_LIMIT} > 0
    GROUP BY clients.id HAVING count(*) >= {_LIMIT}
"""  # noqa: S608
_IS_AT_LIMIT = f"""
    SELECT 1 FROM clients CROSS JOIN service_config
    WHERE clients.id = %s AND {_LIMIT} > 0
        AND (SELECT count(*) FROM {_BY_STATE} WHERE {_CLAIMED} AND t.client_id = clients.id) >= {_LIMIT}
"""  # noqa: S608
_WALK = f"""
    SELECT * FROM (
        SELECT %(level)s AS level, clients.served AS served, clients.id AS client, (
            SELECT t.id FROM {_OF_CLIENT}
            WHERE t.client_id = clients.id AND {_QUEUED} AND t.priority = %(priority)s AND t.id < %(bound)s AND {_DUE}
            ORDER BY t.id LIMIT 1
        ) AS task
        FROM clients
        WHERE EXISTS (SELECT 1 FROM tasks t WHERE {_QUEUED} AND t.priority = %(priority)s AND t.id < %(bound)s)
            AND task IS NOT NULL AND clients.id NOT IN at_limit
        ORDER BY clients.served, clients.id LIMIT 1
    )
"""  # noqa: S608
_NEXT = (
    f"WITH at_limit AS MATERIALIZED ({_AT_LIMIT}) SELECT task FROM ({{}}) ORDER BY level, served, client, task LIMIT 1"  # noqa: S608
)
_COUNT = f"""
    SELECT sum((SELECT count(*) FROM (
        SELECT 1 FROM {_OF_CLIENT} WHERE t.client_id = clients.id AND {_QUEUED} AND {_DUE} LIMIT %(most)s
    )))
    FROM clients
    WHERE EXISTS (SELECT 1 FROM tasks t WHERE {_QUEUED}) AND clients.id NOT IN ({_AT_LIMIT})
"""  # noqa: S608
# What waits with a higher priority goes first; of its own client's tasks of the same priority those that are older, and
# of every other client's as many as of those, or one more where it is that client's turn before.
_BEFORE = f"""
    WITH own AS MATERIALIZED (
        SELECT count(*) AS older FROM (
            SELECT 1 FROM {_OF_CLIENT}
            WHERE t.client_id = %(client)s AND {_QUEUED} AND t.priority = %(priority)s AND t.id < %(id)s LIMIT %(most)s
        )
    )
    SELECT own.older
        + (SELECT count(*) FROM (SELECT 1 FROM tasks t WHERE {_QUEUED} AND t.priority < %(priority)s LIMIT %(most)s))
        + (
            SELECT coalesce(sum(min(
                (SELECT count(*) FROM (
                    SELECT 1 FROM {_OF_CLIENT}
                    WHERE t.client_id = others.id AND {_QUEUED} AND t.priority = %(priority)s
                    LIMIT (SELECT older FROM own) + 1
                )),
                own.older + ((coalesce(others.served, 0), others.id) < (coalesce(me.served, 0), me.id))
            )), 0)
            FROM clients me JOIN clients others ON others.id != me.id
            WHERE me.id = %(client)s
        )
    FROM own
"""  # noqa: S608
_SERVED = "UPDATE clients SET served = (SELECT coalesce(max(served), 0) + 1 FROM clients) WHERE id = %s"


def statement() -> tuple[str, dict[str, Any]]:
    """Return the query for the task to be claimed next, and its parameters."""
    now = timezone.now()
    parameters = _times(now)
    walks = []
    for number, (level, priority, steps) in enumerate(_WALKS):
        names = {"level": level, "priority": priority, "bound": f"%(bound{number})s"}
        parameters[f"bound{number}"] = first_id_at("task", (now - steps * STEP).timestamp()) if steps else _ANY_AGE
        walks.append(_named(_WALK, names))
    return _NEXT.format(" UNION ALL ".join(walks)), parameters


def next_id() -> str | None:
    """Return the id of the waiting task that a free worker should take; ``None`` where there is none."""
    with connection.cursor() as cursor:
        cursor.execute(*statement())
        row = cursor.fetchone()
    return row[0] if row else None


def count(most: int) -> int:
    """Return how many waiting tasks free workers would find, counted up to `most`."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, {**_times(timezone.now()), "most": most})
        found: int | None = cursor.fetchone()[0]
    return min(found or 0, most)


def held_back() -> list[str]:
    """Return the ids of the clients that run as many tasks as they may."""
    with connection.cursor() as cursor:
        cursor.execute(_AT_LIMIT)
        return [client_id for (client_id,) in cursor.fetchall()]


def is_held_back(client_id: str) -> bool:
    """Tell whether a client runs as many tasks as it may; in the transaction of a claim nobody can be faster."""
    with connection.cursor() as cursor:
        cursor.execute(_IS_AT_LIMIT, [client_id])
        return cursor.fetchone() is not None


def note_served(client_id: str) -> None:
    """Put a client behind all others; part of the transaction that claims a task of its."""
    with connection.cursor() as cursor:
        cursor.execute(_SERVED, [client_id])


def position(waiting: _Waiting, most: int | None = None) -> int | None:
    """Return the place of a waiting task, from 1: how many are claimed until it is, if no other comes.

    It knows nothing of limits, nor of what rises with age, so that a task can be sooner than it says. The number of
    clients makes it slower, and that of one's own tasks and of those with a higher priority; that of others does not.

    Args:
        waiting: a queued task.
        most: where more than so many are before it, nobody needs to know how many: ``None``.
    """
    parameters: dict[str, Any] = {
        "client": waiting.client_id,
        "priority": waiting.priority,
        "id": waiting.id,
        "most": most or -1,
    }
    with connection.cursor() as cursor:
        before: int = cursor.execute(_BEFORE, parameters).fetchone()[0]
    return None if most and before >= most else before + 1


def _times(now: Any) -> dict[str, Any]:
    adapt = connection.ops.adapt_datetimefield_value
    return {"now": adapt(now), "never": adapt(now + LONGEST_DELAY)}


def _named(text: str, names: dict[str, Any]) -> str:
    for name, value in names.items():
        text = text.replace(f"%({name})s", str(value))
    return text
