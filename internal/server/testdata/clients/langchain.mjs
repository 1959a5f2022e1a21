// Asks a server by LangChain. Arguments: the server's address. The model says what stands in [[double brackets]] last, else what it will.
import assert from "node:assert/strict";
import { ChatOllama, OllamaEmbeddings } from "@langchain/ollama";
import { ChatOpenAI, OpenAIEmbeddings } from "@langchain/openai";

const [url, model] = [process.argv[2], "tales"];
const weather = { type: "function", function: { name: "get_weather", description: "Tells the weather.",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } } };
const schema = { title: "answer", type: "object", properties: { ok: { type: "boolean" } }, required: ["ok"], additionalProperties: false };
const say = '[[<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>]]';
const headers = { Authorization: "Bearer secret" };
const openai = { configuration: { baseURL: url + "/v1" }, apiKey: "secret", model, maxRetries: 0 };

for (const chat of [new ChatOllama({ baseUrl: url, headers, model, maxRetries: 0 }), new ChatOpenAI(openai)]) {
  const kind = chat.constructor.name;
  assert.equal((await chat.invoke("[[Good morning.]]")).content, "Good morning.", kind);
  let text = "";
  for await (const chunk of await chat.stream("[[Good evening.]]")) text += chunk.content;
  assert.equal(text, "Good evening.", kind);
  const called = await chat.bindTools([weather]).invoke(say);
  assert.deepEqual(called.tool_calls.map((c) => [c.name, c.args]), [["get_weather", { city: "Rome" }]], kind);
  const after = await chat.bindTools([weather]).invoke([{ role: "user", content: "Weather?" }, called,
    { role: "tool", tool_call_id: called.tool_calls[0].id, name: "get_weather", content: "[[It is sunny.]]" }]);
  assert.equal(after.content, "It is sunny.", kind);
  assert.equal(typeof (await chat.withStructuredOutput(schema, { method: "jsonSchema" }).invoke('Is it? [[{"ok": true}]]')).ok, "boolean", kind);
  await assert.rejects(async () => {
    const control = new AbortController();
    for await (const _ of await chat.stream("[[" + "On and on. ".repeat(300) + "]]", { signal: control.signal })) control.abort();
  }, kind);
}
for (const embeddings of [new OllamaEmbeddings({ baseUrl: url, headers, model }), new OpenAIEmbeddings(openai)]) {
  const all = await embeddings.embedDocuments(["The king", "The queen"]);
  assert.deepEqual([all.length, all[0].length], [2, (await embeddings.embedQuery("The king")).length]);
}
console.log("all as expected");
