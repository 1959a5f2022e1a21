import { apiKey, keyRefused } from "../api/client";
import { Sheet } from "./sheet";

/** Asks for the key where the server wants one. */
export function KeySheet({ entered }: { entered: () => void }) {
  return (
    <Sheet open={keyRefused} title="API key" kind="middle">
      <form
        onSubmit={(e) => {
          e.preventDefault();
          keyRefused.value = false;
          apiKey.value = new FormData(e.currentTarget).get("key")!.toString().trim();
          entered();
        }}
      >
        <label class="setting wide">
          <span>The server asks for a key</span>
          <input type="password" name="key" autocomplete="off" defaultValue={apiKey.value} />
        </label>
        <div class="buttons">
          <button type="submit" class="primary">
            Use it
          </button>
        </div>
      </form>
    </Sheet>
  );
}
