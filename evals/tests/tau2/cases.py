"""Writes the cases of this check, with the verdicts of tau2's own evaluators, as JSON lines.

    cases.py airline|retail > FILE

Each task is repeated with its own actions ("gold") and with variants of them: an action left
out, an argument changed, and so on. The variants do not depend on the run: the random choices
have a fixed seed.

A line has the task, the kind of the variant, what it changes, the calls and the answer of the
agent, the gold actions and the information to communicate of the task, and the verdicts:

- `database` is the database check of `EnvironmentEvaluator`, which calls the tools again and
  compares hashes of the whole database.
- `actions` is a list with one verdict of `ActionEvaluator` for each gold action.
- `communicate` is a list with one verdict of `CommunicateEvaluator` for each information.
- `reward` is the product of the rewards in the task's `reward_basis`, as in
  `tau2.evaluator.evaluator`, which cannot be imported without LiteLLM.
"""

import json
import math
import random
import sys
from collections import Counter
from copy import deepcopy
from functools import partial

from domains import ToolCall, environment, tasks

from tau2.data_model.message import AssistantMessage, UserMessage
from tau2.data_model.tasks import RewardType
from tau2.environment.toolkit import ToolType
from tau2.evaluator.evaluator_action import ActionEvaluator
from tau2.evaluator.evaluator_communicate import CommunicateEvaluator
from tau2.evaluator.evaluator_env import EnvironmentEvaluator


def main(domain: str) -> None:
    toolkit = environment(domain).tools
    at_start = toolkit.get_db_hash()
    database = toolkit.db.model_dump()
    all_tasks = tasks(domain)
    writes = [
        call
        for task in all_tasks
        for call in gold_calls(task)
        if toolkit.tool_type(call["name"]) == ToolType.WRITE
    ]
    counts = Counter()
    for task in all_tasks:
        by_environment = {}
        for kind, what, calls, answer in variants(domain, toolkit, database, task, writes):
            verdict = judge(domain, task, calls, answer, by_environment)
            counts[kind, verdict["database"], verdict["reward"]] += 1
            line = {
                "domain": domain,
                "task": task.id,
                "kind": kind,
                "what": what,
                "calls": calls,
                "answer": answer,
                "gold": gold_calls(task),
                "communicate": task.evaluation_criteria.communicate_info or [],
                "verdict": verdict,
            }
            print(json.dumps(line), flush=True)
    # No run has changed the database of another.
    assert environment(domain).get_db_hash() == at_start
    for (kind, db, reward), count in sorted(counts.items()):
        print(f"{domain}: {kind}: database {db}, reward {reward}: {count}", file=sys.stderr)


def gold_calls(task) -> list[dict]:
    actions = task.evaluation_criteria.actions or []
    # The check would need more for these, and no task of the two domains has them.
    assert all(it.requestor == "assistant" and it.compare_args is None for it in actions)
    assert task.initial_state is None and not task.evaluation_criteria.env_assertions
    return [{"name": it.name, "arguments": it.arguments} for it in actions]


def judge(domain: str, task, calls: list[dict], answer: str, known: dict) -> dict:
    """Returns the verdicts. `known` has the trajectories and environment verdicts of the task."""
    key = json.dumps(calls)
    if key not in known:
        messages = messages_of(domain, calls)
        known[key] = messages, EnvironmentEvaluator.calculate_reward(
            partial(environment, domain), task, messages
        )
    messages, by_environment = known[key]
    trajectory = [*messages, AssistantMessage(role="assistant", content=answer)]
    by_actions = ActionEvaluator.calculate_reward(task, trajectory)
    by_communication = CommunicateEvaluator.calculate_reward(task, trajectory)
    rewards = {
        RewardType.DB: by_environment.reward,
        RewardType.ACTION: by_actions.reward,
        RewardType.COMMUNICATE: by_communication.reward,
    }
    return {
        "database": by_environment.db_check.db_match,
        "actions": [check.action_match for check in by_actions.action_checks or []],
        "communicate": [check.met for check in by_communication.communicate_checks or []],
        "reward": math.prod(rewards[basis] for basis in task.evaluation_criteria.reward_basis),
    }


def messages_of(domain: str, calls: list[dict]) -> list:
    """Returns the messages of a run before its answer, which does not change the database.

    They have the results of the calls, because the evaluator compares them with its own."""
    world = environment(domain)
    messages = [UserMessage(role="user", content="Please help me.")]
    for number, call in enumerate(calls):
        call = ToolCall(id=str(number), name=call["name"], arguments=deepcopy(call["arguments"]))
        messages.append(AssistantMessage(role="assistant", tool_calls=[call]))
        messages.append(world.get_response(call))
    return messages


def variants(domain, toolkit, database, task, writes):
    """Yields the variants of a task: kind, what was changed, calls, answer.

    Each call that writes is left out once and changed twice, and a few of those that read.
    """
    rng = random.Random(f"{domain} {task.id}")
    gold = gold_calls(task)
    facts = task.evaluation_criteria.communicate_info or []
    answer = answer_with(facts)

    def is_write(at: int) -> bool:
        return toolkit.tool_type(gold[at]["name"]) == ToolType.WRITE

    # Calls that write first, and then the others in a random order.
    places = sorted(range(len(gold)), key=lambda at: (not is_write(at), rng.random()))
    count_of_writes = sum(map(is_write, places))

    yield "gold", "", gold, answer
    if len(gold) > 1:
        yield "no calls", "", [], answer
    for at in sorted(places[: count_of_writes + 2]):
        yield "call left out", f"{at} {gold[at]['name']}", without(gold, at), answer
    for at in sorted(places[: count_of_writes + 1]):
        changes = list(changed_values(domain, database, gold[at]))
        for what, other in rng.sample(changes, min(len(changes), 2 if is_write(at) else 1)):
            yield "argument changed", f"{at} {what}", replaced(gold, at, other), answer
    for at in sorted(places[:2]):
        what, other = rng.choice(list(broken_calls(gold[at])))
        yield "schema broken", f"{at} {what}", replaced(gold, at, other), answer
    if len(gold) > 1:
        yield "calls shuffled", "", rng.sample(gold, len(gold)), answer
    if gold:
        at = rng.randrange(len(gold))
        yield "call twice", f"{at}", [*gold[: at + 1], *gold[at:]], answer
    failing = rng.choice(
        [
            {"name": "get_user_details", "arguments": {"user_id": "nobody"}},
            {"name": "no_such_tool", "arguments": {}},
        ]
    )
    yield "failing call first", failing["name"], [failing, *gold], answer
    other = rng.choice(writes)
    yield "call of another task", other["name"], [*gold, other], answer
    for at, fact in enumerate(facts):
        yield "fact left out", fact, gold, answer_with(without(facts, at))
    if facts:
        yield "facts in capitals", "", gold, answer.upper()
        with_commas = [f"{int(it):,}" if it.isdigit() else it for it in facts]
        yield "facts with commas", "", gold, answer_with(with_commas)


def answer_with(facts: list[str]) -> str:
    return "Here is what you asked for: " + "; ".join(facts) + "." if facts else "I am ready."


def without(items: list, at: int) -> list:
    return [*items[:at], *items[at + 1 :]]


def replaced(items: list, at: int, item) -> list:
    return [*items[:at], item, *items[at + 1 :]]


def changed_values(domain: str, database: dict, call: dict):
    """Yields a call with one other value, of the right type, for each value that it has."""
    owner = user_of(database, call["arguments"])

    def others(options, value) -> list:
        return [it for it in options if it != value][:1]

    def other_values(name: str, value) -> list:
        match name, value:
            case "order_id", _:
                return others(owner.get("orders", []), value) or ["#W0000000"]
            case "reservation_id", _:
                return others(owner.get("reservations", []), value) or ["AAAAAA"]
            case "payment_method_id" | "payment_id", _:
                return others(owner.get("payment_methods", {}), value) or ["gift_card_0"]
            case "user_id", _:
                return others(database["users"], value)
            case "product_id", _:
                return others(database["products"], value)
            case "flight_number", _:
                return others(database["flights"], value)
            case "item_ids", list():
                order = database["orders"].get(call["arguments"]["order_id"], {"items": []})
                spare = [it["item_id"] for it in order["items"] if it["item_id"] not in value]
                return [[it, *value[1:]] for it in spare[:1]] or [[*value, value[0]]]
            case "new_item_ids", list():
                return [[other_item(database, value[0]), *value[1:]]]
            case "reason", _:
                return others(["no longer needed", "ordered by mistake"], value)
            case "cabin", _:
                return others(["business", "economy", "basic_economy"], value)
            case "insurance", _:
                return others(["yes", "no"], value)
            case "flight_type", _:
                return others(["one_way", "round_trip"], value)
            case "date", str():
                return [f"{value[:-2]}{int(value[-2:]) % 28 + 1:02}"]
            case _, bool():
                return [not value]
            case _, int():
                return [value + 1]
            case _, float():
                return [value + 0.01]
            case _, str():
                return [value + "2"]
            case _, list() if value:
                return [value[:-1]]
        return []

    def places(value, path=()):
        """Yields the path of each value inside `value`."""
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield (*path, key), item
            if isinstance(item, (dict, list)):
                yield from places(item, (*path, key))

    for path, value in places(call["arguments"]):
        names = [it for it in path if isinstance(it, str)]
        if isinstance(path[-1], int):
            continue
        for other in other_values(names[-1], value):
            yield f"{call['name']} {path_text(path)}", with_value(call, path, other)
    # One item fewer on both sides of an exchange.
    arguments = call["arguments"]
    if len(arguments.get("item_ids", [])) > 1:
        fewer = with_value(call, ("item_ids",), arguments["item_ids"][:-1])
        if "new_item_ids" in arguments:
            fewer = with_value(fewer, ("new_item_ids",), arguments["new_item_ids"][:-1])
        yield f"{call['name']} one item fewer", fewer


def broken_calls(call: dict):
    """Yields the call with arguments that do not fit the tool's schema."""
    name, arguments = call["name"], call["arguments"]
    for key, value in arguments.items():
        path = (key,)
        if isinstance(value, bool):
            continue
        if isinstance(value, int):
            yield f"{name} {key} as text", with_value(call, path, str(value))
            yield f"{name} {key} as a fraction", with_value(call, path, float(value))
        if isinstance(value, str) and value.isdigit():
            yield f"{name} {key} as a number", with_value(call, path, int(value))
        if isinstance(value, list) and len(value) == 1:
            yield f"{name} {key} without its list", with_value(call, path, value[0])
        if isinstance(value, list):
            yield f"{name} {key} as text", with_value(call, path, json.dumps(value))
        yield f"{name} {key} as null", with_value(call, path, None)
        fewer = {it: arguments[it] for it in arguments if it != key}
        yield f"{name} without {key}", {"name": name, "arguments": fewer}
    yield f"{name} with an unknown argument", with_value(call, ("note",), "as asked")


def user_of(database: dict, arguments: dict) -> dict:
    """Returns the user whom a call is about."""
    order = database.get("orders", {}).get(arguments.get("order_id"), {})
    reservation = database.get("reservations", {}).get(arguments.get("reservation_id"), {})
    ids = [arguments.get("user_id"), order.get("user_id"), reservation.get("user_id")]
    return next((database["users"][it] for it in ids if it in database["users"]), {})


def other_item(database: dict, item: str) -> str:
    """Returns another item of the same product that can be ordered."""
    for product in database["products"].values():
        if item in product["variants"]:
            for other, variant in product["variants"].items():
                if other != item and variant["available"]:
                    return other
    return "0000000000"


def with_value(call: dict, path: tuple, value) -> dict:
    call = deepcopy(call)
    place = call["arguments"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return call


def path_text(path: tuple) -> str:
    return ".".join(str(it) for it in path)


if __name__ == "__main__":
    main(sys.argv[1])
