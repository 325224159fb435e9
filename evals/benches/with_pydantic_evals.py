"""The cases of `replayed.rs` with pydantic-evals: seconds and memory.

    pip install pydantic-evals pydantic-ai-slim
    python evals/benches/with_pydantic_evals.py [test|function]

`test` uses its `TestModel`, which calls the tool once and then answers: two rounds. `function` uses a
`FunctionModel` with the five rounds of `replayed.rs`.
"""

import asyncio
import os
import re
import resource
import sys
import time

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import EqualsExpected, Evaluator, EvaluatorContext

CALLS = 4
CASES = int(os.environ.get("CASES", "1000"))


def scripted(messages, info):
    parts = [part for message in messages for part in message.parts]
    order = re.search(r"\d+", next(p.content for p in parts if p.part_kind == "user-prompt")).group()
    done = sum(isinstance(part, ToolReturnPart) for part in parts)
    if done == CALLS:
        return ModelResponse(parts=[TextPart(f"Order {order} is done.")])
    return ModelResponse(parts=[ToolCallPart("look_up", {"order": int(order), "step": done})])


class Short(Evaluator):
    def evaluate(self, ctx: EvaluatorContext) -> bool:
        return len(ctx.output) <= 200


def main():
    kind = sys.argv[1] if len(sys.argv) > 1 else "function"
    model = TestModel() if kind == "test" else FunctionModel(scripted)
    agent = Agent(model)

    @agent.tool_plain
    def look_up(order: int, step: int) -> str:
        """Look up one step of an order."""
        return f"step {step} of {order} is done"

    async def task(question: str) -> str:
        return (await agent.run(question)).output

    cases = [
        Case(
            name=f"case {order}",
            inputs=f"Is order {order} done?",
            expected_output=f"Order {order} is done.",
        )
        for order in range(CASES)
    ]
    dataset = Dataset(name="orders", cases=cases, evaluators=[EqualsExpected(), Short()])
    began = time.perf_counter()
    report = asyncio.run(dataset.evaluate(task, max_concurrency=8, progress=False))
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    equal = sum(case.assertions["EqualsExpected"].value for case in report.cases)
    print(f"pydantic-evals, {kind} model: {CASES} cases, {equal} equal, {seconds:.3f} s, peak {peak:.1f} MB")


main()
