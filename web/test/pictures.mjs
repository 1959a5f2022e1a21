import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import {
  accessible,
  answered,
  finish,
  laidOut,
  lastAnswer,
  library,
  pictures as folder,
  profile,
  push,
  say,
  scripted,
  tab,
  until,
  url,
} from "./browser.mjs";

const composer = (page) => page.getByLabel("Message", { exact: true });
const waiting = (page) => page.locator(".composer").getByRole("list", { name: "Pictures" });
const names = (list) => list.locator("img").evaluateAll((all) => all.map((i) => i.alt));

/** The messages of the request that was sent last, which is looked at once. */
async function asked(page) {
  await page.waitForFunction(() => window.asked);
  return page.evaluate(() => {
    const { messages } = window.asked;
    window.asked = null;
    return messages;
  });
}

const urls = (message) => message.content.filter((p) => p.type === "image_url").map((p) => p.image_url.url);

/** Has the models of a server see pictures, or not; each prompt has a hundred tokens. */
async function eyes(context, vision) {
  await context.route("**/v1/chat/completions/input_tokens", (route) => route.fulfill({ json: { input_tokens: 100 } }));
  await context.route(/\/props\?model=/, async (route) => {
    const response = await route.fetch();
    const props = await response.json();
    await route.fulfill({ response, json: { ...props, modalities: { ...props.modalities, vision: vision(new URL(route.request().url())) } } });
  });
}

async function seeing(options = {}) {
  const context = await profile(options);
  await eyes(context, () => true);
  const page = await tab(context);
  await scripted(page);
  return { context, page };
}

/** A file of a picture that a browser draws: two colours, left and right. */
async function drawn(page, name, width, height, type = "image/png") {
  const base64 = await page.evaluate(
    async ([width, height, type]) => {
      const canvas = new OffscreenCanvas(width, height);
      const c = canvas.getContext("2d");
      c.fillStyle = "#c00";
      c.fillRect(0, 0, width, height);
      c.fillStyle = "#04c";
      c.fillRect(width / 2, 0, width, height);
      const bytes = new Uint8Array(await (await canvas.convertToBlob({ type })).arrayBuffer());
      return btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join(""));
    },
    [width, height, type],
  );
  return { name, mimeType: type, buffer: Buffer.from(base64, "base64") };
}

/** Does what a browser does when files are pasted, or dropped on the page. */
async function give(page, how, files, texts = {}) {
  await page.evaluate(
    ([how, files, texts]) => {
      const data = new DataTransfer();
      for (const { name, type, base64 } of files) data.items.add(new File([Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))], name, { type }));
      for (const [type, text] of Object.entries(texts)) data.setData(type, text);
      const init = { bubbles: true, cancelable: true };
      if (how === "paste") document.querySelector(".composer textarea").dispatchEvent(new ClipboardEvent("paste", { ...init, clipboardData: data }));
      else
        for (const kind of ["dragover", "drop"]) document.querySelector("main").dispatchEvent(new DragEvent(kind, { ...init, dataTransfer: data }));
    },
    [how, files.map((f) => ({ name: f.name, type: f.mimeType, base64: f.buffer.toString("base64") })), texts],
  );
}

const attach = (page, ...files) => page.getByLabel("Picture files", { exact: true }).setInputFiles(files);
const dataOf = (f) => `data:${f.mimeType};base64,${f.buffer.toString("base64")}`;

async function end(page, text) {
  await push(page, text);
  await finish(page);
  await answered(page);
}

async function shot(page, name) {
  if (folder) await page.screenshot({ path: `${folder}/pictures-${name}.png` });
}

/** Pictures are attached, pasted and dropped, taken away, sent, kept, exported and imported. */
export async function pictures() {
  const { context, page } = await seeing();
  const [a, b, c, d] = await Promise.all(["a.png", "b.png", "c.png", "d.png"].map((name, i) => drawn(page, name, 40 + i, 30)));
  await attach(page, a, b);
  await give(page, "paste", [c]);
  await give(page, "drop", [d]);
  await until("four pictures wait", async () => (await names(waiting(page))).join() === "a.png,b.png,c.png,d.png");
  await accessible(page, "pictures that wait");
  await waiting(page).getByRole("button", { name: "Remove b.png" }).press("Enter");
  await until("three pictures wait", async () => (await names(waiting(page))).join() === "a.png,c.png,d.png");
  assert.ok(await composer(page).evaluate((e) => e === document.activeElement), "the focus after a picture was taken away");

  await give(page, "paste", [a], { "text/plain": "x", "text/html": "<b>x</b>" });
  assert.equal((await names(waiting(page))).length, 3, "a picture that a program adds to the text that it copies");

  await say(page, "What is this?");
  assert.deepEqual((await asked(page))[0].content, [
    ...[a, c, d].map((f) => ({ type: "image_url", image_url: { url: dataOf(f) } })),
    { type: "text", text: "What is this?" },
  ]);
  const looked = { total: 100, cache: 0, processed: 0, time_ms: 1, pictures: { total: 81, processed: 27 } };
  await page.evaluate((data) => window.push(data), JSON.stringify({ choices: [{ delta: {} }], prompt_progress: looked }));
  const bar = page.getByRole("progressbar", { name: "Looking at the pictures" });
  await until("the page shows how far the tower is", async () => (await bar.getAttribute("value")) === "27");
  await end(page, "Three flags.");
  assert.equal(await bar.count(), 0, "progress with pictures after the answer has begun");
  assert.equal(await waiting(page).count(), 0, "pictures that wait after they were sent");
  const said = page.locator(".message.user").getByRole("list", { name: "Pictures" });
  assert.deepEqual(await names(said), ["a.png", "c.png", "d.png"]);

  await said.getByRole("button", { name: "Enlarge c.png" }).click();
  const dialog = page.getByRole("dialog", { name: "c.png" });
  assert.equal(await dialog.getByRole("img", { name: "c.png" }).evaluate((i) => i.naturalWidth), 42);
  await accessible(page, "a large picture");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "hidden" });

  await page.reload();
  await scripted(page);
  await until("the pictures are there after a reload", async () => (await names(said)).length === 3);
  await accessible(page, "a message with pictures");
  await attach(page, b);
  await waiting(page).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Send" }).click(); // no text
  const [first, , second] = await asked(page);
  assert.deepEqual(urls(first), [a, c, d].map(dataOf), "the history after a reload");
  assert.deepEqual(second.content, [{ type: "image_url", image_url: { url: dataOf(b) } }], "a picture without a text");
  await end(page, "One flag.");

  await lastAnswer(page).hover();
  await lastAnswer(page).getByRole("button", { name: "Retry" }).click();
  assert.deepEqual(urls((await asked(page))[2]), [dataOf(b)], "asked again");
  await end(page, "A flag.");
  await page.locator(".message.user").first().hover();
  await page.locator(".message.user").first().getByRole("button", { name: "Edit" }).click();
  await page.locator(".editing textarea").fill("Which flags are these?");
  await page.locator(".editing").getByRole("button", { name: "Send" }).click();
  const edited = await asked(page);
  assert.equal(edited.length, 1);
  assert.deepEqual([urls(edited[0]), edited[0].content.at(-1).text], [[a, c, d].map(dataOf), "Which flags are these?"], "edited");
  await end(page, "Of no country.");

  const link = page.getByRole("link", { name: "What is this?" });
  const download = page.waitForEvent("download");
  await link.hover();
  await page.getByRole("button", { name: "Export What is this?" }).click();
  const file = await (await download).path();
  const exported = Object.values(JSON.parse(readFileSync(file, "utf8")).conversations[0].messages);
  assert.deepEqual(
    exported.filter((m) => m.role === "user").map((m) => m.pictures.map((p) => p.url)),
    [[a, c, d].map(dataOf), [dataOf(b)], [a, c, d].map(dataOf)],
  );
  const count = () => stored(page, "pictures");
  await until("all pictures are stored", async () => (await count()) === 7);
  await page.locator(".message.user").first().hover();
  await page.locator(".message.user").first().getByRole("button", { name: "Delete" }).click();
  await until("the pictures of a branch that was deleted are gone", async () => (await count()) === 4);
  await link.hover();
  await page.getByRole("button", { name: "Delete What is this?" }).click();
  await until("a deleted conversation leaves no pictures", async () => (await count()) === 0);

  const other = await tab(context);
  for (const outcome of ["1 conversation imported.", "1 conversation was already here."]) {
    await other.getByLabel("Exported conversations", { exact: true }).setInputFiles(file);
    await other.getByText(outcome).waitFor();
  }
  await other.getByRole("link", { name: "What is this?" }).click();
  await until("the pictures were imported", async () => (await names(other.locator(".message.user"))).join() === "a.png,c.png,d.png");
  await until("the imported pictures are stored", async () => (await stored(other, "pictures")) === 7);
  await context.close();
}

/** How many records a store of the page's database has. */
function stored(page, store) {
  return page.evaluate(
    (store) =>
      new Promise((resolve) => {
        const open = indexedDB.open("powerinfer");
        open.onsuccess = () => {
          const all = open.result.transaction(store).objectStore(store).count();
          all.onsuccess = () => (open.result.close(), resolve(all.result));
        };
      }),
    store,
  );
}

/** Two tabs show the same pictures, and conversations that an earlier version stored stay. */
export async function picturesStored() {
  const context = await profile({});
  await eyes(context, () => true);
  const before = await context.newPage();
  await before.goto(`${url}licenses.txt`);
  await before.evaluate(
    () =>
      new Promise((resolve) => {
        const open = indexedDB.open("powerinfer", 1);
        open.onupgradeneeded = () =>
          open.result.createObjectStore("conversations", { keyPath: "id" }).createIndex("entry", ["updated", "id", "title"]);
        open.onsuccess = () => {
          const tx = open.result.transaction("conversations", "readwrite");
          const messages = { m: { id: "m", parent: null, role: "user", content: "I am old.", created: 1 } };
          tx.objectStore("conversations").put({ id: "old", title: "Old", created: 1, updated: 2, messages, chosen: {} });
          tx.oncomplete = () => (open.result.close(), resolve());
        };
      }),
  );
  await before.close();
  const a = await tab(context);
  const b = await tab(context);
  for (const page of [a, b]) await scripted(page);
  await a.getByRole("link", { name: "Old" }).click();
  await a.getByText("I am old.").waitFor();
  await b.getByRole("link", { name: "Old" }).click();
  const flag = await drawn(a, "flag.png", 40, 30);
  await attach(a, flag);
  await waiting(a).waitFor();
  await say(a, "And this?");
  await push(a, "A flag");
  await until("the other tab shows it", async () => (await names(b.locator(".message.user"))).join() === "flag.png");
  await end(a, ".");
  await answered(b);
  await say(b, "Of which country?");
  assert.deepEqual(urls((await asked(b))[1]), [dataOf(flag)], "another tab goes on");
  await end(b, "Of none.");
  await until("both tabs show it", async () => (await names(a.locator(".message.user"))).length === 1);
  assert.equal(await stored(a, "pictures"), 1);
  await context.close();
}

/** Large photos become smaller and stand upright; what cannot be read is said. */
export async function photos() {
  const { context, page } = await seeing();
  const photo = await drawn(page, "photo.jpg", 4096, 1024, "image/jpeg");
  // EXIF data with orientation 6: turned by a quarter to the right. The left half, which is red, comes to the top.
  const turned = Buffer.from("ffe1002245786966000049492a00080000000100120103000100000006000000" + "00000000", "hex");
  photo.buffer = Buffer.concat([photo.buffer.subarray(0, 2), turned, photo.buffer.subarray(2)]);
  const noise = await page.evaluate(async () => {
    const canvas = new OffscreenCanvas(900, 900);
    const c = canvas.getContext("2d");
    const pixels = c.createImageData(900, 900);
    let x = 1;
    for (let i = 0; i < pixels.data.length; i++) pixels.data[i] = i % 4 === 3 ? 255 : (x = (x * 48271) % 2147483647) & 255;
    c.putImageData(pixels, 0, 0);
    const bytes = new Uint8Array(await (await canvas.convertToBlob()).arrayBuffer());
    let text = "";
    for (let i = 0; i < bytes.length; i += 4096) text += String.fromCharCode(...bytes.subarray(i, i + 4096));
    return btoa(text);
  });
  const screen = await drawn(page, "screen.png", 3000, 1500);
  await attach(page, photo, screen, { name: "noise.png", mimeType: "image/png", buffer: Buffer.from(noise, "base64") });
  await until("three pictures wait", async () => (await names(waiting(page))).length === 3);
  await say(page, "What are these?");
  const sent = urls((await asked(page))[0]);
  const seen = await page.evaluate(
    (all) =>
      Promise.all(
        all.map(async (url) => {
          const img = new Image();
          img.src = url;
          await img.decode();
          const canvas = new OffscreenCanvas(img.naturalWidth, img.naturalHeight);
          const c = canvas.getContext("2d");
          c.drawImage(img, 0, 0);
          const [r, , b] = c.getImageData(canvas.width >> 1, canvas.height >> 3, 1, 1).data;
          return [url.slice(0, url.indexOf(";")), canvas.width, canvas.height, r > 150 && b < 100 ? "red" : "other"];
        }),
      ),
    sent,
  );
  assert.deepEqual(seen.slice(0, 2), [
    ["data:image/jpeg", 512, 2048, "red"],
    ["data:image/png", 2048, 1024, seen[1][3]],
  ]);
  assert.deepEqual(seen[2].slice(0, 3), ["data:image/jpeg", 900, 900], "a PNG file of several MiB");
  await end(page, "Flags.");

  for (const [name, mimeType] of [
    ["IMG_1.HEIC", ""],
    ["broken.png", "image/png"],
  ]) {
    await attach(page, { name, mimeType: mimeType || "application/octet-stream", buffer: Buffer.from("ftypheic\0\0\0\0") });
    await page.getByRole("alert").getByText(`This browser cannot read ${name} as a picture: save it as JPEG or PNG`).waitFor();
    await page.getByRole("button", { name: "Dismiss" }).click();
  }
  assert.equal(await waiting(page).count(), 0);
  await context.close();
}

/** A model without eyes says so before anything is sent. */
export async function blind() {
  const context = await profile({});
  await eyes(context, (at) => at.searchParams.get("model") === "first");
  const page = await tab(context, library);
  for (const name of ["first", "second"]) await context.request.post(`${library}models/load`, { data: { model: name } });
  await page.reload();
  await scripted(page);
  const choose = async (name) => {
    await page.getByRole("button", { name: "Model:" }).click();
    await page.getByRole("dialog", { name: "Models" }).getByRole("button", { name }).first().click();
    await page.getByRole("button", { name: "Model:" }).filter({ hasText: name }).waitFor();
  };
  const button = page.getByRole("button", { name: "Attach pictures" });
  const able = (want) =>
    until(`pictures ${want ? "can" : "cannot"} be attached`, async () => (await button.getAttribute("aria-disabled")) !== `${want}`);
  const says = "second reads text only: choose a model that sees, or start the server with the model's --mmproj file.";
  const flag = await drawn(page, "flag.png", 40, 30);

  await choose("second");
  await able(false);
  assert.equal(await button.getAttribute("title"), says);
  const refused = async (how, act) => {
    await act();
    await page.getByRole("alert").getByText(says).waitFor();
    assert.equal(await waiting(page).count(), 0, `a picture after ${how}`);
    await page.getByRole("button", { name: "Dismiss" }).click();
  };
  await refused("a paste", () => give(page, "paste", [flag]));
  await refused("a drop", () => give(page, "drop", [flag]));
  await refused("the button", () => button.press("Enter"));
  await accessible(page, "a model without eyes");

  await choose("first");
  await able(true);
  await attach(page, flag);
  await waiting(page).waitFor();
  await choose("second");
  await page.getByRole("alert").getByText(says).waitFor();
  await composer(page).fill("What is this?");
  assert.ok(await page.getByRole("button", { name: "Send" }).isDisabled(), "a picture for a model without eyes");
  await accessible(page, "a picture for a model without eyes");
  await shot(page, "blind");
  await choose("first");
  await able(true);
  await composer(page).press("Enter");
  assert.deepEqual(urls((await asked(page))[0]), [dataOf(flag)], "sent to a model that sees");
  await end(page, "A flag.");

  await choose("second");
  await page.getByText("second reads text only: of the pictures in this conversation it is told the names.").waitFor();
  await say(page, "Of which country?");
  assert.equal((await asked(page))[0].content, "[picture: flag.png]\nWhat is this?");
  await end(page, "I cannot see it.");
  await context.close();
}

/** Both themes, wide and narrow: each once, and all for pictures of the page. */
export async function picturesLook() {
  const narrow = { viewport: { width: 390, height: 780 }, hasTouch: true };
  for (const [name, options] of [
    ["light", { colorScheme: "light" }],
    ["dark-narrow", { colorScheme: "dark", ...narrow }],
    ["dark", { colorScheme: "dark" }],
    ["light-narrow", { colorScheme: "light", ...narrow }],
  ].slice(0, folder ? 4 : 2)) {
    const { context, page } = await seeing(options);
    const some = [];
    for (const [file, width, height] of [
      ["sunset over the old harbour of the town, seen from the tower.png", 900, 300],
      ["tall.png", 200, 900],
      ["flag.png", 300, 200],
      ["dot.png", 2, 2],
      ["wide.png", 1600, 100],
    ])
      some.push(await drawn(page, file, width, height));
    const fits = async (what) =>
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), 0, `the width of ${what}, ${name}`);
    for (const n of [1, 5]) {
      await attach(page, ...some.slice(0, n));
      await until("they wait", async () => (await names(waiting(page))).length === n);
      await say(page, n === 1 ? "What is to be seen in this picture?" : "And in these?");
      await asked(page);
      await end(page, "An **old harbour** in the evening.");
    }
    await attach(page, ...some);
    await until("they wait", async () => (await names(waiting(page))).length === 5);
    await fits("messages with pictures");
    await accessible(page, `pictures, ${name}`);
    await shot(page, name);
    await page.locator(".messages").evaluate((v) => (v.scrollTop = 0));
    await laidOut(page);
    await shot(page, `${name}-top`);
    await page.getByRole("button", { name: "Enlarge sunset" }).last().click();
    await page.getByRole("dialog").waitFor();
    await fits("a large picture");
    await accessible(page, `a large picture, ${name}`);
    await shot(page, `${name}-large`);
    await context.close();
  }
}
