// Asks a server by Anthropic's own client. Arguments: the server's address. The model says what stands in [[double brackets]] last, else what it will.
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({ baseURL: process.argv[2], apiKey: "secret", maxRetries: 0 });
const model = "tales";
const ask = (content, more) => ({ model, max_tokens: 300, messages: [{ role: "user", content }], ...more });
const tools = [{
  name: "get_weather", description: "Tells the weather.",
  input_schema: { type: "object", properties: { city: { type: "string", enum: ["Rome", "Oslo"] } }, required: ["city"], additionalProperties: false },
}];

const plain = ask("Tell a tale.", { max_tokens: 12, temperature: 0, system: [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral" } }] });
const whole = await client.messages.create(plain);
assert.equal(whole.stop_reason, "max_tokens");
assert.equal(whole.usage.output_tokens, 12);
assert.match(whole._request_id, /^req_/);
let text = "";
const stream = client.messages.stream(plain).on("text", (t) => { text += t; });
const told = await stream.finalMessage();
assert.deepEqual(told.content, whole.content);
assert.equal(text, whole.content[0].text);
assert.ok(told.usage.cache_read_input_tokens > 0);
const { max_tokens: _, temperature: __, ...counted } = plain;
assert.equal((await client.messages.countTokens(counted)).input_tokens, whole.usage.input_tokens + whole.usage.cache_read_input_tokens);

const forced = await client.messages.stream(ask("Weather?", { tools, thinking: { type: "disabled" }, tool_choice: { type: "tool", name: "get_weather", disable_parallel_tool_use: true } })).finalMessage();
const call = forced.content.find((b) => b.type === "tool_use");
assert.equal(forced.stop_reason, "tool_use");
assert.match(call.input.city, /^(Rome|Oslo)$/);
const after = await client.messages.create({
  model, max_tokens: 100, tools,
  messages: [{ role: "user", content: "Weather?" }, { role: "assistant", content: forced.content },
    { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "[[It is sunny.]]" }] }],
});
assert.deepEqual([after.stop_reason, after.content[0].text], ["end_turn", "It is sunny."]);

const thought = await client.messages.stream(ask("[[<think>\nHm.\n</think>\n\nYes.]]", { thinking: { type: "enabled", budget_tokens: 1024 }, max_tokens: 2000 })).finalMessage();
assert.deepEqual(thought.content.map((b) => b.type), ["thinking", "text"]);
assert.ok(thought.content[0].thinking === "Hm." && thought.content[0].signature);
const again = await client.messages.create({ model, max_tokens: 50, messages: [{ role: "user", content: "Well?" }, { role: "assistant", content: thought.content }, { role: "user", content: "[[So.]]" }] });
assert.equal(again.content[0].text, "So.");

const schema = { type: "object", properties: { ok: { type: "boolean" } }, required: ["ok"], additionalProperties: false };
const held = await client.messages.create(ask('Is it? [[{"ok": true}]]', { output_config: { format: { type: "json_schema", schema } } }));
assert.equal(typeof JSON.parse(held.content[0].text).ok, "boolean");
assert.equal((await client.messages.create(ask("[[One. Two.]]", { stop_sequences: ["Two"] }))).stop_sequence, "Two");

const endless = await client.messages.create(ask("Tell on.", { max_tokens: 4000, stream: true, ignore_eos: true }));
for await (const _ of endless) endless.controller.abort();

await assert.rejects(client.messages.create(ask([{ type: "image", source: { type: "base64", media_type: "image/png", data: "aGk=" } }])),
  (e) => e instanceof Anthropic.BadRequestError && e.type === "invalid_request_error" && /image input/.test(e.message) && /^req_/.test(e.requestID));
await assert.rejects(client.messages.create(ask("king ".repeat(9000))), /prompt is too long: \d+ tokens > \d+ maximum/);
await assert.rejects(new Anthropic({ baseURL: process.argv[2], apiKey: "wrong", maxRetries: 0 }).messages.create(plain), Anthropic.AuthenticationError);
console.log("all as expected");
