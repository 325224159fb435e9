"""Verdicts of BFCL's own checker on right and on mutated answers.

Reads the questions and the possible answers of the installed package `bfcl-eval`. For each entry it
builds right answers from the possible answers, mutates them, and asks BFCL's own code for the
verdict on each. It writes one line of JSON for each entry:

    {"entry", "category", "tools", "expected", "variants"}

- `tools`: name and JSON Schema of each function, names as an API takes them (`.` is `_`).
- `expected`: the calls with BFCL's possible answers, as in its files.
- `variants`: each with its kind, the calls as the model made them (`calls`), the same with
  arguments in Java or JavaScript syntax parsed by BFCL (`parsed`), and BFCL's verdict: `valid`, or
  `error` with the type of its error. `valid` is null if BFCL's checker raised an exception.
  `reordered` is true if BFCL accepts the same calls in another order, which has no meaning there.

Mutations depend only on the name of the entry and the kind, so two runs write the same bytes.

    verdicts.py OUT.jsonl
"""

import copy
import importlib.metadata
import json
import random
import re
import sys
import types
from pathlib import Path

# BFCL's table of models imports the client of every provider. Its checker reads one field of it:
# whether the model's API takes no `.` in names.
MODEL = "a model whose API takes no dots"


def stand_in(name, **fields):
    """Puts a module in the place of one that the checker imports and does not call here."""
    module = types.ModuleType(name)
    module.__dict__.update(fields)
    sys.modules[name] = module


stand_in(
    "bfcl_eval.constants.model_config",
    MODEL_CONFIG_MAPPING={MODEL: types.SimpleNamespace(underscore_to_dot=True)},
)
stand_in("bfcl_eval.eval_checker.eval_runner_helper")
stand_in(
    "bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker",
    multi_turn_checker=None,
    multi_turn_irrelevance_checker=None,
)
stand_in("bfcl_eval.model_handler.base_handler", BaseHandler=object)
stand_in("bfcl_eval.model_handler.utils", parse_prompt_variation_params=None)

from bfcl_eval.constants.enums import Language, ReturnFormat  # noqa: E402
from bfcl_eval.constants.type_mappings import JAVA_TYPE_CONVERSION, JS_TYPE_CONVERSION  # noqa: E402
from bfcl_eval.eval_checker import eval_runner  # noqa: E402
from bfcl_eval.eval_checker.ast_eval import ast_checker  # noqa: E402
from bfcl_eval.eval_checker.ast_eval.type_convertor.java_type_converter import (  # noqa: E402
    java_type_converter,
)
from bfcl_eval.eval_checker.ast_eval.type_convertor.js_type_converter import (  # noqa: E402
    js_type_converter,
)
from bfcl_eval.utils import load_file  # noqa: E402
from bfcl_eval.constants.eval_config import POSSIBLE_ANSWER_PATH, PROMPT_PATH  # noqa: E402

AST = [
    "simple_python",
    "simple_java",
    "simple_javascript",
    "multiple",
    "parallel",
    "parallel_multiple",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
]
RELEVANCE = ["irrelevance", "live_irrelevance", "live_relevance"]

# How often a mutation is tried in one entry, each at another place.
PLACES = 2

NESTED = ("Array", "ArrayList", "array")


def language_of(category):
    if category == "simple_java":
        return Language.JAVA
    if category == "simple_javascript":
        return Language.JAVASCRIPT
    return Language.PYTHON


# --- The functions as tools ---

KINDS = {
    "integer": "integer",
    "byte": "integer",
    "short": "integer",
    "long": "integer",
    "Bigint": "integer",
    "float": "number",
    "double": "number",
    "number": "number",
    "boolean": "boolean",
    "Boolean": "boolean",
    "string": "string",
    "String": "string",
    "char": "string",
    "array": "array",
    "tuple": "array",
    "Array": "array",
    "ArrayList": "array",
    "dict": "object",
    "HashMap": "object",
}


def json_schema(schema):
    """BFCL's notation as JSON Schema. A type without a counterpart, such as `any`, is no rule."""
    out = {}
    kind = KINDS.get(schema.get("type"))
    if kind:
        out["type"] = kind
    for keyword in ("default", "enum"):
        if keyword in schema:
            out[keyword] = schema[keyword]
    if isinstance(schema.get("properties"), dict):
        out["properties"] = {k: json_schema(v) for k, v in schema["properties"].items()}
    if "required" in schema:
        known = schema.get("properties") or {}
        out["required"] = [name for name in schema["required"] if name in known]
    if isinstance(schema.get("items"), dict):
        out["items"] = json_schema(schema["items"])
    return out


def api_name(name):
    return name.replace(".", "_")


# --- Arguments in Java and JavaScript syntax ---


def converted(language, schema, source):
    """What BFCL's converter reads from an argument in source syntax."""
    if language == Language.PYTHON or not isinstance(source, str):
        return source
    convert = java_type_converter if language == Language.JAVA else js_type_converter
    kind = schema["type"]
    if kind in NESTED:
        return convert(source, kind, schema["items"]["type"])
    return convert(source, kind)


def literal(value, quote):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"{quote}{value}{quote}"
    if isinstance(value, list):
        return "[" + ", ".join(literal(item, quote) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{k}": {literal(v, quote)}' for k, v in value.items()) + "}"
    return "null" if value is None else str(value)


def in_java(kind, nested, value):
    """Notations of a value in Java; BFCL's converter reads not all of them back."""
    if isinstance(value, list):
        for quote in ('"', "", "'"):
            items = [next(in_java(nested, None, item), "") for item in value]
            if quote:
                items = [
                    literal(item, quote) if isinstance(item, str) else text
                    for item, text in zip(value, items)
                ]
            joined = ", ".join(items)
            if kind == "ArrayList":
                yield f"new ArrayList<>(Arrays.asList({joined}))" if value else "new ArrayList<>()"
            else:
                yield f"new Object[]{{{joined}}}"
    elif isinstance(value, dict):
        puts = " ".join(f'put("{k}", {literal(v, chr(34))});' for k, v in value.items())
        yield f"new HashMap<String, Object>() {{{{ {puts} }}}}"
    elif isinstance(value, bool) or value is None:
        yield literal(value, '"')
    elif kind == "long":
        yield f"{value}L"
    elif kind == "float":
        yield f"{value}f"
    else:
        yield str(value)


def in_javascript(kind, value):
    if kind == "Bigint" and not isinstance(value, str):
        yield f"{value}n"
    elif isinstance(value, (list, dict)):
        yield literal(value, '"')
        yield literal(value, "'")
        yield literal(value, "")
    elif isinstance(value, (bool, type(None))):
        yield literal(value, '"')
    else:
        yield str(value)


def in_source(language, schema, value):
    """A value as a model writes it: in the syntax of the language where that is not Python."""
    if language == Language.PYTHON:
        return value
    kind = schema["type"]
    nested = schema["items"]["type"] if kind in NESTED else None
    notations = in_java(kind, nested, value) if language == Language.JAVA else in_javascript(kind, value)
    notations = list(notations)
    for notation in notations:
        if converted(language, schema, notation) == value:
            return notation
    return notations[0]


# --- Right answers ---


def one_of(values, pick):
    """One of the possible values; a dict has possible values for each of its keys."""
    value = pick([value for value in values if value != ""])
    return filled(value, pick)


def filled(value, pick):
    if isinstance(value, dict):
        out = {}
        for key, values in value.items():
            if not isinstance(values, list):
                out[key] = values
            elif any(v != "" for v in values):
                out[key] = one_of(values, pick)
        return out
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return [filled(item, pick) for item in value]
    return copy.deepcopy(value)


def right_calls(expected, pick, leave_out=lambda: False):
    calls = []
    for call in expected:
        ((name, possible),) = call.items()
        arguments = {}
        for param, values in possible.items():
            if all(value == "" for value in values):
                continue
            if "" in values and leave_out():
                continue
            arguments[param] = one_of(values, pick)
        calls.append({name: arguments})
    return calls


# --- Mutations: each yields changed copies of the right calls ---


def places(value, path=()):
    """Paths of all values inside a value, its own first."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, path + (key,))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, path + (index,))


def at(value, path):
    for step in path:
        value = value[step]
    return value


def with_value(calls, place, value):
    calls = copy.deepcopy(calls)
    at(calls, place[:-1])[place[-1]] = value
    return calls


def without(calls, place):
    calls = copy.deepcopy(calls)
    del at(calls, place[:-1])[place[-1]]
    return calls


def arguments_of(calls):
    """Places of all arguments: index of the call, its name, the argument."""
    for index, call in enumerate(calls):
        ((name, arguments),) = call.items()
        for param in arguments:
            yield (index, name, param)


def values_of(calls, nested):
    """Places of the arguments, or of the values inside them."""
    for place in arguments_of(calls):
        for path in places(at(calls, place)):
            if bool(path) == nested:
                yield place + path


def is_int(value):
    return isinstance(value, int) and not isinstance(value, bool)


def whole(value):
    return isinstance(value, float) and value.is_integer()


def changed(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if isinstance(value, str):
        return value + " other"
    if isinstance(value, list):
        return value[:-1] if value else ["other"]
    if isinstance(value, dict):
        return {**value, "another_key": "other"}
    return "other"


def other_type(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return json.dumps(value)


def swapped_case(text):
    return text.swapcase()


def punctuated(text):
    return "-".join(text.split(" ")) + "."


def spaced(text):
    middle = len(text) // 2
    return f" {text[:middle]} , {text[middle:]} "


# A value at one place is replaced: (kind, applies to the value, new value).
REPLACED = [
    ("value changed", lambda v: True, changed),
    ("type changed", lambda v: v is not None, other_type),
    ("integer as float", is_int, float),
    ("float as integer", whole, int),
    ("number as boolean", lambda v: is_int(v) and v in (0, 1), bool),
    ("boolean as number", lambda v: isinstance(v, bool), int),
    ("null", lambda v: v is not None, lambda v: None),
    ("text empty", lambda v: v != "", lambda v: ""),
    ("list empty", lambda v: v != [], lambda v: []),
    ("text in other case", lambda v: isinstance(v, str) and v.swapcase() != v, swapped_case),
    ("text with other punctuation", lambda v: isinstance(v, str) and v, punctuated),
    ("text with other spaces", lambda v: isinstance(v, str) and len(v) > 1, spaced),
    ("text with other quotes", lambda v: isinstance(v, str) and "'" in v, lambda v: v.replace("'", '"')),
    ("text with a mark", lambda v: isinstance(v, str), lambda v: v + "!"),
    ("list reversed", lambda v: isinstance(v, list) and v[::-1] != v, lambda v: v[::-1]),
    ("list with an item twice", lambda v: isinstance(v, list) and v, lambda v: v + v[-1:]),
    ("list with an item left out", lambda v: isinstance(v, list) and v, lambda v: v[1:]),
    ("dict with a key more", lambda v: isinstance(v, dict), lambda v: {**v, "extra_key": 1}),
    ("dict with a key less", lambda v: isinstance(v, dict) and v, lambda v: dict(list(v.items())[1:])),
    ("dict in another order", lambda v: isinstance(v, dict) and len(v) > 1, lambda v: dict(list(v.items())[::-1])),
]


def replaced(calls, rng):
    for nested in (False, True):
        for kind, applies, change in REPLACED:
            found = [p for p in values_of(calls, nested) if applies(at(calls, p))]
            for place in rng(kind, nested).sample(found, min(PLACES, len(found))):
                value = change(copy.deepcopy(at(calls, place)))
                yield f"{kind}, nested" if nested else kind, with_value(calls, place, value)
                # Null may stand for a value that is left out.
                if kind == "null" and isinstance(at(calls, place[:-1]), dict):
                    yield "left out, not null", without(calls, place)


def left_out(calls, functions, expected, rng):
    """An argument is left out: a required one, one that may be left out, and one in between."""
    found = {}
    for place in arguments_of(calls):
        index, name, param = place
        ((_, possible),) = expected[index].items()
        if param in functions[name]["parameters"].get("required", []):
            kind = "required argument left out"
        elif "" in possible[param]:
            kind = "optional argument left out"
        elif "default" in functions[name]["parameters"]["properties"].get(param, {}):
            kind = "argument with a default left out"
        else:
            kind = "argument without a default left out"
        found.setdefault(kind, []).append(place)
    for kind, places_ in found.items():
        for place in rng(kind).sample(places_, min(PLACES, len(places_))):
            yield kind, without(calls, place)


def added(calls, functions, rng):
    for index, call in enumerate(calls):
        ((name, arguments),) = call.items()
        yield "argument added", with_value(calls, (index, name, "another_argument"), 1)
        known = functions[name]["parameters"]["properties"]
        others = [param for param in known if param not in arguments]
        for param in rng("known", index).sample(others, min(PLACES, len(others))):
            schema = known[param]
            if "default" in schema:
                value = copy.deepcopy(schema["default"])
                yield "default written out", with_value(calls, (index, name, param), value)
            yield "optional argument added", with_value(calls, (index, name, param), "something")


def of_whole_calls(calls, functions, rng):
    yield "no call", []
    index = rng("call").randrange(len(calls))
    ((name, arguments),) = calls[index].items()
    yield "wrong name", calls[:index] + [{f"{name}_other": arguments}] + calls[index + 1 :]
    others = [other for other in functions if other != name]
    if others:
        other = rng("name").choice(others)
        yield "name of another function", calls[:index] + [{other: arguments}] + calls[index + 1 :]
    yield "a call twice", calls + [calls[index]]
    yield "a call more", calls + [{"another_function": {}}]
    if len(calls) > 1:
        yield "a call left out", calls[:index] + calls[index + 1 :]
        yield "calls reversed", calls[::-1]
        shuffled = calls[:]
        rng("order").shuffle(shuffled)
        yield "calls in another order", shuffled
        twice = calls[:]
        twice[index] = calls[index - 1]
        yield "a call twice, another left out", twice
        # Two calls exchange one argument.
        ((first, one),), ((second, two),) = calls[index].items(), calls[index - 1].items()
        shared = [param for param in one if param in two and one[param] != two[param]]
        if shared:
            param = rng("exchange").choice(shared)
            mixed = with_value(calls, (index, first, param), two[param])
            yield "calls with an argument exchanged", with_value(
                mixed, ((index - 1) % len(calls), second, param), one[param]
            )


def variants(entry, expected, functions):
    """All answers to an entry, right ones first."""

    def rng(*seed):
        return random.Random("/".join(map(str, (entry, *seed))))

    first = right_calls(expected, lambda values: values[0])
    yield "right", first
    yield "right, last values", right_calls(expected, lambda values: values[-1])
    yield "right, least", right_calls(expected, lambda values: values[0], lambda: True)
    for number in range(4):
        some = rng("right", number)
        yield "right, any values", right_calls(expected, some.choice, lambda: some.random() < 0.5)
        if len(expected) > 1:
            calls = right_calls(expected, some.choice, lambda: some.random() < 0.5)
            some.shuffle(calls)
            yield "right, any values and order", calls
    yield from replaced(first, rng)
    yield from left_out(first, functions, expected, rng)
    yield from added(right_calls(expected, lambda values: values[0], lambda: True), functions, rng)
    yield from of_whole_calls(first, functions, rng)


# --- Verdicts ---


class Answered:
    """A model that has made its calls."""

    def __init__(self, calls):
        self.calls = calls

    def decode_ast(self, *_, **__):
        return self.calls


def verdict(judge):
    try:
        result = judge()
    except Exception as error:  # The checker has no rule for this answer.
        return {"valid": None, "error": f"{type(error).__name__}: {error}"}
    if result["valid"]:
        return {"valid": True}
    return {"valid": False, "error": result["error_type"]}


def paired(fits):
    """A column of its own for each row, in which it fits; None if there is no such choice."""
    row_of = {}

    def place(row, tried):
        for column, is_fit in enumerate(fits[row]):
            if is_fit and column not in tried:
                tried.add(column)
                if column not in row_of or place(row_of[column], tried):
                    row_of[column] = row
                    return True
        return False

    if not all(place(row, set()) for row in range(len(fits))):
        return None
    return sorted(row_of, key=row_of.get)


def to_api(calls):
    return [{api_name(name): arguments for name, arguments in call.items()} for call in calls]


def as_list(calls):
    return [{"tool": name, "arguments": arguments} for call in calls for name, arguments in call.items()]


def ast_entry(category, question, expected):
    language = language_of(category)
    functions = {function["name"]: function for function in question["function"]}

    def schema_of(name, param):
        return functions.get(name, {"parameters": {"properties": {}}})["parameters"]["properties"].get(param)

    def each_argument(calls, convert):
        def one(name, param, value):
            schema = schema_of(name, param)
            return value if schema is None else convert(schema, value)

        return [
            {name: {param: one(name, param, value) for param, value in arguments.items()}}
            for call in calls
            for name, arguments in call.items()
        ]

    def parsed(calls):
        """The arguments as BFCL's converter reads them; null if it raises an exception."""
        try:
            return each_argument(calls, lambda schema, value: converted(language, schema, value))
        except Exception:
            return None

    def asked(written):
        return verdict(
            lambda: eval_runner._evaluate_single_ast_entry(
                Answered(copy.deepcopy(written)),
                question["id"],
                None,
                copy.deepcopy(expected),
                copy.deepcopy(question),
                MODEL,
                category,
                language,
                ReturnFormat.PYTHON,
            )
        )

    def accepts(answer, call):
        (name,) = answer
        checker = ast_checker.simple_function_checker
        return checker(functions[name], copy.deepcopy(call), answer, language, MODEL)["valid"]

    def is_right_in_another_order(written):
        fits = [[accepts(answer, call) for call in written] for answer in expected]
        order = paired(fits)
        return order is not None and asked([written[at] for at in order])["valid"] is True

    def judged(kind, calls):
        written = to_api(calls)
        result = asked(written)
        if result.get("error", "").endswith(":cannot_find_match") and is_right_in_another_order(written):
            result["reordered"] = True
        read = parsed(calls)
        return {
            "kind": kind,
            "calls": as_list(written),
            **({"parsed": read and as_list(to_api(read))} if language != Language.PYTHON else {}),
            **result,
        }

    found, seen = [], set()
    for kind, calls in variants(question["id"], expected, functions):
        answers = [(kind, each_argument(calls, lambda schema, value: in_source(language, schema, value)))]
        if language != Language.PYTHON and kind == "right":
            answers.append(("arguments not in source syntax", calls))
        for kind, answer in answers:
            key = json.dumps(answer)
            if key not in seen:
                seen.add(key)
                found.append(judged(kind, answer))
    return found


def relevance_entry(category, question):
    functions = {function["name"]: function for function in question["function"]}
    answers = [("no call", [])]
    for function in question["function"][:1]:
        answers.append(("a call", [{function["name"]: {}}]))
        answers.append(("two calls", [{function["name"]: {}}, {function["name"]: {}}]))
    answers.append(("a call of an unknown function", [{"another_function": {"a": 1}}]))

    def judge(calls):
        return eval_runner._evaluate_single_relevance_entry(
            Answered(calls), question["id"], None, copy.deepcopy(question), MODEL, category
        )

    return [
        {"kind": kind, "calls": as_list(to_api(calls)), **verdict(lambda: judge(to_api(calls)))}
        for kind, calls in answers
    ]


def main(out):
    with open(out, "w", encoding="utf-8") as lines:
        for category in AST + RELEVANCE:
            questions = load_file(PROMPT_PATH / f"BFCL_v4_{category}.json")
            answers = [None] * len(questions)
            if category in AST:
                answers = load_file(POSSIBLE_ANSWER_PATH / f"BFCL_v4_{category}.json")
            assert len(questions) == len(answers)
            for question, answer in zip(questions, answers):
                expected = answer["ground_truth"] if answer else []
                if answer:
                    assert question["id"] == answer["id"]
                    found = ast_entry(category, question, expected)
                else:
                    found = relevance_entry(category, question)
                line = {
                    "entry": question["id"],
                    "category": category,
                    "tools": [
                        {
                            "name": api_name(function["name"]),
                            "types": {
                                param: [schema.get("type"), (schema.get("items") or {}).get("type")]
                                for param, schema in function["parameters"]["properties"].items()
                            },
                            "input": json_schema({**function["parameters"], "type": "dict"}),
                        }
                        for function in question["function"]
                    ],
                    "expected": to_api(expected),
                    "variants": found,
                }
                lines.write(json.dumps(line, ensure_ascii=False) + "\n")
    print(f"bfcl-eval {importlib.metadata.version('bfcl-eval')}: {out}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
