// The hub's own client for JavaScript fetches a file into the cache and says what it finds there: cache.mjs ENDPOINT FOLDER
import { downloadFileToCacheDir, scanCacheDir } from "@huggingface/hub";

const [hubUrl, cacheDir] = process.argv.slice(2);
await downloadFileToCacheDir({ repo: "user/one", path: "one-F16.gguf", revision: "main", hubUrl, cacheDir });
const found = await scanCacheDir(cacheDir);
const files = found.repos.flatMap((r) => r.revisions.flatMap((v) => v.files.map((f) => `${r.id.name} ${v.commitOid} ${v.refs} ${f.path}`)));
console.log(JSON.stringify({ files, warnings: found.warnings.map(String) }));
