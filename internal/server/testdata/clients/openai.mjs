// Asks a server by OpenAI's own client. Arguments: the server's address. Exits with 0 if all is as the client's users expect.
import assert from "node:assert/strict";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.argv[2] + "/v1", apiKey: "secret", maxRetries: 0 });
const model = "tales";
const messages = [{ role: "user", content: "Tell a tale." }];
const tools = [{
  type: "function",
  function: {
    name: "get_weather",
    parameters: { type: "object", properties: { city: { type: "string", enum: ["Rome", "Oslo"] } }, required: ["city"], additionalProperties: false },
  },
}];
const tool_choice = { type: "function", function: { name: "get_weather" } };

const models = await client.models.list();
assert.equal(models.data[0].id, model);

const whole = await client.chat.completions.create({ model, messages, max_tokens: 12, temperature: 0 });
assert.equal(whole.usage.completion_tokens, 12);
assert.equal(whole.choices[0].finish_reason, "length");

let text = "", usage;
const stream = await client.chat.completions.create({ model, messages, max_tokens: 12, temperature: 0, stream: true, stream_options: { include_usage: true } });
for await (const chunk of stream) {
  text += chunk.choices[0]?.delta?.content ?? "";
  usage = chunk.usage ?? usage;
}
assert.equal(text, whole.choices[0].message.content);
assert.equal(usage.total_tokens, whole.usage.total_tokens);

const called = await client.chat.completions.stream({ model, messages, tools, tool_choice, max_tokens: 200 }).finalChatCompletion();
assert.equal(called.choices[0].finish_reason, "tool_calls");
const call = called.choices[0].message.tool_calls[0];
assert.match(JSON.parse(call.function.arguments).city, /^(Rome|Oslo)$/);
const after = await client.chat.completions.create({
  model, tools, max_tokens: 4,
  messages: [...messages, called.choices[0].message, { role: "tool", tool_call_id: call.id, content: "sunny" }],
});
assert.equal(after.object, "chat.completion");

const schema = { type: "object", properties: { ok: { type: "boolean" } }, required: ["ok"], additionalProperties: false };
const yes = [{ role: "user", content: 'Is it? [[{"ok": true}]]' }];
const held = await client.chat.completions.parse({ model, messages: yes, max_tokens: 100, response_format: { type: "json_schema", json_schema: { name: "x", strict: true, schema } } });
assert.equal(typeof JSON.parse(held.choices[0].message.content).ok, "boolean");

const endless = await client.chat.completions.create({ model, messages, stream: true, ignore_eos: true });
for await (const _ of endless) {
  endless.controller.abort();
}

await assert.rejects(client.chat.completions.create({ model, messages, temperature: "warm" }), OpenAI.BadRequestError);
const stranger = new OpenAI({ baseURL: process.argv[2] + "/v1", apiKey: "wrong", maxRetries: 0 });
await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);
const old = await client.completions.create({ model, prompt: "Once upon a time", max_tokens: 5 });
assert.equal(old.usage.completion_tokens, 5);

const kinds = new Set();
const response = client.responses.stream({ model, input: "Tell a tale.", max_output_tokens: 12, temperature: 0, include: ["message.output_text.logprobs"], top_logprobs: 2 });
response.on("event", (e) => kinds.add(e.type));
const told = await response.finalResponse();
assert.equal(told.status, "incomplete");
assert.equal(told.usage.output_tokens, 12);
assert.equal(told.output[0].content[0].logprobs.length, 12);
assert.equal(told.output[0].content[0].logprobs.map((l) => l.token).join(""), told.output_text);
assert.equal((await client.responses.create({ model, input: "Tell a tale.", max_output_tokens: 12, temperature: 0 })).output_text, told.output_text);
assert.ok(kinds.has("response.created") && kinds.has("response.output_text.delta") && kinds.has("response.incomplete"));

const responseTools = tools.map((t) => ({ type: "function", strict: true, ...t.function }));
const calling = await client.responses
  .stream({ model, input: [{ role: "user", content: "Weather?" }], tools: responseTools, tool_choice: { type: "function", name: "get_weather" } })
  .finalResponse();
assert.equal(calling.status, "completed");
assert.match(JSON.parse(calling.output[0].arguments).city, /^(Rome|Oslo)$/);
const answered = await client.responses.create({
  model, tools: responseTools, max_output_tokens: 4,
  input: [{ role: "user", content: "Weather?" }, ...calling.output, { type: "function_call_output", call_id: calling.output[0].call_id, output: "sunny" }],
});
assert.equal(answered.object, "response");
const thought = await client.responses.stream({ model, input: "Hi", grammar: 'root ::= "<think>hm</think>so"' }).finalResponse();
assert.deepEqual(thought.output.map((i) => i.content[0].text), ["hm", "so"]);
const form = { type: "json_schema", name: "x", strict: true, schema };
assert.equal(typeof (await client.responses.parse({ model, input: yes, text: { format: form } })).output_parsed.ok, "boolean");
assert.equal((await client.responses.inputTokens.count({ model, input: "Tell a tale." })).input_tokens, told.usage.input_tokens);
await assert.rejects(client.responses.create({ model, input: "Hi", previous_response_id: "resp_1" }), OpenAI.BadRequestError);
console.log("all as expected");
