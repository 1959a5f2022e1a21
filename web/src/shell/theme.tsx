import { effect } from "@preact/signals";
import { Icon, type IconName } from "./icon";
import { stored } from "./stored";

type Theme = "auto" | "light" | "dark";

export const theme = stored<Theme>("theme", "auto", (v) => (["auto", "light", "dark"] as const).find((t) => t === v));
effect(() => {
  document.documentElement.dataset.theme = theme.value;
});

const next: Record<Theme, Theme> = { auto: "light", light: "dark", dark: "auto" };
const icons: Record<Theme, IconName> = { auto: "auto", light: "sun", dark: "moon" };
const names: Record<Theme, string> = { auto: "the system's", light: "light", dark: "dark" };

export function ThemeButton() {
  const label = `Theme: ${names[theme.value]}. Change to ${names[next[theme.value]]}`;
  return (
    <button type="button" class="icon" aria-label={label} title={label} onClick={() => (theme.value = next[theme.value])}>
      <Icon name={icons[theme.value]} />
    </button>
  );
}
