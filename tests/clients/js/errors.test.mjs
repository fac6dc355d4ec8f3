// Refusals are errors of the client's own classes.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  AuthenticationError,
  BadRequestError,
  ConflictError,
  NotFoundError,
  PermissionDeniedError,
  UnprocessableEntityError,
} from "openai";
import { client, request, story } from "./client.mjs";

const official = client();

const told = (kind, status, code) => (error) => {
  assert.ok(error instanceof kind, `${error}`);
  assert.equal(error.status, status);
  assert.equal(error.code, code);
  assert.ok(error.message);
  return true;
};

for (const stream of [false, true]) {
  const how = stream ? "streamed" : "whole";
  test(`what cannot be meant is a BadRequestError, ${how}`, async () => {
    const asked = official.responses.create(request({ temperature: 9, stream }));
    await assert.rejects(asked, told(BadRequestError, 400, "invalid_value"));
  });
  test(`an unknown model is a NotFoundError, ${how}`, async () => {
    const asked = official.responses.create(request({ model: "unknown", stream }));
    await assert.rejects(asked, told(NotFoundError, 404, "model_not_found"));
  });
}

test("an unknown token is an AuthenticationError", async () => {
  const stranger = client({ apiKey: "lmsp_wrong" });
  await assert.rejects(stranger.models.list(), told(AuthenticationError, 401, "invalid_token"));
});

test("a scope that lacks is a PermissionDeniedError", async () => {
  const reader = client({ apiKey: process.env.LMSP_READER_TOKEN });
  await assert.rejects(reader.responses.create(request()), told(PermissionDeniedError, 403, "insufficient_scope"));
});

test("a response that runs is a ConflictError, and not asked for again", async () => {
  const { id } = await official.responses.create(
    request({ input: story, max_output_tokens: 1000, background: true }),
  );
  await assert.rejects(
    client({ maxRetries: 2 }).responses.delete(id),
    (error) => told(ConflictError, 409, "task_not_finished")(error) && error.headers.get("x-should-retry") === "false",
  );
  await official.responses.cancel(id);
});

test("a key used for another request is an UnprocessableEntityError", async () => {
  const headers = { "Idempotency-Key": "javascript" };
  const create = (input) => official.responses.create(request({ input, max_output_tokens: 1 }), { headers });
  assert.equal((await create("Hi")).id, (await create("Hi")).id);
  await assert.rejects(create("Hello"), told(UnprocessableEntityError, 422, "idempotency_key_reused"));
});
