"""The Agents SDK, unmodified. Run by `tests/clients/test_openai_agents.py` in an environment of its own."""

import os
import unittest
from typing import Any

import openai
from agents import (
    Agent,
    ModelBehaviorError,
    ModelSettings,
    OpenAIResponsesModel,
    Runner,
    WebSearchTool,
    function_tool,
    set_tracing_disabled,
)

MODEL = os.environ["LMSP_MODEL"]
# Else it would tell a service in the internet of each run.
set_tracing_disabled(disabled=True)


class Agents(unittest.IsolatedAsyncioTestCase):
    """What people do with an agent."""

    async def asyncSetUp(self) -> None:
        self.client = openai.AsyncOpenAI(
            base_url=os.environ["LMSP_URL"], api_key=os.environ["LMSP_TOKEN"], max_retries=0
        )
        self.addAsyncCleanup(self.client.close)

    def agent(self, **options: Any) -> Any:
        model = OpenAIResponsesModel(model=MODEL, openai_client=self.client)
        # For the SDK an answer that was cut short is a failure: it is to end by itself, and soon.
        settings = ModelSettings(temperature=0, max_tokens=128, extra_body={"stop": [".", "!", "?"]})
        return Agent(name="Ann", instructions="Be brief.", **{"model": model, "model_settings": settings, **options})

    async def test_a_run_has_its_output_and_its_usage(self) -> None:
        result = await Runner.run(self.agent(), "Hi")
        assert result.final_output
        assert 0 < result.context_wrapper.usage.output_tokens <= 128
        assert result.last_response_id.startswith("resp_")

    async def test_a_streamed_run_says_the_same(self) -> None:
        expected = (await Runner.run(self.agent(), "Tell me about the sea.")).final_output
        streamed = Runner.run_streamed(self.agent(), "Tell me about the sea.")
        deltas = [
            event.data.delta
            async for event in streamed.stream_events()
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
        ]
        assert len(deltas) > 3
        assert "".join(deltas) == streamed.final_output == expected

    async def test_turns_go_on_by_their_id_and_by_their_items(self) -> None:
        first = await Runner.run(self.agent(), "My name is Ann.")
        by_id = await Runner.run(self.agent(), "And?", previous_response_id=first.last_response_id)
        by_items = await Runner.run(self.agent(), [*first.to_input_list(), {"role": "user", "content": "And?"}])
        assert by_id.final_output == by_items.final_output
        tokens = by_id.context_wrapper.usage.input_tokens
        assert tokens == by_items.context_wrapper.usage.input_tokens > first.context_wrapper.usage.input_tokens

    async def test_a_call_of_a_tool_and_its_output_are_read_back(self) -> None:
        call = {"call_id": "call_1", "type": "function_call", "name": "weather", "arguments": '{"city": "Ulm"}'}
        output = {"call_id": "call_1", "type": "function_call_output", "output": "Snow."}
        asked: list[Any] = [{"role": "user", "content": "How is the weather?"}]
        result = await Runner.run(self.agent(), [*asked, call, output])
        assert result.final_output
        plain = await Runner.run(self.agent(), asked)
        assert result.context_wrapper.usage.input_tokens > plain.context_wrapper.usage.input_tokens

    async def test_an_answer_that_was_cut_short_is_told(self) -> None:
        short = ModelSettings(temperature=0, max_tokens=2)
        with self.assertRaises(ModelBehaviorError) as told:  # noqa: PT027
            await Runner.run(self.agent(model_settings=short), "Hi")
        assert "max_output_tokens" in str(told.exception)

    async def test_an_agent_calls_its_tool_and_answers(self) -> None:
        asked: list[str] = []

        def get_weather(city: str) -> str:
            """Tell the weather of a city."""
            asked.append(city)
            return "Sunny"

        settings = ModelSettings(
            temperature=0,
            max_tokens=200,
            tool_choice="get_weather",
            parallel_tool_calls=False,
            extra_body={"stop": ["."]},
        )
        agent = self.agent(tools=[function_tool(get_weather)], model_settings=settings)
        # After a call the SDK demands none any more.
        result = await Runner.run(agent, "How is the weather in Rome?", max_turns=4)
        assert len(asked) >= 1
        assert result.final_output
        assert "tool_call_output_item" in {item.type for item in result.new_items}

    async def test_a_tool_of_the_service_is_refused_by_name(self) -> None:
        for run in (self.run_whole, self.run_streamed):
            with self.assertRaises(openai.BadRequestError) as refused:  # noqa: PT027
                await run(self.agent(tools=[WebSearchTool()]))
            assert refused.exception.param == "tools"
            assert "web_search" in refused.exception.message

    async def run_whole(self, agent: Any) -> None:
        await Runner.run(agent, "Hi")

    async def run_streamed(self, agent: Any) -> None:
        async for _ in Runner.run_streamed(agent, "Hi").stream_events():
            pass


if __name__ == "__main__":
    unittest.main(verbosity=2)
