import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { accessible, answered, finish, lastAnswer, profile, push, said, say, scripted, tab, until, url } from "./browser.mjs";

/** Lets a test keep a tab from hearing others, as one that the browser has frozen: window.deaf. */
const gate = () => {
  const real = Object.getOwnPropertyDescriptor(BroadcastChannel.prototype, "onmessage");
  Object.defineProperty(BroadcastChannel.prototype, "onmessage", {
    set(hear) {
      real.set.call(this, (e) => window.deaf || hear(e));
    },
  });
};

/** Two tabs of a new profile, whose answers come from push. */
async function tabs() {
  const context = await profile({});
  await context.addInitScript(gate);
  const a = await tab(context);
  const b = await tab(context);
  await scripted(a);
  await scripted(b);
  return { context, a, b };
}

const composer = (page) => page.getByLabel("Message", { exact: true });
const messages = (page) => page.locator(".message .said, .message .markdown").allInnerTexts();
const shows = (page, all) => until(`${JSON.stringify(all)} is shown`, async () => JSON.stringify(await messages(page)) === JSON.stringify(all));
const answerOf = async (page, text) => {
  await push(page, text);
  await finish(page);
  await answered(page);
};

/** Says something in tab a, and shows the conversation in tab b. */
async function begun(a, b) {
  await say(a, "One.");
  await b.getByRole("link", { name: "One." }).click();
  await shows(b, ["One."]);
}

/** Two tabs show one conversation as it is written. */
export async function together() {
  const { context, a, b } = await tabs();
  await begun(a, b);
  await push(a, "An answer");
  await shows(b, ["One.", "An answer"]);
  await b.getByText("Another tab receives this answer").waitFor();
  await b.getByTitle("The model answers").waitFor();
  await accessible(b, "an answer that another tab receives");
  await composer(b).fill("Two.");
  await b.keyboard.press("Enter");
  assert.equal(await composer(b).inputValue(), "Two.", "a message meanwhile is not sent");
  await push(a, " in two pieces.");
  await shows(b, ["One.", "An answer in two pieces."]);
  await finish(a);
  await answered(b);
  await b.keyboard.press("Enter");
  await shows(a, ["One.", "An answer in two pieces.", "Two."]);
  await push(b, "Another answer");
  await shows(a, ["One.", "An answer in two pieces.", "Two.", "Another answer"]);
  await a.getByRole("button", { name: "Stop" }).click();
  for (const page of [a, b]) await lastAnswer(page).getByText("stopped").waitFor();

  await lastAnswer(b).hover();
  await lastAnswer(b).getByRole("button", { name: "Retry" }).click();
  await answerOf(b, "A third answer.");
  await shows(a, ["One.", "An answer in two pieces.", "Two.", "A third answer."]);
  await lastAnswer(a).getByText("2/2").waitFor();

  await b.getByRole("link", { name: "One." }).hover();
  await b.getByRole("button", { name: "Rename One." }).click();
  await b.getByLabel("Title").fill("The first");
  await b.keyboard.press("Enter");
  await a.getByRole("link", { name: "The first" }).waitFor();
  await a.getByRole("heading", { name: "The first" }).waitFor({ state: "attached" });

  // Settings and the key are those of all tabs; a field that is being filled stays as it is.
  await a.getByRole("button", { name: "Settings" }).click();
  await b.getByRole("button", { name: "Settings" }).click();
  await b.getByLabel("System message").fill("Be brief.");
  await b.getByRole("textbox", { name: "API key" }).fill("sesame");
  await b.getByLabel("Top-k").fill("7");
  await b.getByLabel("Top-k").blur();
  await until("the settings follow", async () => (await a.getByLabel("Top-k").inputValue()) === "7");
  assert.equal(await a.getByLabel("System message").inputValue(), "Be brief.");
  assert.equal(await a.getByRole("textbox", { name: "API key" }).inputValue(), "sesame");
  await context.close();
}

/** A server asks for a key: one tab gives it, and the others have it. */
export async function keys() {
  const { context, a, b } = await tabs();
  await context.route("**/v1/models", (route) =>
    route.request().headers().authorization === "Bearer sesame"
      ? route.continue()
      : route.fulfill({ status: 401, json: { error: { message: "the key is missing", type: "authentication_error" } } }),
  );
  const asks = (page) => page.getByRole("dialog", { name: "API key" });
  for (const page of [a, b]) {
    await page.getByRole("button", { name: "Model:" }).click();
    await asks(page).waitFor();
  }
  await asks(a).getByLabel("The server asks for a key").fill("sesame");
  await asks(a).getByRole("button", { name: "Use it" }).click();
  for (const page of [a, b]) {
    await asks(page).waitFor({ state: "hidden" });
    await page.getByRole("dialog", { name: "Models" }).getByText("tales").waitFor();
    await until("the list is there", async () => (await page.getByRole("dialog", { name: "Models" }).getByRole("alert").count()) === 0);
  }
  await context.close();
  const other = said.filter((line) => !line.includes("401")); // Chromium says that there was one
  said.splice(0, said.length, ...other);
}

/** A tab that heard nothing of the other one changes the same conversation: all stays. */
export async function stale() {
  const { context, a, b } = await tabs();
  await begun(a, b);
  await answerOf(a, "An answer.");
  await shows(b, ["One.", "An answer."]);
  await answered(b);
  await b.evaluate(() => (window.deaf = true));
  await say(a, "From a.");
  await push(a, "To a");
  await say(b, "From b.");
  await answerOf(b, "To b.");
  await shows(a, ["One.", "An answer.", "From a.", "To a"]);
  await a.getByRole("alert").getByText("Both answers stay").waitFor();
  await push(a, ".");
  await finish(a);
  await answered(a);
  await shows(a, ["One.", "An answer.", "From a.", "To a."]);
  await a.reload();
  const own = ["One.", "An answer.", "From a.", "To a."];
  const others = ["One.", "An answer.", "From b.", "To b."];
  const shown = async () => JSON.stringify(await messages(a));
  await until("one of the branches is shown", async () => [own, others].map((all) => JSON.stringify(all)).includes(await shown()));
  const branch = (name) => a.locator(".message.user").last().getByRole("button", { name }).click();
  if ((await shown()) === JSON.stringify(own)) {
    // which one depends on which tab stored last
    await branch("Next branch");
  }
  await shows(a, others);
  await branch("Previous branch");
  await shows(a, own);

  // It deletes a message that the other tab has gone on from.
  await scripted(a);
  await say(a, "Later.");
  await answerOf(a, "To the later.");
  await b.locator(".message.user").first().hover();
  await b.locator(".message.user").first().getByRole("button", { name: "Delete" }).click();
  await b.getByRole("alert").getByText("another tab has gone on from it").waitFor();
  await shows(a, ["One.", "An answer.", "From a.", "To a.", "Later.", "To the later."]);
  await context.close();
}

/** What one tab deletes is gone in the other one, where it is being written, too. */
export async function deletions() {
  const { context, a, b } = await tabs();
  await begun(a, b);
  await answerOf(a, "An answer.");
  await shows(b, ["One.", "An answer."]);
  await answered(b);
  await lastAnswer(b).hover();
  await lastAnswer(b).getByRole("button", { name: "Delete" }).click();
  await shows(a, ["One."]);

  await say(a, "Two.");
  await push(a, "Half an");
  await composer(a).fill("What I write");
  await b.getByRole("link", { name: "One." }).hover();
  await b.getByRole("button", { name: "Delete One." }).click();
  await a.getByRole("alert").getByText("Another tab has deleted the conversation").waitFor();
  assert.equal(await composer(a).inputValue(), "What I write");
  for (const page of [a, b]) await until("the list is empty", async () => (await page.locator("nav li").count()) === 0);
  await a.reload();
  await answered(a);
  assert.equal(await a.locator("nav li").count(), 0, "after a reload");
  await context.close();
}

/** A tab that ends in the middle of an answer loses what was not stored, and no more; the other tab goes on. */
export async function closed() {
  const { context, a, b } = await tabs();
  await begun(a, b);
  const keeps = (page, text) =>
    until(`${text} is stored`, async () => {
      await push(page, " more"); // an answer is stored when there is something new of it
      const stored = await b.evaluate(
        () =>
          new Promise((resolve) => {
            const open = indexedDB.open("powerinfer");
            open.onsuccess = () => {
              const all = open.result.transaction("conversations").objectStore("conversations").getAll();
              all.onsuccess = () => (open.result.close(), resolve(JSON.stringify(all.result)));
            };
          }),
      );
      return stored.includes(text);
    });
  await push(a, "The beginning");
  await keeps(a, "The beginning");
  const session = await context.newCDPSession(a);
  session.send("Page.crash").catch(() => {});
  await b.getByText("cut off: its tab was closed").waitFor();
  assert.match((await messages(b))[1], /^The beginning/);
  await b.getByRole("button", { name: "Continue" }).click();
  await push(b, " and the end.");
  await finish(b);
  await answered(b);
  assert.match((await messages(b))[1], /^The beginning.* and the end\.$/);

  const c = await tab(context, b.url());
  await scripted(c);
  await say(c, "Two.");
  await push(c, "Half");
  await b.getByText("Another tab receives this answer").waitFor();
  await keeps(c, "Half");
  await c.close();
  await answered(b);
  await b.getByText("cut off: its tab was closed").waitFor();
  await context.close();
}

/** What the browser does not store is said, shown and exported, and stored when it can be. */
export async function stored() {
  const { context, a, b } = await tabs();
  const session = await context.newCDPSession(a);
  const origin = new URL(url).origin;
  await session.send("Storage.overrideQuotaForOrigin", { origin, quotaSize: 1 });
  await say(a, "One.");
  await answerOf(a, "Not stored.");
  await a.getByRole("alert").getByText("The browser has no more room").waitFor();
  await shows(a, ["One.", "Not stored."]);
  await a.getByRole("button", { name: "New conversation" }).click();
  await a.getByRole("link", { name: "One." }).click();
  await shows(a, ["One.", "Not stored."]);
  const download = a.waitForEvent("download");
  await a.getByRole("button", { name: "Export all conversations" }).click();
  const [exported] = JSON.parse(readFileSync(await (await download).path(), "utf8")).conversations;
  assert.deepEqual(
    Object.values(exported.messages).map((m) => m.content),
    ["One.", "Not stored."],
  );
  await session.send("Storage.overrideQuotaForOrigin", { origin });
  await say(a, "Two.");
  await answerOf(a, "Stored.");
  await b.getByRole("link", { name: "One." }).click();
  await shows(b, ["One.", "Not stored.", "Two.", "Stored."]);

  // The browser's data are cleared: what a tab shows is stored again with what is said next.
  await session.send("Storage.clearDataForOrigin", { origin, storageTypes: "indexeddb" });
  await say(a, "Again.");
  await answerOf(a, "Stored again.");
  const c = await tab(context, a.url());
  await shows(c, ["One.", "Not stored.", "Two.", "Stored.", "Again.", "Stored again."]);
  await c.close();

  // Where there is no room, conversations can be deleted all the same.
  await session.send("Storage.overrideQuotaForOrigin", { origin, quotaSize: 1 });
  await b.getByRole("link", { name: "One." }).hover();
  await b.getByRole("button", { name: "Delete One." }).click();
  await a.getByRole("alert").getByText("Another tab has deleted the conversation").waitFor();
  await session.send("Storage.overrideQuotaForOrigin", { origin });
  await b.reload();
  await answered(b);
  assert.equal(await b.locator("nav li").count(), 0);

  // A newer version of the page opens the database; this one gives way, and says so.
  await b.evaluate(
    () =>
      new Promise((resolve, reject) => {
        const open = indexedDB.open("powerinfer", 3);
        open.onsuccess = () => (open.result.close(), resolve());
        open.onerror = () => reject(open.error);
      }),
  );
  await say(a, "Three.");
  await answerOf(a, "Shown.");
  await a.getByRole("alert").getByText("A newer version of this page").waitFor();
  await shows(a, ["Three.", "Shown."]);
  await context.close();

  const without = await profile({});
  await without.addInitScript(() =>
    Object.defineProperty(window, "indexedDB", {
      get() {
        throw new DOMException("no", "SecurityError");
      },
    }),
  );
  const page = await tab(without);
  await page.getByRole("alert").getByText("This browser stores nothing for this page").waitFor();
  await accessible(page, "a page without a database");
  await scripted(page);
  await say(page, "One.");
  await answerOf(page, "An answer.");
  await page.getByRole("button", { name: "New conversation" }).click();
  await page.getByRole("link", { name: "One." }).click();
  await shows(page, ["One.", "An answer."]);
  await without.close();
}
