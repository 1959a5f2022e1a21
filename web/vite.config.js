import { readFileSync } from "node:fs";
import { defineConfig } from "vite";

// The licences of what the page's script holds of others, beside it.
const licenses = () => ({
  name: "licenses",
  generateBundle() {
    const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8"));
    const shipped = Object.entries(packages).filter(([folder, it]) => folder && !it.dev && !it.optional); // optional: types
    const names = shipped.map(([folder]) => folder.replace("node_modules/", "")).sort();
    const source = names.map((name) => {
      const { version, license } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8"));
      return `${name} ${version} (${license})\n\n${readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim()}\n`;
    });
    this.emitFile({ type: "asset", fileName: "licenses.txt", source: source.join(`\n${"-".repeat(80)}\n\n`) });
  },
});

export default defineConfig({
  base: "./",
  plugins: [licenses()],
  build: {
    emptyOutDir: true, // of dist, from which internal/server/page/pack takes it
    target: ["chrome123", "firefox121", "safari17.5"], // which know light-dark()
    modulePreload: false,
    sourcemap: false,
    reportCompressedSize: false,
    assetsInlineLimit: 0,
  },
  server: {
    proxy: Object.fromEntries(["/v1", "/props", "/models", "/neurons"].map((path) => [path, "http://127.0.0.1:8080"])),
  },
});
