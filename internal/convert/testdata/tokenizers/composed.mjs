// Texts composed at random of what tokenizers treat apart: characters of every script, digits, blanks, marks, emoji, code, broken characters, and the
// tokenizer's own tokens written out. The same call gives the same texts.

const scripts = [
  [0x20, 0x7f], [0xa0, 0x24f], [0x250, 0x36f], [0x370, 0x52f], [0x530, 0x5ff], [0x600, 0x7ff], [0x800, 0x8ff], [0x900, 0x9ff], [0xa00, 0xaff], [0xb00, 0xbff], [0xc00, 0xcff],
  [0xd00, 0xdff], [0xe00, 0xfff], [0x1000, 0x11ff], [0x1200, 0x139f], [0x13a0, 0x167f], [0x1680, 0x17ff], [0x1800, 0x1aff], [0x1b00, 0x1cff], [0x1d00, 0x1dff], [0x1e00, 0x1fff],
  [0x2000, 0x20ff], [0x2100, 0x23ff], [0x2400, 0x27bf], [0x2800, 0x2dff], [0x2e00, 0x30ff], [0x3100, 0x33ff], [0x3400, 0x4dbf], [0x4e00, 0x9fff], [0xa000, 0xa95f], [0xa960, 0xabff],
  [0xac00, 0xd7a3], [0xe000, 0xe0ff], [0xf900, 0xfdff], [0xfe00, 0xffff], [0x10000, 0x105ff], [0x10800, 0x10fff], [0x11000, 0x11fff], [0x12000, 0x1345f], [0x16a00, 0x16fff],
  [0x1b000, 0x1b16f], [0x1d100, 0x1d7ff], [0x1e000, 0x1e95f], [0x1f000, 0x1f6ff], [0x1f900, 0x1faff], [0x20000, 0x2a6df], [0x2f800, 0x2fa1f], [0xe0000, 0xe01ef],
];
const zeros = [
  0x30, 0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xae6, 0xb66, 0xc66, 0xd66, 0xe50, 0xed0, 0xf20, 0x1040, 0x17e0, 0x1810, 0x19d0, 0x1a80, 0x1c40, 0xa620, 0xa8d0, 0xabf0, 0xff10, 0x104a0,
  0x11066, 0x1d7ce, 0x1e950, 0x1fbf0,
];
const blanks = [
  ' ', '  ', '\t', '\n', '\r\n', '\r', '\v', '\f', '\u0085', '\u00a0', '\u1680', '\u2003', '\u200a', '\u2028', '\u2029', '\u202f', '\u205f', '\u3000', '\u200b', '\u200c', '\u200d', '\u2060',
  '\ufeff', '\u180e', '\u00ad',
];
const emoji = ['👩‍❤️‍💋‍👨', '🏴󠁧󠁢󠁥󠁮󠁧󠁿', '🏳️‍⚧️', '🇺🇦', '🇨🇭🇫', '👍🏿', '🤷🏽‍♀️', '#️⃣', '1️⃣', '☺', '☺️', '🫱🏼‍🫲🏾', '🐦‍🔥', '🙂‍↔️', '™'];
const words = [
  'the', 'Straße', 'coöperate', 'ÉCOLE', 'İstanbul', 'ıssız', 'ǅungla', 'don’t', "we'd've", "can'T", "'S'ſ", 'Vie\u0323\u0302t', 'A\u030a', '\u212b', '\u2126', 'ﬁﬂ', 'x²+y²', '漢字かな交じり文', 'ｶﾀｶﾅ',
  '\u1100\u1161\u11a8', '각', 'ភាសាខ្មែរ', 'ภาษาไทย', 'العَرَبِيَّةُ', 'בְּרֵאשִׁית', 'नमस्ते', 'க்ஷௌ', 'ශ්‍රී', 'བོད་སྐད', 'ქართული', 'ᐃᓄᒃ', '𐐷𐐨', '𝓗𝔢𝕝𝖑𝗈', 'Ꮳ', 'ŉ', 'ẞ',
];
const code = [
  '#include <stdio.h>\r\n', 'if(a&&b||!c){return -1;}', '    pass\n', '\t\tfoo();\r\n', '</p>', "a='b';", '0xDEADbeef', '1e-10', '1_000', '->', '!==', '"""doc"""', '${y}', '\\n', '//', '/* */', '{{ }}', '$$',
  '\\frac{a}{b}', '@app.route("/")', '```go\n', '&#x27;', '%20', 'C:\\Windows', '../..', '---', '…', '—', '“q”', '！？。，', '、', '・', '¿', '•',
];
const marks = [
  '\u0301', '\u0323', '\u0302', '\u0345', '\u0300\u0301', '\u05b0', '\u0651', '\u094d', '\u0e48', '\u0eb1', '\u08d3', '\u08e0', '\u1ab0', '\u1df6', '\u20dd', '\u302a', '\u3099', '\ufe0f', '\u{1d165}',
  '\u0f71\u0f72\u0f74', '\u0f73', '\u1161', '\u11a8', '\u0344', '\u0958', '\u09dc', '\ufb1d', '\u2adc',
];
const broken = ['\ud800', '\udfff', '\ud83d', '\ude00', '\udc00\ud800'];

// composed returns n texts, and n lists of ids to decode, for the tokenizer of a tokenizer.json.
export function composed(definition, seed, n) {
  let state = BigInt(seed);
  const below = n => {
    state = state * 6364136223846793005n + 1442695040888963407n & 0xffffffffffffffffn;
    return Number(state >> 33n) % n;
  };
  const pick = list => list[below(list.length)];
  const added = definition.added_tokens ?? [];
  const vocab = definition.model.vocab;
  const tokens = Array.isArray(vocab) ? vocab.map((v, id) => [v[0], id]) : Object.entries(vocab);
  const character = script => {
    const c = script[0] + below(script[1] - script[0] + 1);
    return c >= 0xd800 && c < 0xe000 ? 'x' : String.fromCodePoint(c);
  };
  const many = (most, make) => Array.from({ length: 1 + below(most) }, make).join('');
  const parts = [
    () => pick(blanks).repeat(below(8) ? 1 : 1 + below(40)),
    () => pick(emoji),
    () => pick(words), () => ' ' + pick(words),
    () => pick(code),
    () => many(3, () => pick(marks)),
    () => { const zero = pick(zeros); return many(7, () => String.fromCodePoint(zero + below(10))); },
    () => { const script = pick(scripts); return many(6, () => character(script)); },
    () => character(pick(scripts)),
    () => {
      if (added.length === 0) return 'A';
      const a = pick(added).content;
      return pick([a, ' ' + a + ' ', a + a, a.slice(0, -1), a.slice(1), a.toUpperCase()]);
    },
    () => { const t = pick(tokens)[0]; return below(2) ? t : t.replace(/[▁Ġ]/g, ' ').replace(/Ċ/g, '\n'); },
    () => below(4) ? pick(['a', 'Z', "'", '1', '.', ' ']) : pick(broken),
    () => ' ',
  ];
  const texts = [], decode = [];
  for (let i = 0; i < n; i++) {
    const text = many(below(3) ? 8 : 30, () => pick(parts)());
    texts.push((below(9) ? text : text.normalize(pick(['NFC', 'NFD', 'NFKC', 'NFKD']))).toWellFormed());
    decode.push(Array.from({ length: 1 + below(12) }, () => below(12) || added.length === 0 ? pick(tokens)[1] : pick(added).id));
  }
  return { texts, decode };
}
