import { useState } from "preact/hooks";
import { announce } from "./announce";
import { Icon } from "./icon";

/** For how long a button says that it has copied, in milliseconds. */
const saysFor = 1500;

export function CopyButton({ text, label }: { text: () => string; label: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text());
    } catch {
      copyBySelection(text()); // pages that come by plain HTTP from another machine have no clipboard
    }
    setCopied(true);
    announce("Copied");
    setTimeout(() => setCopied(false), saysFor);
  };
  return (
    <button type="button" class="icon small" aria-label={label} title={label} onClick={copy}>
      <Icon name={copied ? "check" : "copy"} />
    </button>
  );
}

function copyBySelection(text: string): void {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "hidden";
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
