// What the tests of the JavaScript client have in common.
import net from "node:net";
import OpenAI from "openai";

export const model = process.env.LMSP_MODEL;
export const story = "Write a long story about a lighthouse.";

/** The official client, unmodified. */
export function client(options = {}) {
  return new OpenAI({
    baseURL: process.env.LMSP_URL,
    apiKey: process.env.LMSP_TOKEN,
    maxRetries: 0,
    timeout: 60_000,
    ...options,
  });
}

/** A request whose answer is short and always the same. */
export function request(fields = {}) {
  return { model, input: "Hi", temperature: 0, max_output_tokens: 16, ...fields };
}

/** The joined deltas of a list of events. */
export function textOf(events) {
  return events
    .filter((event) => event.type === "response.output_text.delta")
    .map((event) => event.delta)
    .join("");
}

/** All events of a stream, in a list. */
export async function all(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
}

/** The response, as soon as `isReached` is true of it. */
export async function polled(official, id, isReached) {
  const deadline = Date.now() + 60_000;
  for (;;) {
    const response = await official.responses.retrieve(id);
    if (isReached(response)) return response;
    if (Date.now() > deadline) throw new Error(`${id} is still ${response.status}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** A line to the service that can be cut: `{ baseURL, cut(), close() }`. */
export async function cuttableLine() {
  const service = new URL(process.env.LMSP_URL);
  const open = new Set();
  const server = net.createServer((near) => {
    const far = net.connect(Number(service.port), service.hostname);
    for (const side of [near, far]) {
      open.add(side);
      side.on("error", () => {});
      side.on("close", () => [near, far].forEach((each) => each.destroy()));
    }
    near.pipe(far).pipe(near);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    baseURL: `http://127.0.0.1:${server.address().port}${service.pathname}`,
    cut: () => open.forEach((side) => side.resetAndDestroy()),
    close: () => {
      open.forEach((side) => side.destroy());
      server.close();
    },
  };
}
