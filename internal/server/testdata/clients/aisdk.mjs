// Asks a server by the AI SDK. Arguments: the server's address. The model says what stands in [[double brackets]] last, else what it will.
import assert from "node:assert/strict";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, Output, stepCountIs, streamText, tool } from "ai";

globalThis.AI_SDK_LOG_WARNINGS = false;
const provider = createOpenAICompatible({ name: "powerinfer", baseURL: process.argv[2] + "/v1", apiKey: "secret", supportsStructuredOutputs: true, includeUsage: true });
const model = provider("tales");
const maxRetries = 0;

const whole = await generateText({ model, maxRetries, prompt: "[[<think>\nHm.\n</think>\n\nYes.]]" });
assert.deepEqual([whole.reasoningText, whole.text, whole.finishReason], ["Hm.", "Yes.", "stop"]);
const stream = streamText({ model, maxRetries, prompt: "[[<think>\nHm.\n</think>\n\nYes.]]" });
let text = "";
for await (const t of stream.textStream) text += t;
assert.deepEqual([await stream.reasoningText, text], ["Hm.", "Yes."]);
assert.ok((await stream.usage).outputTokens > 0);

const tools = { get_weather: tool({
  description: "Tells the weather.", execute: async ({ city }) => `[[It is sunny in ${city}.]]`,
  inputSchema: jsonSchema({ type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false }),
}) };
const say = '[[<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>]]';
const steps = streamText({ model, maxRetries, prompt: say, tools, stopWhen: stepCountIs(3) });
assert.equal(await steps.text, "It is sunny in Rome.");
assert.equal((await steps.steps).length, 2);

const schema = jsonSchema({ type: "object", properties: { ok: { type: "boolean" } }, required: ["ok"], additionalProperties: false });
assert.equal(typeof (await generateText({ model, maxRetries, prompt: 'Is it? [[{"ok": true}]]', output: Output.object({ schema }) })).output.ok, "boolean");

const control = new AbortController();
const endless = streamText({ model, maxRetries, prompt: "[[" + "On and on. ".repeat(300) + "]]", abortSignal: control.signal });
for await (const _ of endless.textStream) control.abort();
console.log("all as expected");
