// Shows pictures to a server by five clients. Arguments: the server's address. The model says how many pictures its prompt has.
import assert from "node:assert/strict";
import { writeFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { ChatOpenAI } from "@langchain/openai";
import { generateText } from "ai";
import { Ollama } from "ollama";
import OpenAI from "openai";

const [url, png] = process.argv.slice(2);
const model = "tales", bytes = Buffer.from(png, "base64"), data = `data:image/png;base64,${png}`;

const openai = new OpenAI({ baseURL: url + "/v1", apiKey: "secret", maxRetries: 0 });
const messages = [{ role: "user", content: [{ type: "text", text: "What is this?" }, { type: "image_url", image_url: { url: data, detail: "high" } }] }];
const whole = await openai.chat.completions.create({ model, messages });
assert.equal(whole.choices[0].message.content, "1 pictures");
let text = "", usage;
for await (const chunk of await openai.chat.completions.create({ model, messages: [...messages, whole.choices[0].message, ...messages], stream: true, stream_options: { include_usage: true } })) {
  text += chunk.choices[0]?.delta?.content ?? "";
  usage = chunk.usage ?? usage;
}
assert.equal(text, "2 pictures");
assert.ok(usage.prompt_tokens > whole.usage.prompt_tokens);
const image = { type: "input_image", image_url: data, detail: "auto" };
const response = await openai.responses.create({ model, input: [
  { role: "user", content: [{ type: "input_text", text: "What is this?" }, image] },
  { type: "function_call", call_id: "call_1", name: "look", arguments: "{}" },
  { type: "function_call_output", call_id: "call_1", output: [image] },
] });
assert.equal(response.output_text, "2 pictures");
await assert.rejects(openai.responses.create({ model, input: [{ role: "user", content: [{ type: "input_image", file_id: "file-1" }] }] }), { status: 400, message: /stores no files/ });
await assert.rejects(openai.chat.completions.create({ model, messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "https://example.org/a.png" } }] }] }),
  { status: 400, message: /--media-domains example\.org/ });

const anthropic = new Anthropic({ baseURL: url, apiKey: "secret", maxRetries: 0 });
const block = { type: "image", source: { type: "base64", media_type: "image/png", data: png } };
const shown = { model, max_tokens: 50, messages: [
  { role: "user", content: [block, { type: "text", text: "What is this?" }] },
  { role: "assistant", content: [{ type: "tool_use", id: "toolu_1", name: "look", input: {} }] },
  { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content: [block, { type: "text", text: "seen" }] }] },
] };
const message = await anthropic.messages.create(shown);
assert.equal(message.content[0].text, "2 pictures");
assert.equal(await anthropic.messages.stream(shown).finalText(), "2 pictures");
const { max_tokens: _, ...counted } = shown;
assert.equal((await anthropic.messages.countTokens(counted)).input_tokens, message.usage.input_tokens + (message.usage.cache_read_input_tokens ?? 0));
await assert.rejects(anthropic.messages.create({ ...shown, messages: [{ role: "user", content: [{ type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } }] }] }), { status: 400 });

const ollama = new Ollama({ host: url });
assert.ok((await ollama.show({ model })).capabilities.includes("vision"));
const folder = mkdtempSync(join(tmpdir(), "pictures-"));
const file = join(folder, "a.png");
writeFileSync(file, bytes);
for (const images of [[png], [new Uint8Array(bytes)], [file]]) {
  assert.equal((await ollama.chat({ model, messages: [{ role: "user", content: "What is this?", images }] })).message.content, "1 pictures");
  assert.equal((await ollama.generate({ model, prompt: "What is this?", images })).response, "1 pictures");
}
rmSync(folder, { recursive: true });

const { text: told } = await generateText({
  model: createOpenAICompatible({ name: "powerinfer", baseURL: url + "/v1", apiKey: "secret" })(model),
  messages: [{ role: "user", content: [{ type: "text", text: "What is this?" }, { type: "image", image: new Uint8Array(bytes) }] }],
});
assert.equal(told, "1 pictures");

const chain = new ChatOpenAI({ model, apiKey: "secret", configuration: { baseURL: url + "/v1" }, maxRetries: 0 });
const said = await chain.invoke([{ role: "user", content: [{ type: "text", text: "What is this?" }, { type: "image_url", image_url: { url: data } }] }]);
assert.equal(said.content, "1 pictures");
