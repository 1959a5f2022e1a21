// Prints what Hugging Face's library makes of hard texts with a published tokenizer, and of lists of ids. node reference.mjs tokenizer.json seed
import fs from 'node:fs';
import { Tokenizer } from 'tokenizers';
import { composed } from './composed.mjs';
import { encode, texts } from './texts.mjs';
const [file, seed] = process.argv.slice(2);
const more = composed(JSON.parse(fs.readFileSync(file, 'utf8')), seed, 500);
const list = [...texts(Number(seed), 150, 100), ...more.texts];
const tokenizer = Tokenizer.fromFile(file);
const decoded = [];
for (const ids of more.decode) decoded.push({ ids, text: await tokenizer.decode(ids, false) });
console.log(JSON.stringify({ texts: list, results: await encode(tokenizer, list), decoded }));
