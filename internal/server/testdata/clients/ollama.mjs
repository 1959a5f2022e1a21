// Asks a server by Ollama's own client. Arguments: the server's address. The model says what stands in [[double brackets]] last, else what it will.
import assert from "node:assert/strict";
import { Ollama } from "ollama";

const client = new Ollama({ host: process.argv[2], headers: { Authorization: "Bearer secret" } });
const model = "tales";
const ask = (content, more) => ({ model, messages: [{ role: "user", content }], ...more });
const options = { num_predict: 12, temperature: 0 };
const tools = [{ type: "function", function: { name: "get_weather", description: "Tells the weather.",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } } }];

assert.equal((await client.list()).models[0].name, model);
assert.equal((await client.ps()).models[0].model, model);
assert.ok((await client.show({ model })).capabilities.includes("tools"));
assert.match((await client.version()).version, /^\d+\.\d+\.\d+$/);

const whole = await client.chat(ask("Tell a tale.", { options }));
assert.deepEqual([whole.done_reason, whole.eval_count], ["length", 12]);
let text = "", last;
for await (const part of await client.chat(ask("Tell a tale.", { options, stream: true }))) {
  text += part.message.content;
  last = part;
}
assert.equal(text, whole.message.content);
assert.ok(last.done && last.total_duration > 0 && last.prompt_eval_count > 0);
const generated = await client.generate({ model, prompt: "Tell a tale.", options });
assert.equal(generated.response, whole.message.content);
assert.ok((await client.generate({ model, prompt: "Go on.", context: generated.context, options })).prompt_eval_count > generated.context.length);

const say = '[[<think>\nHm.\n</think>\n\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>]]';
let call, thinking = "";
for await (const part of await client.chat(ask(say, { tools, think: true, stream: true }))) {
  thinking += part.message.thinking ?? "";
  call ??= part.message.tool_calls?.[0];
}
assert.equal(thinking, "Hm.");
assert.deepEqual([call.function.name, call.function.arguments], ["get_weather", { city: "Rome" }]);
const after = await client.chat({ model, tools, messages: [{ role: "user", content: "Weather?" }, { role: "assistant", content: "", tool_calls: [call] },
  { role: "tool", tool_name: "get_weather", content: "[[It is sunny.]]" }] });
assert.equal(after.message.content, "It is sunny.");

const format = { type: "object", properties: { ok: { type: "boolean" } }, required: ["ok"], additionalProperties: false };
assert.equal(typeof JSON.parse((await client.chat(ask('Is it? [[{"ok": true}]]', { format }))).message.content).ok, "boolean");
const { embeddings } = await client.embed({ model, input: ["The king", "The queen"] });
assert.equal(embeddings.length, 2);
assert.ok(Math.abs(embeddings[0].reduce((sum, x) => sum + x * x, 0) - 1) < 1e-4);

const endless = await client.generate({ model, prompt: "Tell on.", options: { num_predict: 4000, ignore_eos: true }, stream: true });
await assert.rejects(async () => { for await (const _ of endless) endless.abort(); }, { name: "AbortError" });
await assert.rejects(client.chat(ask("Hi", { images: [], messages: [{ role: "user", content: "Hi", images: ["aGk="] }] })), /image input is not supported/);
await assert.rejects(client.pull({ model: "user/repo" }), /neither downloads nor removes/);
console.log("all as expected");
