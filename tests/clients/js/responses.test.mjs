// Responses that are waited for, polled, cancelled and deleted.
import assert from "node:assert/strict";
import { test } from "node:test";
import { NotFoundError } from "openai";
import { all, client, polled, request, story } from "./client.mjs";

const official = client();

test("a response is created and retrieved", async () => {
  const response = await official.responses.create(request());
  assert.equal(response.object, "response");
  assert.ok(response.output_text);
  assert.ok(response.usage.output_tokens > 0);
  const again = await official.responses.retrieve(response.id);
  assert.deepEqual({ ...again, _request_id: null }, { ...response, _request_id: null });
});

test("a turn goes on from the one before, and its input is listed", async () => {
  const first = await official.responses.create(request({ input: "My name is Ann.", max_output_tokens: 4 }));
  const next = await official.responses.create(
    request({ input: "And?", previous_response_id: first.id, max_output_tokens: 4 }),
  );
  const items = await all(official.responses.inputItems.list(next.id, { limit: 1, order: "asc" }));
  assert.deepEqual(
    items.map((item) => item.role),
    ["user", "assistant", "user"],
  );
  assert.equal(items[1].id, first.output[0].id);
  const said = [{ role: "user", content: "My name is Ann." }, ...first.output, { role: "user", content: "And?" }];
  const counted = await official.responses.inputTokens.count({ model: next.model, input: said });
  assert.equal(counted.input_tokens, next.usage.input_tokens);
});

test("a conversation is compacted and gone on with", async () => {
  const said = [
    { role: "user", content: "Hi" },
    { role: "assistant", content: "Hello." },
  ];
  const { output } = await official.responses.compact({ model: request().model, input: said });
  assert.equal(output.at(-1).type, "compaction");
  const more = [...output, { role: "user", content: "Bye" }];
  const response = await official.responses.create(request({ input: more, max_output_tokens: 2 }));
  const plain = await official.responses.inputTokens.count({
    model: response.model,
    input: [...said, { role: "user", content: "Bye" }],
  });
  assert.equal(response.usage.input_tokens, plain.input_tokens);
});

test("a tool is called, and its output told", async () => {
  const parameters = {
    type: "object",
    properties: { city: { type: "string", maxLength: 12 } },
    required: ["city"],
    additionalProperties: false,
  };
  const tools = [{ type: "function", name: "get_weather", parameters, strict: true }];
  const asked = { input: "How is the weather in Rome?", tools, max_output_tokens: 60 };
  const made = { ...asked, tool_choice: "required", parallel_tool_calls: false };
  const stream = official.responses.stream(request(made));
  const events = await all(stream);
  const { id, output } = await stream.finalResponse();
  const [call] = output;
  assert.equal(call.name, "get_weather");
  assert.deepEqual(Object.keys(JSON.parse(call.arguments)), ["city"]);
  const deltas = events.filter((event) => event.type === "response.function_call_arguments.delta");
  assert.equal(deltas.map((event) => event.delta).join(""), call.arguments);
  const told = [{ type: "function_call_output", call_id: call.call_id, output: "Sunny." }];
  const next = await official.responses.create(
    request({ ...asked, input: told, previous_response_id: id, max_output_tokens: 2 }),
  );
  assert.ok(next.output_text);
});

test("a response in the background is polled", async () => {
  const response = await official.responses.create(request({ background: true }));
  assert.equal(response.status, "queued");
  const done = await polled(official, response.id, ({ status }) => !["queued", "in_progress"].includes(status));
  assert.ok(done.output_text);
  assert.equal(done.background, true);
});

test("a response is cancelled, deleted, and gone", async () => {
  const { id } = await official.responses.create(
    request({ input: story, max_output_tokens: 1000, background: true }),
  );
  await polled(official, id, ({ output }) => output.length > 0);
  await official.responses.cancel(id);
  const done = await polled(official, id, ({ status }) => status !== "in_progress");
  assert.equal(done.status, "cancelled");
  await official.responses.delete(id);
  await assert.rejects(official.responses.retrieve(id), NotFoundError);
});

test("models are listed and retrieved", async () => {
  const models = await all(official.models.list());
  const mine = models.find(({ id }) => id === request().model);
  assert.equal((await official.models.retrieve(mine.id)).id, mine.id);
});
