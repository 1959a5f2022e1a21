import { size } from "../shell/size";
import { percent } from "./heatmap";
import { description, recent, recently } from "./live";
import { Shares } from "./shares";

/** Where the experts or neurons of a model larger than memory were when tokens needed them, and what was read. */
export function Disk() {
  const d = description.value!;
  const kept = d.disk!;
  const what = d.layers.some((y) => y.experts) ? "experts" : "neurons";
  const s = recent(recently);
  const used = s?.disk;
  const uses = used ? used.kept + used.ahead + used.read : 0;
  return (
    <section class="disk">
      <h3>Larger than memory {s && used && <span class="unit">{size(used.bytes / s.tokens)} from disk per token</span>}</h3>
      <p class="lead">
        RAM has room for {kept.kept_units.toLocaleString("en")} of {kept.units.toLocaleString("en")} {what}, {size(kept.kept_bytes)} of{" "}
        {size(kept.bytes)}.
      </p>
      {s && used && uses > 0 ? (
        <>
          <h4>Where {what} were</h4>
          <Shares
            parts={[
              { name: "RAM", kind: "cold", share: used.kept, text: percent(used.kept / uses) },
              { name: "Read ahead", kind: "ahead", share: used.ahead, text: percent(used.ahead / uses) },
              { name: "Disk", kind: "disk", share: used.read, text: percent(used.read / uses) },
            ].filter((p) => p.share > 0)}
          />
          <h4>What a token reads</h4>
          <Shares
            parts={[
              { name: "GPU", kind: "hot", share: s.bytes - s.ram_bytes, text: size((s.bytes - s.ram_bytes) / s.tokens) },
              { name: "RAM", kind: "cold", share: s.ram_bytes, text: size(s.ram_bytes / s.tokens) },
              { name: "Disk", kind: "disk", share: used.bytes, text: size(used.bytes / s.tokens) },
            ].filter((p) => p.share > 0)}
          />
          <p class="lead">
            Waiting for the disk took {percent(used.waiting_ms / s.ms)} of the time
            {used.reading_ms > 0 && <>; it was read at {size((used.bytes / used.reading_ms) * 1000)}/s</>}.
          </p>
        </>
      ) : (
        <p class="lead">What was read is shown while tokens are generated.</p>
      )}
    </section>
  );
}
