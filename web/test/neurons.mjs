import assert from "node:assert/strict";
import { accessible, endless, lastAnswer, limitTokens, open, pictures, say, until } from "./browser.mjs";

export async function neurons(page) {
  await page.getByRole("button", { name: "New conversation" }).click();
  await limitTokens(page, 24);
  await endless(page);
  await say(page, "Tell me of the old king.");
  await lastAnswer(page).locator(".took").filter({ hasText: "24 tokens" }).waitFor();
  await limitTokens(page, -1);
  await page.getByRole("button", { name: "Neurons", exact: true }).click();
  const panel = page.getByRole("complementary", { name: "Neurons" });
  // What was answered before it opened.
  await panel.getByRole("heading", { name: "The last answer" }).waitFor();
  await panel
    .locator(".figures")
    .filter({ hasText: /Speed\s*[\d.]+\s*tokens\/s\s*Active\s*[\d.]+ %/ })
    .waitFor();
  await page.reload();
  await panel.getByRole("heading", { name: "The last answer" }).waitFor();
  assert.ok((await panel.locator(".chart path").first().getAttribute("d")).length > 20, "a chart after a reload");
  await endless(page);
  await panel.getByText("Predictors choose the neurons").waitFor();
  await accessible(page, "the neurons at rest");
  await say(page, "Tell me a long story.");
  await panel.getByRole("img", { name: "Heat map of 6 layers" }).waitFor();
  const lit = (c) => {
    if (!c.width || !c.height) return 0;
    // A copy is read, since Chromium warns of a canvas that is read often.
    const copy = new OffscreenCanvas(c.width, c.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(c, 0, 0);
    const { data } = copy.getImageData(0, 0, c.width, c.height);
    const shades = new Set();
    for (let i = 3; i < data.length; i += 4) shades.add(data[i]);
    return shades.size;
  };
  await until("the heat map has more than 20 shades", async () => (await panel.locator("canvas").evaluate(lit)) > 20);
  const figures = /Speed\s*[\d.]+\s*tokens\/s.*Active\s*[\d.]+ %.*Read\s*[\d.]+ [KM]iB/; // what is first told may be of the prompt alone
  await panel.locator(".figures").filter({ hasText: figures }).waitFor();
  await panel
    .locator(".parts")
    .filter({ hasText: /Predictor [\d.]+ ms.*Attention [\d.]+ ms.*Neurons [\d.]+ ms/ })
    .waitFor();

  const slider = panel.getByLabel("Sparse threshold");
  await slider.fill("4");
  const row = panel.getByRole("row", { name: "4.0" });
  await row.waitFor();
  const far = Number(await row.getByRole("cell").nth(3).innerText());
  await slider.fill("-6");
  const near = Number(await panel.getByRole("row", { name: "−6.0" }).getByRole("cell").nth(3).innerText());
  assert.ok(near < far && far > 1e-4, `a divergence of ${far} at a threshold of 4, ${near} at -6`);
  await accessible(page, "the neurons at work");
  await chartsFill(panel);
  if (pictures) await page.screenshot({ path: `${pictures}/page-neurons.png` });

  // The reader's place stays while there is news, and when the panel is shown again.
  const place = () => panel.evaluate((p) => p.scrollTop);
  await panel.evaluate((p) => (p.scrollTop = 150));
  const news = await panel.locator(".figures").innerText();
  await until("other figures", async () => (await panel.locator(".figures").innerText()) !== news);
  assert.equal(await place(), 150, "the place while there is news");
  await page.getByRole("button", { name: "Close the neurons" }).click();
  await page.getByRole("button", { name: "Neurons", exact: true }).click();
  assert.equal(await place(), 150, "the place after the panel was closed");
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("button", { name: "Close the neurons" }).click();
  assert.equal(await panel.count(), 0);
}

/** A model larger than memory: where what tokens needed was, and what was read. */
export async function onDisk() {
  const page = await open({ viewport: { width: 1280, height: 1000 } });
  const context = page.context();
  await context.route("**/neurons?model=*", async (route) => {
    const d = await (await route.fetch()).json();
    await route.fulfill({ json: { ...d, disk: { units: 4096, kept_units: 1024, bytes: 4 * 2 ** 30, kept_bytes: 2 ** 30 } } });
  });
  const times = { predictor_ms: 0, attention_ms: 20, neurons_ms: 70, head_ms: 5, other_ms: 0 };
  const steps = { steps: 10, tokens: 10, chosen: 10, ms: 100, ...times, gpu: null, together_ms: 0, bytes: 100 * 2 ** 20, ram_bytes: 80 * 2 ** 20 };
  const disk = { kept: 75, ahead: 5, read: 20, reads: 60, bytes: 40 * 2 ** 20, reading_ms: 80, waiting_ms: 45 };
  const generation = { ...steps, dense_bytes: 0, disk };
  const layers = Array(6).fill(1);
  const told = {
    model: "",
    ms: 100,
    threshold: 0,
    generation,
    prompts: { ...generation, tokens: 0 },
    computed: layers,
    active: layers,
    map: layers.map(() => btoa("a")),
  };
  await context.route("**/neurons/events?model=*", (route) =>
    route.fulfill({ contentType: "text/event-stream", body: `data: ${JSON.stringify(told)}\n\n` }),
  );
  await page.reload();
  await page.getByRole("button", { name: "Neurons", exact: true }).click();
  const panel = page.getByRole("complementary", { name: "Neurons" });
  const section = panel.locator("section").filter({ hasText: "Larger than memory" });
  for (const text of [
    /4\.0 MiB from disk per token/,
    /RAM has room for 1,024 of 4,096 neurons, 1\.0 GiB of 4\.0 GiB/,
    /RAM 75\S* ?%.*Read ahead 5\S* ?%.*Disk 20\S* ?%/,
    /GPU 2\.0 MiB.*RAM 8\.0 MiB.*Disk 4\.0 MiB/,
    /Waiting for the disk took 45\S* ?% of the time; it was read at 500 MiB\/s/,
  ])
    await section.filter({ hasText: text }).waitFor();
  // The processor's neurons took 7 ms of a token's 10, of which it waited for 4.5.
  await panel
    .locator(".parts")
    .filter({ hasText: /Neurons 2\.50 ms.*Disk 4\.50 ms/ })
    .waitFor();
  await accessible(page, "a model on disk");
  if (pictures) await page.screenshot({ path: `${pictures}/page-disk.png` });
  await context.close();
}

/** Fails unless the lines of all charts go from edge to edge. */
export async function chartsFill(panel) {
  for (const chart of await panel.locator(".chart").all()) {
    const title = await chart.locator("figcaption span").first().innerText();
    for (const line of await chart.locator("path").all()) {
      const ends = await line.evaluate((p) => [p.getBBox().x, p.getBBox().width]);
      assert.deepEqual(ends, [0, 300], `the ${await line.getAttribute("class")} line of ${title}`);
    }
  }
}
