#!/usr/bin/env python3
"""Writes `module/src/prices.json`, the built-in prices, from the package `genai-prices`.

    python3 -m venv target/prices && target/prices/bin/pip install genai-prices
    target/prices/bin/python module/prices.py RELEASED

RELEASED is the day on which the installed version was released, such as 2026-11-10. Read the diff before
you commit it.
"""

import json
import re
import sys
from datetime import UTC, date, datetime
from importlib.metadata import version
from pathlib import Path

from genai_prices import types
from genai_prices.data import providers

FILE = Path(__file__).resolve().parent / "src" / "prices.json"

# Names of services in this repository, and the ids of the package.
SERVICES = {
    "anthropic": "anthropic",
    "azure": "azure",
    "bedrock": "aws",
    "cerebras": "cerebras",
    "copilot": "github-copilot",
    "deepseek": "deepseek",
    "doubleword": "doubleword",
    "fireworks": "fireworks",
    "gemini": "google",
    "groq": "groq",
    "mistral": "mistral",
    "moonshot": "moonshotai",
    "openai": "openai",
    "openrouter": "openrouter",
    "perplexity": "perplexity",
    "together": "together",
    "xai": "x-ai",
    "zai": "zai",
}
# The Gemini API in OpenAI's form has the same prices.
SAME = {"google": "gemini"}

FIELDS = {
    "input_mtok": "input",
    "cache_read_mtok": "cached",
    "cache_write_mtok": "cache_written",
    "cache_write_1h_mtok": "cache_written_1h",
    "output_mtok": "output",
    "input_audio_mtok": "audio_input",
    "cache_audio_read_mtok": "audio_cached",
    "output_audio_mtok": "audio_output",
}
# Fees of tools that the provider runs itself. They are not a part of the price of tokens.
TOOLS = {"web_searches_kcount", "storage_searches_kcount"}

DATED = re.compile(r"(.+)[-@]20(\d{6}|\d{2}-\d{2}-\d{2})")
DATE_RULE = re.compile(r"\^(.+?)(\[-@\]|-)(\\d\{8\}|\\d\{4\}-\\d\{2\}-\\d\{2\})\$")


def patterns(rule):
    """Returns the names of a rule, with `*` for any text at the begin or the end."""
    match rule:
        case types.ClauseOr():
            return [name for part in rule.or_ for name in patterns(part)]
        case types.ClauseAnd():
            # The second part only rules out speech models, which have entries of their own.
            if len(rule.and_) == 2 and "-[tT][tT][sS]" in getattr(rule.and_[1], "regex", ""):
                return patterns(rule.and_[0])
        case types.ClauseEquals():
            return [rule.equals]
        case types.ClauseStartsWith():
            return [rule.starts_with + "*"]
        case types.ClauseEndsWith():
            return ["*" + rule.ends_with]
        case types.ClauseContains():
            return ["*" + rule.contains + "*"]
        case types.ClauseRegex():
            # Every name also stands for itself with a date. A number is otherwise a version, as `-001`.
            if dated := DATE_RULE.fullmatch(rule.regex):
                return [dated[1].replace("\\.", ".")]
            if rule.regex.startswith("^") and rule.regex.endswith(r"-\d"):
                return [rule.regex[1:-3].replace("\\.", ".") + "-0*"]
    sys.exit(f"the rule {rule} is unknown; add it to `patterns`")


def names(model):
    """Returns the names of a model, without those that are another one with a date."""
    every = list(dict.fromkeys(name.lower() for name in patterns(model.match)))
    return [name for name in every if not ((dated := DATED.fullmatch(name)) and dated[1] in every)]


def first(price):
    return price.base if isinstance(price, types.TieredPrices) else price


def prices_of(model, now):
    """Returns the prices of a model with the day on which each begins, the present ones first.

    If the hour matters, they are the highest of the day."""
    if isinstance(model.prices, types.ModelPrice):
        return [(None, model.prices)]
    valid, since, later = model.prices[:1], None, []
    for entry in model.prices:
        rule = entry.constraint
        if isinstance(rule, types.TimeOfDateConstraint):
            valid.append(entry)
        elif rule is not None and rule.active(now):
            valid, since = [entry], rule.start_date
        elif rule is not None:
            later.append((rule.start_date, entry.prices))
    highest = max((entry.prices for entry in valid), key=lambda prices: first(prices.input_mtok) or 0)
    return [(since, highest), *later]


def number(amount):
    return int(amount) if amount == int(amount) else float(amount)


def rates_of(since, prices):
    """Returns prices as they are in the file, or `None` if not only tokens have a price."""
    prices = {key: price for key, price in vars(prices).items() if price is not None and key not in TOOLS}
    if not {"input_mtok", "output_mtok"} <= prices.keys() <= FIELDS.keys():
        return None
    if not first(prices["input_mtok"]) or not first(prices["output_mtok"]):
        return None

    def above(tokens):
        rates = {}
        for key, field in FIELDS.items():
            if key in prices:
                reached = [tier.price for tier in getattr(prices[key], "tiers", []) if tokens >= tier.start]
                rates[field] = number([first(prices[key]), *reached][-1])
        return rates

    rates = {"since": since.isoformat()} if since else {}
    rates |= above(-1)
    starts = sorted({tier.start for price in prices.values() for tier in getattr(price, "tiers", [])})
    if starts:
        rates["above"] = [{"tokens": start} | above(start) for start in starts]
    return rates


def entry_of(model, now):
    """Returns a model as it is in the file. It has only names if its price is not one of tokens."""
    entry = {"names": names(model)}
    (since, prices), *later = prices_of(model, now)
    if not vars(prices) and model.id.endswith(":free"):
        return entry | {"free": True}
    every = [rates_of(since, prices), *(rates_of(*prices) for prices in later)]
    if None in every:
        return entry
    entry |= every[0]
    if later:
        entry["later"] = every[1:]
    return entry


def main():
    released = date.fromisoformat(sys.argv[1])
    now = datetime.now(UTC)
    of_package = {id: name for name, id in SERVICES.items()}
    services = {}
    for provider in providers:
        if provider.id not in of_package:
            continue
        models, unpriced = [], 0
        for model in provider.models:
            # Batches are not used. Of the names of OpenRouter, those without a vendor are of an older
            # list, which other services have parts of.
            if model.id.endswith(":batch") or (":free" in model.id or provider.id == "openrouter") and "/" not in model.id:
                continue
            entry = entry_of(model, now)
            unpriced += entry.keys() == {"names"}
            models.append(entry)
        services[of_package[provider.id]] = {
            "source": provider.pricing_urls,
            "like": [of_package[id] for id in provider.fallback_model_providers or [] if id in of_package],
            "models": models,
        }
        print(f"{of_package[provider.id]}: {len(models) - unpriced} models, {unpriced} without a price of tokens")
    for name, other in SAME.items():
        services[name] = {"source": services[other]["source"], "like": [other], "models": []}
    package = f"genai-prices {version('genai-prices')}"
    lines = [
        "{",
        f'"source": "{package} (https://pypi.org/project/genai-prices), released on {released}",',
        f'"date": "{now.date()}",',
        '"currency": "USD",',
        '"services": {',
    ]
    for name, service in sorted(services.items()):
        lines.append(f'"{name}": {{"source": {json.dumps(service["source"])}, "like": {json.dumps(service["like"])}, "models": [')
        lines += [json.dumps(model) + "," for model in service["models"]]
        lines[-1] = lines[-1].removesuffix(",")
        lines.append("]},")
    lines[-1] = "]}"
    lines += ["}", "}"]
    text = "\n".join(lines) + "\n"
    json.loads(text)
    FILE.write_text(text)


main()
