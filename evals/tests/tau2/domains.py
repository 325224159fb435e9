"""The two tau2 domains of this check, with copies of their databases that are cheap to make."""

import gc
import sys

from loguru import logger

# tau2 logs each tool call at several levels.
logger.remove()
logger.add(sys.stderr, level="ERROR")

from tau2.data_model.message import ToolCall
from tau2.domains.airline import environment as airline
from tau2.domains.retail import environment as retail

__all__ = ["DOMAINS", "ToolCall", "environment", "tasks"]

DOMAINS = {"airline": airline, "retail": retail}
_databases = {}

# A database is tens of thousands of objects without cycles. Looking for cycles in them takes more
# time than everything else here.
gc.disable()


def environment(domain: str, solo_mode: bool = False):
    """Returns tau2's environment with its own copy of the database.

    tau2 reads the JSON file for each environment. Here it is read once.
    """
    if domain not in _databases:
        database = DOMAINS[domain].get_environment().tools.db
        _databases[domain] = type(database), database.model_dump()
    kind, content = _databases[domain]
    return DOMAINS[domain].get_environment(kind.model_validate(content), solo_mode)


def tasks(domain: str):
    """Returns the tasks of tau2's default split: 50 for airline, 114 for retail."""
    return DOMAINS[domain].get_tasks()
