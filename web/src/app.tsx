import { Chat } from "./chat/chat";
import { refresh } from "./chat/models";
import { Neurons } from "./neurons/view";
import { Announcer } from "./shell/announce";
import { Icon } from "./shell/icon";
import { KeySheet } from "./shell/key";
import { ModelButton, ModelsSheet } from "./shell/models";
import { neuronsOpen } from "./shell/neurons";
import { SettingsSheet } from "./shell/settings";
import { Sidebar, sidebarOpen } from "./shell/sidebar";

export function App() {
  return (
    <>
      <Sidebar />
      {sidebarOpen.value && <div class="shade" onClick={() => (sidebarOpen.value = false)} />}
      <main>
        <header class="top">
          <button
            type="button"
            class="icon narrow-only"
            aria-label="Conversations"
            aria-controls="sidebar"
            aria-expanded={sidebarOpen.value}
            onClick={() => (sidebarOpen.value = true)}
          >
            <Icon name="menu" />
          </button>
          <ModelButton />
          <button type="button" class="toggle" aria-pressed={neuronsOpen.value} onClick={() => (neuronsOpen.value = !neuronsOpen.value)}>
            <Icon name="grid" />
            Neurons
          </button>
        </header>
        <div class="views">
          <Chat />
          {neuronsOpen.value && <Neurons />}
        </div>
      </main>
      <ModelsSheet />
      <SettingsSheet />
      <KeySheet entered={refresh} />
      <Announcer />
    </>
  );
}
