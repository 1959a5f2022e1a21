// Tries what the page does with conversations and does not need a browser for: node --test pure.mjs.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { strToU8, zipSync } from "fflate";
import { build } from "vite";

const path = (name) => fileURLToPath(new URL(name, import.meta.url));
const [{ output }] = await build({
  configFile: false,
  logLevel: "warn",
  build: { write: false, minify: false, lib: { entry: path("pure.ts"), formats: ["es"] } },
});
const pure = await import(`data:text/javascript;base64,${Buffer.from(output[0].code).toString("base64")}`);
const { added, followed, merged, newConversation, path: shown, read, readFile, removed, renamed, replaced, subtree, told } = pure;

const rich = readFileSync(path("conversation.json"), "utf8");
const bytes = (v) => new TextEncoder().encode(typeof v === "string" ? v : JSON.stringify(v));
const why = (v) => {
  try {
    read(v instanceof Uint8Array ? v : bytes(v));
  } catch (failure) {
    assert.ok(!/\n| at .*:\d/.test(failure.message), failure.message);
    return failure.message;
  }
  return "read";
};
const own = (...conversations) => ({ format: "powerinfer-conversations-1", conversations });
const message = (id, parent, more = {}) => ({ id, parent, role: "user", content: `${id} says`, created: 1000 + id.charCodeAt(0), ...more });
const conversation = (id, messages, more = {}) => ({
  id,
  title: `About ${id}`,
  created: 1000,
  updated: 2000,
  messages: Object.fromEntries(messages.map((m) => [m.id, m])),
  chosen: {},
  ...more,
});
const [A, B] = [message("a", null), message("b", "a", { role: "assistant" })];

/** v with its field at a path of names set. */
function put(v, at, value) {
  const copy = structuredClone(v);
  const names = at.split(".");
  const last = names.pop();
  const target = names.reduce((o, n) => o[n], copy);
  if (value === undefined) delete target[last];
  else Object.defineProperty(target, last, { value, enumerable: true, configurable: true, writable: true });
  return copy;
}

test("an export is imported without a loss", () => {
  const full = conversation(
    "full",
    [
      message("a", null, { attachments: [{ name: "x.txt", text: "<b>" }], pictures: [{ name: "x.png", url: "data:image/png;base64,iVBORw0=" }] }),
      message("b", "a", {
        role: "assistant",
        reasoning: "hm",
        calls: [{ id: "c1", name: "f", arguments: "{}" }],
        tokens: [{ token: "a", logprob: -0.5, top: [{ token: "b", logprob: -1e-7 }] }],
        timings: { predicted_n: 3, draft_n: 1 },
        finish: "tool_calls",
        model: "m",
        first: "a",
      }),
      message("c", "b", { role: "tool", callID: "c1" }),
      message("d", "a", { role: "assistant", error: "It broke.", finish: "error" }),
    ],
    { chosen: { root: "a", a: "d" } },
  );
  const { conversations, notes } = read(bytes(own(full)));
  assert.deepEqual(conversations, [full]);
  assert.deepEqual(notes, []);
  assert.deepEqual(read(bytes(rich)).conversations, JSON.parse(rich).conversations, "as the page wrote it before it had tokens in exports");
});

test("every field of an export is checked", () => {
  const good = own(
    conversation("one", [A, B]),
    conversation("two", [A, message("b", "a", { role: "assistant", calls: [], tokens: [], timings: {} })]),
  );
  assert.equal(why(good), "read");
  const m = "conversations.1.messages";
  for (const [at, value, says] of [
    ["conversations", {}, /no list of conversations/],
    ["conversations", [], /holds no conversations/],
    ["conversations.0", 5, /^Conversation 1: it is not a conversation/],
    ["conversations.1.id", undefined, /^Conversation 2: its id is missing/],
    ["conversations.1.id", "__proto__", /its id is "__proto__"/],
    ["conversations.1.id", "a b", /its id is/],
    ["conversations.1.id", "x".repeat(200), /its id is "x{59}…/],
    ["conversations.1.title", 7, /its title/],
    ["conversations.1.title", "x".repeat(2000), /its title/],
    ["conversations.1.created", "yesterday", /Conversation 2 \(“About two”\): its created is "yesterday"/],
    ["conversations.1.updated", 1e300, /its updated is 1e\+300/],
    ["conversations.1.updated", -1, /its updated/],
    ["conversations.1.updated", null, /its updated is null/],
    ["conversations.1.chosen", [], /its chosen is not an object/],
    [m, [], /it has no messages/],
    [`${m}.b`, null, /Conversation 2 \(“About two”\), message 2: it is not a message/],
    [`${m}.b.id`, "c", /is called "b" and has the id "c"/],
    [`${m}.b.id`, "constructor", /its id is "constructor"/],
    [`${m}.b.role`, "admin", /message 2: its role is "admin"/],
    [`${m}.b.role`, ["user"], /its role is/],
    [`${m}.b.content`, undefined, /its content is not a text/],
    [`${m}.b.content`, { toString: "x" }, /its content is not a text/],
    [`${m}.b.parent`, "gone", /message "b" follows "gone", which is not there/],
    [`${m}.b.parent`, "b", /message "b" follows itself/],
    [`${m}.a.parent`, "b", /follows itself/],
    [`${m}.b.parent`, 3, /its parent is 3/],
    [`${m}.b.created`, 1e99, /its created is 1e\+99/],
    [`${m}.b.created`, "1", /its created is "1"/],
    [`${m}.b.reasoning`, 1, /its reasoning is not a text/],
    [`${m}.b.error`, {}, /its error is not a text/],
    [`${m}.b.model`, [], /its model is not a text/],
    [`${m}.b.finish`, true, /its finish is not a text/],
    [`${m}.b.first`, 0, /its first is not a text/],
    [`${m}.b.callID`, 0, /its callID is not a text/],
    [`${m}.b.calls`, "x", /its calls is not a list/],
    [`${m}.b.calls`, [{ id: "1", name: "f" }], /entry 1 of its calls/],
    [
      `${m}.b.attachments`,
      [
        { name: "x", text: "y" },
        { name: "x", text: 1 },
      ],
      /entry 2 of its attachments/,
    ],
    [`${m}.b.pictures`, {}, /its pictures is not a list/],
    [`${m}.b.pictures`, [{ name: "x", url: "https://example.com/x.png" }], /entry 1 of its pictures/],
    [`${m}.b.pictures`, [{ name: "x", url: "data:image/svg+xml;base64,AAAA" }], /entry 1 of its pictures/],
    [`${m}.b.pictures`, [{ name: 1, url: "data:image/png;base64,AAAA" }], /entry 1 of its pictures/],
    [`${m}.b.tokens`, [{ token: "a", logprob: "0", top: [] }], /entry 1 of its tokens/],
    [`${m}.b.tokens`, [{ token: "a", logprob: 0, top: [null] }], /entry 1 of its tokens/],
    [`${m}.b.timings`, { predicted_n: "5" }, /timings/],
    [`${m}.b.timings`, { __proto__: null, toString: 5 }, /timings/],
    [`${m}.b.timings`, 5, /its timings is not an object/],
    ["format", "powerinfer-conversations-2", /newer version of this page/],
    ["format", "powerinfer-conversations-x", /does not exist/],
    ["format", 1, /no conversations that this page knows/],
  ]) {
    const message = why(put(good, at, value));
    assert.match(message, says, `${at} = ${JSON.stringify(value)}`);
    assert.match(message, /Nothing was imported\.|Choose a file/, at);
  }
});

test("names that every object has are no keys", () => {
  const evil = '{"__proto__":{"polluted":1},"id":"b","parent":"a","role":"assistant","content":"","created":1}';
  const text = JSON.stringify(own(conversation("one", [A]))).replace('"messages":{', `"messages":{"__proto__":${evil},`);
  assert.match(why(text), /is called "__proto__"/);
  const inside = JSON.stringify(own(conversation("one", [A]))).replace('"content"', '"__proto__":{"polluted":1},"content"');
  const { conversations, notes } = read(bytes(inside));
  assert.equal(conversations[0].messages.a.polluted, undefined);
  assert.match(notes[0], /__proto__/);
  assert.equal({}.polluted, undefined);
});

test("fields that are not known are named", () => {
  const { notes } = read(bytes(own(conversation("one", [{ ...A, mood: "good" }], { pinned: true }))));
  assert.deepEqual(notes, ["Left out what this version of the page does not know: pinned, mood."]);
});

test("long conversations are read and drawn in a time that grows with them", () => {
  const n = 20_000;
  const chain = Array.from({ length: n }, (_, i) => message(`m${i}`, i > 0 ? `m${i - 1}` : null, { content: "x" }));
  const [c] = read(bytes(own(conversation("long", chain.reverse())))).conversations;
  assert.equal(shown(c).length, n);
  assert.equal(subtree(c, c.messages.m0).size, n);
});

test("files that are no exports are refused by name", () => {
  const gpt = [{ title: "x", mapping: { a: { id: "a", message: null, parent: null, children: [] } }, current_node: "a" }];
  for (const [file, says] of [
    ["", /is empty/],
    ["  \n", /is empty/],
    ["hello", /is not JSON/],
    ["<!doctype html>", /a web page/],
    [rich.slice(0, 3000), /damaged or breaks off/],
    [`${rich}}`, /damaged or breaks off/],
    ["[".repeat(200_000), /damaged or breaks off/],
    ["[]", /no conversations/],
    ["null", /no conversations/],
    ["5", /no conversations/],
    ['{"a":1}', /JSON, but holds no conversations/],
    [gpt, /export of ChatGPT/],
    [[{ uuid: "1", name: "x", chat_messages: [] }], /export of Claude/],
    [[{ id: "1", chat: { history: { messages: {} } } }], /export of Open WebUI/],
    [{ messages: [{ role: "user", content: "x" }] }, /OpenAI's API/],
    [new Uint8Array([0x47, 0x47, 0x55, 0x46, 3, 0, 0, 0]), /a model \(GGUF\)/],
    [new Uint8Array([0x1f, 0x8b, 8, 0]), /gzip/],
    [new Uint8Array([0x89, 0x50, 0x4e, 0x47]), /a picture/],
    [new Uint8Array([0xff, 0xfe, 0x7b, 0]), /not a text in UTF-8/],
    [new Uint8Array([0x7b, 0, 0x7d, 0]), /not a text in UTF-8/],
    [new Uint8Array([0x50, 0x4b, 3, 4, 1, 2, 3]), /archive is damaged/],
    [zipSync({ "notes.txt": strToU8("x") }), /archive holds no file/],
    [zipSync({ "conversations.json": bytes(gpt) }), /conversations.json: The file is an export of ChatGPT/],
    [zipSync({ "a.jsonl": strToU8("{}"), "b.jsonl": strToU8("x") }), /^a.jsonl: /],
  ])
    assert.match(why(file), says, String(file).slice(0, 60));
});

test("a file that no tab has room for is not read", async () => {
  const file = {
    size: 500 << 20,
    arrayBuffer() {
      assert.fail("it is read");
    },
  };
  await assert.rejects(readFile(file), /The file has 500 MiB; 200 MiB are the most/);
});

test("an archive that says to unpack to more than there is room for is not unpacked", () => {
  const archive = zipSync({ "a.jsonl": strToU8("x".repeat(5000)), "b.jsonl": strToU8("y") });
  const entry = Buffer.from(archive).indexOf("PK\x01\x02", 0, "latin1");
  const sized = (n) => {
    const copy = archive.slice();
    new DataView(copy.buffer).setUint32(entry + 24, n, true);
    return copy;
  };
  assert.match(why(sized(201 << 20)), /more than 200 MiB/);
  assert.match(why(sized(3)), /not JSON|damaged/, "one that says less is no larger than it says");
});

const conv = { id: "0b8e12e0-5b7f-4b43-a4f9-92c3f84ad4f2", name: "Kings", lastModified: 9000, currNode: "n3" };
const nodes = [
  { convId: conv.id, id: "n0", type: "root", role: "system", content: "", timestamp: 1, parent: null, children: ["n1"] },
  { convId: conv.id, id: "n1", type: "system", role: "system", content: "Be brief.", timestamp: 2, parent: "n0", children: ["n2"] },
  {
    convId: conv.id,
    id: "n2",
    type: "text",
    role: "user",
    content: "Who?",
    timestamp: 3,
    parent: "n1",
    children: ["n3", "n4"],
    extra: [
      { type: "TEXT", name: "a.txt", content: "text" },
      { type: "IMAGE", name: "a.png", base64Url: "data:image/png;base64,AAAA" },
      { type: "IMAGE", name: "a.svg", base64Url: "data:image/svg+xml;base64,AAAA" },
    ],
  },
  {
    convId: conv.id,
    id: "n3",
    type: "text",
    role: "assistant",
    content: "",
    reasoningContent: "hm",
    toolCalls: JSON.stringify([{ id: "c1", type: "function", function: { name: "f", arguments: "{}" } }]),
    timestamp: 4,
    parent: "n2",
    children: [],
    model: "m",
    timings: { predicted_n: 10, predicted_ms: 100 },
  },
  {
    convId: conv.id,
    id: "n4",
    type: "text",
    role: "assistant",
    content: "A king.",
    thinking: "",
    toolCalls: "",
    timestamp: 5,
    parent: "n2",
    children: [],
  },
];
const kings = {
  id: conv.id,
  title: "Kings",
  created: 3,
  updated: 9000,
  messages: {
    n2: {
      id: "n2",
      parent: null,
      role: "user",
      content: "Who?",
      attachments: [{ name: "a.txt", text: "text" }],
      pictures: [{ name: "a.png", url: "data:image/png;base64,AAAA" }],
      created: 3,
    },
    n3: {
      id: "n3",
      parent: "n2",
      role: "assistant",
      content: "",
      reasoning: "hm",
      calls: [{ id: "c1", name: "f", arguments: "{}" }],
      timings: { predicted_n: 10, predicted_ms: 100, predicted_per_second: 100 },
      finish: "tool_calls",
      model: "m",
      created: 4,
    },
    n4: { id: "n4", parent: "n2", role: "assistant", content: "A king.", finish: "stop", created: 5 },
  },
  chosen: { root: "n2", n2: "n3" },
};

test("exports of llama-server's page are read in all their forms", () => {
  const lines = (c, all) =>
    [
      { harness: "llama.app", type: "session", ...c },
      ...all.map((m) => ({ message: m.toolCalls ? { ...m, toolCalls: JSON.parse(m.toolCalls) } : m, type: "message" })),
    ]
      .map((r) => JSON.stringify(r))
      .join("\n");
  const other = { ...conv, id: "other", currNode: null };
  for (const [form, file, n] of [
    ["one", { conv, messages: nodes }, 1],
    [
      "a list",
      [
        { conv, messages: nodes },
        { conv: other, messages: nodes },
      ],
      2,
    ],
    ["lines", bytes(lines(conv, nodes)), 1],
    ["lines of two", bytes(`${lines(conv, nodes)}\n${lines(other, nodes)}\n`), 2],
    ["an archive", zipSync({ "a.jsonl": strToU8(lines(conv, nodes)), "b.jsonl": strToU8(lines(other, nodes)), "notes.txt": strToU8("no") }), 2],
  ]) {
    const { conversations, notes } = read(file instanceof Uint8Array ? file : bytes(file));
    assert.equal(conversations.length, n, form);
    assert.deepEqual(conversations[0], kings, form);
    assert.match(notes.join(), /Left out, .*: \d system messages?, \d pictures? of an unknown kind\./, form);
  }
  const first = {
    id: "conv-1700000000000",
    lastModified: 50,
    messages: [
      { id: 10, role: "user", content: "Hi\nthere" },
      { id: 11, role: "assistant", content: null },
    ],
  };
  assert.deepEqual(read(bytes(first)).conversations, [
    {
      id: "conv-1700000000000",
      title: "Hi",
      created: 10,
      updated: 50,
      messages: {
        10: { id: "10", parent: null, role: "user", content: "Hi\nthere", created: 10 },
        11: { id: "11", parent: "10", role: "assistant", content: "", finish: "stop", created: 11 },
      },
      chosen: {},
    },
  ]);
});

test("damaged exports of llama-server's page are refused with the place", () => {
  const good = { conv, messages: nodes };
  for (const [at, value, says] of [
    ["conv.id", 5.5, /Conversation 1: its id is 5.5/],
    ["conv.id", "__proto__", /its id is "__proto__"/],
    ["conv.name", 5, /its title/],
    ["conv.lastModified", "now", /its updated is "now"/],
    ["messages.2.role", "bot", /its role is "bot"/],
    ["messages.2.id", "n3", /message 4 has the id "n3", which another has/],
    ["messages.2.id", {}, /message 3 has the id \{\}/],
    ["messages.2.content", 5, /its content is not a text/],
    ["messages.2.timestamp", "x", /its created is "x"/],
    ["messages.2.parent", "n9", /follows "n9", which is not there/],
    ["messages.2.parent", "n3", /follows itself/],
    ["messages.1.parent", "n1", /follows itself/],
    ["messages.2.extra", 5, /message 3: its extra is not a list/],
    ["messages.3.toolCalls", "[", /message 4: its toolCalls are not JSON/],
    ["messages.3.toolCalls", "[5]", /entry 1 of its calls/],
    ["messages.3", null, /message 4 is not one/],
  ])
    assert.match(why(put(good, at, value)), says, `${at} = ${JSON.stringify(value)}`);
  assert.match(why([good, 5]), /Conversation 2: it is not one/);
  assert.match(why('{"type":"session","id":"a"}\n{"type":"mess'), /Line 2 of the file is damaged/);
});

/** An archive in memory, which imports conversations, and what it says. */
function archive() {
  const all = new Map();
  let ids = 0;
  const put = async (...list) => {
    const outcomes = [];
    for (const c of list) {
      const { outcome, conversation } = await merged(
        c,
        async (id) => all.get(id),
        () => `new${ids++}`,
      );
      if (conversation) all.set(conversation.id, conversation);
      outcomes.push(outcome);
    }
    return told(outcomes, []);
  };
  return { all, put };
}

test("an import keeps what is here", async () => {
  const { all, put } = archive();
  const [one, two] = [conversation("one", [A, B]), conversation("two", [A])];
  assert.equal(await put(one, two), "2 conversations imported.");
  assert.equal(await put(one), "1 conversation was already here.");
  const longer = conversation("one", [A, B, message("c", "b")], { title: "Renamed", updated: 500, chosen: { root: "a" } });
  assert.equal(await put(longer, two, conversation("three", [A])), "1 conversation imported, 1 merged, 1 was already here.");
  assert.equal(all.get("one").title, "About one");
  assert.equal(all.get("one").updated, 2000);
  assert.deepEqual(Object.keys(all.get("one").messages), ["a", "b", "c"]);
  assert.equal(await put(one), "1 conversation was already here.", "an older export");

  const changed = conversation("one", [A, { ...B, content: "other" }, message("d", "b")]);
  assert.equal(await put(changed), "1 conversation merged.");
  const now = all.get("one");
  assert.equal(now.messages.b.content, "b says", "what is here stays");
  assert.equal(now.messages.new0.content, "other", "what is in the file is a branch");
  assert.equal(now.messages.d.parent, "new0", "and what follows it in the file does so here");
  assert.equal(await put(changed), "1 conversation was already here.", "a second time");
});

test("an older state of an answer that went on adds nothing", async () => {
  const { all, put } = archive();
  await put(conversation("one", [A, { ...B, content: "b says more" }]));
  assert.equal(await put(conversation("one", [A, B])), "1 conversation was already here.");
  assert.equal(await put(conversation("one", [A, { ...B, content: "b says more and more" }])), "1 conversation merged.");
  assert.equal(all.get("one").messages.b.content, "b says more");
});

test("another conversation with the same id has a new one", async () => {
  const { all, put } = archive();
  await put(conversation("one", [A, B]));
  const stranger = conversation("one", [message("x", null), message("y", "x")]);
  assert.equal(await put(stranger), "1 conversation imported.");
  assert.equal(await put(stranger), "1 conversation was already here.");
  assert.deepEqual([...all.keys()], ["one", "one-2"]);
});

test("changes of two tabs both stay", () => {
  const start = [added([], A), added([A], B)].reduce((c, f) => f(c), { ...newConversation(), updated: 0 });
  const [mine, theirs] = [message("m", "b"), message("t", "b")];
  for (const order of [
    [mine, theirs],
    [theirs, mine],
  ]) {
    const c = order.reduce((c, m) => added([A, B], m)(c), start);
    assert.deepEqual(Object.keys(c.messages).sort(), ["a", "b", "m", "t"]);
    assert.equal(shown(c).at(-1).id, order[1].id, "the last one said is shown");
  }
  const gone = removed(subtree(start, B))(start);
  assert.deepEqual(Object.keys(gone.messages), ["a"]);
  assert.deepEqual(Object.keys(added([A, B], mine)(gone).messages).sort(), ["a", "b", "m"], "what is answered is there");
  assert.equal(replaced({ ...B, content: "late" })(gone).messages.b, undefined, "a deleted answer does not come back");
  const ahead = added([A, B], theirs)(start);
  assert.deepEqual(Object.keys(removed(subtree(start, B))(ahead).messages).sort(), ["a", "b", "t"], "what another tab went on from stays");
  assert.equal(renamed("New")(ahead).title, "New");
});

test("a tab follows branches that were chosen elsewhere, but not away from what it watches", () => {
  const own = { root: "a", a: "b" };
  assert.deepEqual(followed(own, own, { root: "a", a: "c" }, new Set()), { root: "a", a: "c" });
  assert.deepEqual(followed(own, own, { root: "a", a: "c" }, new Set(["a", "b"])), own);
  assert.deepEqual(followed({ root: "a", a: "x" }, own, own, new Set()), { root: "a", a: "x" }, "its own choice, which is not stored");
  assert.deepEqual(followed({}, {}, { b: "c" }, new Set()), { b: "c" });
});
