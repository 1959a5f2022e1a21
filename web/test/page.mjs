// Tries the page in a browser: node page.mjs PROGRAM URL LIBRARY [FOLDER], with the browser's program, the addresses of a server of the embedded model
// and of one of several models, and a folder for pictures. Every step fails by throwing; messages on the console and requests to elsewhere fail at
// the end.
import assert from "node:assert/strict";
import { accessible, browser, open, pictures as folder, said } from "./browser.mjs";
import { archive, attachments, conversation, probabilities, stopping } from "./chat.mjs";
import { imports, untrusted } from "./imports.mjs";
import { phone, themes } from "./looks.mjs";
import { fetching, fullContext, oneModel, places, severalModels } from "./models.mjs";
import { neurons, onDisk } from "./neurons.mjs";
import { blind, photos, pictures, picturesLook, picturesStored } from "./pictures.mjs";
import { closed, deletions, keys, stale, stored, together } from "./tabs.mjs";
import { streaming, text } from "./text.mjs";

/** The steps that are tried, with commas between them; none: all are. */
const only = (process.env.PAGE_STEP ?? "").split(",").filter(Boolean);

try {
  const page = await open({});
  await accessible(page, "the beginning");
  for (const step of [conversation, stopping, attachments, probabilities, neurons, archive, text]) await timed(step, page);
  await page.context().close();
  for (const step of [
    streaming,
    together,
    keys,
    stale,
    deletions,
    closed,
    stored,
    imports,
    untrusted,
    oneModel,
    onDisk,
    severalModels,
    fetching,
    fullContext,
    places,
    themes,
    phone,
    pictures,
    picturesStored,
    photos,
    blind,
    picturesLook,
  ])
    await timed(step);
  assert.deepEqual(said, [], "messages on the console, errors, requests to elsewhere");
} catch (failure) {
  if (folder) for (const c of browser.contexts()) for (const p of c.pages()) await p.screenshot({ path: `${folder}/failure.png` });
  console.error(said.join("\n"));
  throw failure;
} finally {
  await browser.close();
}

async function timed(step, page) {
  if (only.length > 0 && !only.includes(step.name)) return;
  const begin = performance.now();
  await step(page);
  console.log(`${step.name}: ${Math.round(performance.now() - begin)} ms`);
}
