// Streams: read to their end, cut, taken up again, and the same over a websocket.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ResponsesWS } from "openai/resources/responses/ws";
import { all, client, cuttableLine, request, story, textOf } from "./client.mjs";

const official = client();

test("a stream is read to its end", async () => {
  const events = await all(await official.responses.create(request({ stream: true })));
  assert.deepEqual(
    events.slice(0, 2).map((event) => event.type),
    ["response.created", "response.queued"],
  );
  const last = events.at(-1);
  assert.ok(["response.completed", "response.incomplete"].includes(last.type));
  assert.equal(textOf(events), last.response.output[0].content[0].text);
});

test("the stream helper puts the response together", async () => {
  const stream = official.responses.stream(request());
  const events = await all(stream);
  const response = await stream.finalResponse();
  assert.ok(response.output_text);
  assert.equal(response.output_text, textOf(events));
});

test("a stream is taken up again after its line was cut", async () => {
  const line = await cuttableLine();
  const begun = [];
  await assert.rejects(async () => {
    const over = client({ baseURL: line.baseURL });
    const asked = request({ input: story, max_output_tokens: 120, background: true, stream: true });
    for await (const event of await over.responses.create(asked)) {
      begun.push(event);
      if (event.type === "response.output_text.delta") line.cut();
    }
  });
  line.close();
  const { id } = begun[0].response;
  const rest = await all(
    await official.responses.retrieve(id, { stream: true, starting_after: begun.at(-1).sequence_number }),
  );
  assert.ok(rest.length > 0);
  const whole = await all(await official.responses.retrieve(id, { stream: true }));
  assert.deepEqual([...begun, ...rest], whole);
  assert.equal(whole.at(-1).type, "response.incomplete");
});

test("the stream helper takes up a response by its id", async () => {
  const { id } = await official.responses.create(request({ background: true }));
  const whole = await all(official.responses.stream({ response_id: id }));
  const rest = await all(official.responses.stream({ response_id: id, starting_after: whole[3].sequence_number }));
  const numbers = (events) => events.map((event) => event.sequence_number);
  assert.deepEqual(numbers(rest), numbers(whole).slice(4));
});

test("a stream that is broken off by the client cancels its response", async () => {
  const stream = await official.responses.create(request({ input: story, max_output_tokens: 1000, stream: true }));
  let id;
  for await (const event of stream) {
    if (event.type === "response.created") id = event.response.id;
    if (event.type === "response.output_text.delta") break;
  }
  const replayed = await all(await official.responses.retrieve(id, { stream: true }));
  assert.equal(replayed.at(-1).type, "response.cancelled");
});

test("a socket carries turns that go on from each other, and a refusal", async () => {
  const socket = new ResponsesWS(official);
  const messages = socket.stream();
  const turn = async (fields) => {
    socket.send({ type: "response.create", ...request({ store: false, max_output_tokens: 8, ...fields }) });
    const events = [];
    for (;;) {
      const { value } = await messages.next();
      if (value.type === "error") return value.error;
      if (value.type !== "message") continue;
      events.push(value.message);
      if (/\.(completed|incomplete)$/.test(value.message.type)) return events;
    }
  };
  try {
    const first = (await turn({})).at(-1).response;
    const events = await turn({ input: "And?", previous_response_id: first.id });
    const { response } = events.at(-1);
    assert.equal(response.previous_response_id, first.id);
    assert.equal(response.output[0].content[0].text, textOf(events));
    const refused = await turn({ model: "unknown" });
    assert.equal(refused.error.error.code, "model_not_found");
  } finally {
    socket.close();
  }
});
