// Prints what Hugging Face's library makes of hard texts with a published tokenizer. node reference.mjs tokenizer.json seed
import { Tokenizer } from 'tokenizers';
import { encode, texts } from './texts.mjs';
const list = texts(Number(process.argv[3]), 150, 100);
const tokenizer = Tokenizer.fromFile(process.argv[2]);
console.log(JSON.stringify({ texts: list, results: await encode(tokenizer, list) }));
