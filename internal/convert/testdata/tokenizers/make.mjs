// Writes vectors.json.gz: small tokenizers built of the components that published ones have, trained here on the texts
// themselves, and what Hugging Face's library makes of the texts with each. npm ci && node make.mjs
import fs from 'node:fs';
import zlib from 'node:zlib';
import { Tokenizer } from 'tokenizers';
import { encode, texts } from './texts.mjs';

const seq = (kind, list) => ({ type: 'Sequence', [kind]: list });
const split = (Regex, behavior = 'Isolated', invert = false) => ({ type: 'Split', pattern: { Regex }, behavior, invert });
const byteLevel = (use_regex, add_prefix_space = false) => ({ type: 'ByteLevel', add_prefix_space, trim_offsets: true, use_regex });
const replace = (String, content) => ({ type: 'Replace', pattern: { String }, content });
const short = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const tail = String.raw` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
const llama3 = short + String.raw`|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|` + tail;
const qwen2 = short + String.raw`|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|` + tail;
const up = String.raw`[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`, low = String.raw`[\p{Ll}\p{Lm}\p{Lo}\p{M}]`, lead = String.raw`[^\r\n\p{L}\p{N}]?`;
const slash = String.raw` ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
const gpt4o = `${lead}${up}*${low}+${short}?|${lead}${up}+${low}*${short}?|` + String.raw`\p{N}{1,3}|` + slash;
const han = s => s.slice(0, -1) + String.raw`&&[^\p{Han}]]`;
const kimi = String.raw`[\p{Han}]+|` + `${lead}${han(up)}*${han(low)}+${short}?|${lead}${han(up)}+${han(low)}*${short}?|` + String.raw`\p{N}{1,3}|` + tail;
const deepseek = [split(String.raw`\p{N}{1,3}`), split('[一-龥぀-ゟ゠-ヿ]+'),
  split('[!"#$%&\'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+'), byteLevel(false)];
const cl100k = String.raw`'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`;
const fallbackDecoder = strip => seq('decoders', [replace('▁', ' '), { type: 'ByteFallback' }, { type: 'Fuse' }, ...(strip ? [{ type: 'Strip', content: ' ', start: 1, stop: 0 }] : [])]);
const template = (before, after) => ({ type: 'TemplateProcessing', single: [...before.map(id => ({ SpecialToken: { id, type_id: 0 } })), { Sequence: { id: 'A', type_id: 0 } }, ...after.map(id => ({ SpecialToken: { id, type_id: 0 } }))], pair: [{ Sequence: { id: 'A', type_id: 0 } }, { Sequence: { id: 'B', type_id: 1 } }], names: [...before, ...after] });
const meta = (prepend_scheme, split) => ({ type: 'Metaspace', replacement: '▁', prepend_scheme, split });
const bytes = (pre_tokenizer, more = {}) => ({ kind: 'bytes', normalizer: null, pre_tokenizer, decoder: byteLevel(true, true), ...more });
const pieces = (normalizer, pre_tokenizer, more = {}) => ({ kind: 'pieces', normalizer, pre_tokenizer, decoder: fallbackDecoder(true), ...more });

const specs = {
  'gpt2': bytes(byteLevel(true)),
  'roberta': bytes(byteLevel(true, true), { post: { type: 'RobertaProcessing', sep: ['</s>', 2], cls: ['<s>', 1], trim_offsets: true, add_prefix_space: true } }),
  'llama3': bytes(seq('pretokenizers', [split(llama3), byteLevel(false)]), { ignore_merges: true, before: ['<s>'] }),
  'qwen2': bytes(seq('pretokenizers', [split(qwen2), byteLevel(false)]), { normalizer: { type: 'NFC' } }),
  'gpt35': bytes(seq('pretokenizers', [split(llama3, 'Removed', true), byteLevel(false)])),
  'gpt4o': bytes(seq('pretokenizers', [split(gpt4o), byteLevel(false)])),
  'kimi': bytes(seq('pretokenizers', [split(kimi), byteLevel(false)])),
  'possessive': bytes(seq('pretokenizers', [split(cl100k), byteLevel(false)])),
  'deepseek': bytes(seq('pretokenizers', deepseek), { normalizer: seq('normalizers', []) }),
  'falcon': bytes(seq('pretokenizers', [{ type: 'Punctuation', behavior: 'Contiguous' }, byteLevel(true), { type: 'Digits', individual_digits: false }, split('[0-9][0-9][0-9]')])),
  'command-r': bytes(seq('pretokenizers', [{ type: 'Digits', individual_digits: true }, byteLevel(true)]), { normalizer: { type: 'NFC' }, before: ['<s>'], after: ['<tool>', '</s>'] }),
  'thousands': bytes(seq('pretokenizers', [split(String.raw`\d{1,3}(?=(?:\d{3})*\b)`), split(gpt4o), byteLevel(false)])),
  'superbpe': bytes(seq('pretokenizers', [split(String.raw`\p{N}+`), split(String.raw`(?=(\d{3})+(?!\d))`), byteLevel(false)])),
  'claude': bytes(byteLevel(true), { normalizer: { type: 'NFKC' } }),
  'llama2': pieces(seq('normalizers', [{ type: 'Prepend', prepend: '▁' }, replace(' ', '▁')]), null, { before: ['<s>'] }),
  'gemma': pieces(replace(' ', '▁'), { type: 'Split', pattern: { String: ' ' }, behavior: 'MergedWithPrevious', invert: false }, { before: ['<s>'], decoder: fallbackDecoder(false) }),
  'first': pieces(null, meta('first', false), { decoder: seq('decoders', [meta('first', false)]) }),
  'always': pieces(null, meta('always', true), { byte_fallback: false }),
  'stripped': pieces(seq('normalizers', [{ type: 'NFD' }, { type: 'StripAccents' }, { type: 'Lowercase' }, { type: 'Strip', strip_left: true, strip_right: true }, { type: 'Replace', pattern: { Regex: ' {2,}' }, content: '▁' }, replace(' ', '▁')]), null, { byte_fallback: false, fuse_unk: false }),
  'suffix': pieces({ type: 'Lowercase' }, { type: 'Whitespace' }, { byte_fallback: false, end_of_word_suffix: '</w>', decoder: null }),
  'xlm-r': { kind: 'unigram', normalizer: seq('normalizers', [{ type: 'Nmt' }, { type: 'NFKC' }, { type: 'Replace', pattern: { Regex: ' {2,}' }, content: ' ' }]), pre_tokenizer: seq('pretokenizers', [{ type: 'WhitespaceSplit' }, meta('always', true)]), decoder: meta('always', true), before: ['<s>'], after: ['</s>'] },
  't5': { kind: 'unigram', byte_fallback: true, normalizer: null, pre_tokenizer: meta('always', true), decoder: fallbackDecoder(true), after: ['</s>'] },
  'bert': { kind: 'wordpiece', normalizer: { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true }, pre_tokenizer: { type: 'BertPreTokenizer' }, decoder: { type: 'WordPiece', prefix: '##', cleanup: true }, post: { type: 'BertProcessing', sep: ['</s>', 2], cls: ['<s>', 1] } },
  'bert-cased': { kind: 'wordpiece', normalizer: { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: false, lowercase: false }, pre_tokenizer: { type: 'BertPreTokenizer' }, decoder: { type: 'WordPiece', prefix: '##', cleanup: false }, before: ['<s>'], after: ['</s>'] },
  'words': { kind: 'wordlevel', normalizer: { type: 'Lowercase' }, pre_tokenizer: { type: 'Whitespace' }, decoder: null, after: ['</s>'] },
};

const specials = ['<unk>', '<s>', '</s>'];
const added = [
  { content: '<unk>', special: true }, { content: '<s>', special: true }, { content: '</s>', special: true },
  { content: '<tool>', special: false, normalized: false }, { content: '<mask>', special: true, lstrip: true }, { content: '<|im_end|>', special: true, rstrip: true },
  { content: 'HTTP', single_word: true }, { content: 'The\u0301', normalized: true }, { content: '<｜User｜>', normalized: true },
];

// words returns how often the pre-tokenizer makes each word of the texts.
function words(json, list) {
  const plain = Tokenizer.fromString(JSON.stringify({ ...json, added_tokens: [], post_processor: null, decoder: null, model: { type: 'WordLevel', vocab: { x: 0 }, unk_token: 'x' } }));
  const count = new Map();
  for (let text of list) {
    if (json.normalizer) text = plain.getNormalizer().normalizeString(text);
    const parts = json.pre_tokenizer ? plain.getPreTokenizer().preTokenizeString(text).map(p => p[0]) : [text];
    for (const w of parts) if (w) count.set(w, (count.get(w) ?? 0) + 1);
  }
  return count;
}

// train merges the most frequent pairs of characters, n times.
function train(count, n, suffix) {
  let list = [...count].map(([w, c]) => [[...w], c]);
  if (suffix) for (const [s] of list) s[s.length - 1] += suffix;
  const merges = [];
  while (merges.length < n) {
    const pairs = new Map();
    for (const [s, c] of list) for (let i = 0; i + 1 < s.length; i++) pairs.set(s[i] + ' ' + s[i + 1], (pairs.get(s[i] + ' ' + s[i + 1]) ?? 0) + c);
    const best = [...pairs].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).find(([p]) => p.split(' ').length === 2);
    if (!best) break;
    const [a, b] = best[0].split(' ');
    merges.push([a, b]);
    for (const [s] of list) for (let i = 0; i + 1 < s.length; i++) if (s[i] === a && s[i + 1] === b) s.splice(i, 2, a + b);
  }
  return merges;
}

const hex = b => `<0x${b.toString(16).toUpperCase().padStart(2, '0')}>`;
const all = texts(7, 60, 30);
const corpus = all.concat(texts(8, 200, 0).slice(0, 260)).concat(['the cat and the dog in the house with the thing they have been reading '.repeat(5)]);
const out = { texts: all, tokenizers: [] };
for (const [name, s] of Object.entries(specs)) {
  const json = { version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer: s.normalizer, pre_tokenizer: s.pre_tokenizer, post_processor: null, decoder: s.decoder };
  const count = words(json, corpus);
  const vocab = {};
  const enter = t => { if (!(t in vocab)) vocab[t] = Object.keys(vocab).length; };
  specials.forEach(enter);
  const characters = [...count].flatMap(([w]) => [...w]);
  const frequent = [...new Set(characters)].filter(c => c.codePointAt(0) < 0x250 || '▁日本のя'.includes(c));
  if (s.kind === 'bytes') {
    for (let b = 0; b < 256; b++) enter(String.fromCodePoint(b <= 32 ? 256 + b : b >= 127 && b <= 160 ? 289 + b - 127 : b === 173 ? 323 : b));
    const merges = train(count, 120);
    merges.forEach(([a, b]) => enter(a + b));
    if (s.ignore_merges) [' whole', 'zeta', 'camel'].forEach(t => enter(t.replace(' ', 'Ġ')));
    json.model = { type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null, fuse_unk: false, byte_fallback: false, ignore_merges: !!s.ignore_merges, vocab, merges };
  } else if (s.kind === 'pieces') {
    const fallback = s.byte_fallback ?? true, suffix = s.end_of_word_suffix ?? null;
    if (fallback) for (let b = 0; b < 256; b++) enter(hex(b));
    frequent.forEach(c => { enter(c); if (suffix) enter(c + suffix); });
    const merges = train(count, 160, suffix).filter(([a, b]) => (a in vocab) && (b in vocab) && (enter(a + b), true));
    json.model = { type: 'BPE', dropout: null, unk_token: '<unk>', continuing_subword_prefix: null, end_of_word_suffix: suffix, fuse_unk: s.fuse_unk ?? true, byte_fallback: fallback, ignore_merges: false, vocab, merges };
  } else if (s.kind === 'unigram') {
    const fallback = !!s.byte_fallback;
    const list = specials.map(t => [t, 0]);
    if (fallback) for (let b = 0; b < 256; b++) list.push([hex(b), 0]);
    const seen = new Set(list.map(([t]) => t));
    [...frequent, ...train(count, 160).map(([a, b]) => a + b)].forEach((t, i) => { if (!seen.has(t)) { seen.add(t); list.push([t, Math.fround(-3 - ((i * 7919) % 97) / 16)]); } });
    list.forEach(([t]) => enter(t));
    json.model = { type: 'Unigram', unk_id: 0, vocab: list, byte_fallback: fallback };
  } else if (s.kind === 'wordlevel') {
    [...count].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, 200).forEach(([w]) => enter(w));
    json.model = { type: 'WordLevel', vocab, unk_token: '<unk>' };
  } else {
    // GGUF files mark beginnings of words by ▁ and cannot tell such a token from one of that character.
    const merges = train(count, 160).map(([a, b]) => a + b).filter(m => !m.includes('▁'));
    frequent.filter(c => c !== '▁').forEach(c => { enter(c); enter('##' + c); });
    merges.forEach((m, i) => enter(i % 2 ? m : '##' + m));
    json.model = { type: 'WordPiece', unk_token: '<unk>', continuing_subword_prefix: '##', max_input_chars_per_word: 100, vocab };
  }
  let next = Object.keys(vocab).length;
  json.added_tokens = added.map(a => ({ id: vocab[a.content] ?? next++, single_word: false, lstrip: false, rstrip: false, normalized: false, special: false, ...a })).sort((a, b) => a.id - b.id);
  const id = text => json.added_tokens.find(a => a.content === text).id;
  if (s.post) json.post_processor = s.post;
  else if (s.before || s.after) {
    const { names, ...t } = template(s.before ?? [], s.after ?? []);
    json.post_processor = { ...t, special_tokens: Object.fromEntries(names.map(n => [n, { id: n, ids: [id(n)], tokens: [n] }])) };
  }
  const results = await encode(Tokenizer.fromString(JSON.stringify(json)), all);
  out.tokenizers.push({ name, json, results });
  console.error(name, Object.keys(vocab).length);
}
fs.writeFileSync('vectors.json.gz', zlib.gzipSync(JSON.stringify(out), { level: 9 }));
