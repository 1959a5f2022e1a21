// Texts that are hard to split, and as many pieced together at random from hard parts. The same call gives the same texts.
export function texts(seed, pieced, points) {
  const rep = (s, n) => s.repeat(n);
  const out = [
    'Hello, world!', ' Hello', '  two  spaces   three    four ', '', ' ', '  ', '   a', 'a ', 'a  ', '\u3000a', '\n', '\n\n\n', '\r\n', 'a\r\nb\r\n\r\nc',
    '\n a', ' \n a\n', 'x\n\n\n\ny   \n   \n z', '\t\tdef f(x):\n\t\treturn x  # comment\n', 'for (int i = 0; i < n; ++i) {\n    sum += a[i];\n}\n',
    "don't can't I'll we've they're I'm he'd 'S 'T 'RE 'VE 'M 'LL 'D '\u017f", "A'sB'tC we'LL 1'2's3", '1 12 123 1234 12345 123456 1234567 3.14159 1,000,000',
    '\u00bd \u00b2 \u00b3 \u0663 \u0664\u0665\u0666 \u2167 \ud835\udfd8\ud835\udfd9 \u0967\u0968\u0969', '\u00e9 e\u0301 \u00f1 n\u0303 \u00c5 A\u030a \ufb01 \ufb06 \u01c6 \u01c5abc',
    '日本語のテキスト 中文文本测试 한국어 텍스트 テスト。、！？', 'Привет мир! Ελληνικά עברית العربية हिन्दी বাংলা தமிழ் ไทย ລາວ ខ្មែរ မြန်မာ ქართული Հայերեն አማርኛ',
    '😀😃👨‍👩‍👧‍👦🏳️‍🌈👍🏽🇩🇪🇯🇵❤️‍🔥', 'a\u200db\u200cc\ufeffd\u00ade\u2060f', '\u00a0\u2003\u2028\u2029\u0085 x \u1680y', '<s></s><unk><pad><bos><eos><|endoftext|><|im_start|>user\nhi<|im_end|>',
    '[INST] hi [/INST] <|begin_of_text|><|eot_id|> <|fim_prefix|> <tool_call>{}</tool_call>', '<start_of_turn>model\n<end_of_turn> <｜begin▁of▁sentence｜><｜User｜>x <EOS_TOKEN> <mask> <0x41> <META>',
    '▁▁ ▁a▁ b▁▁', 'HelloWorldFooBAR camelCase SCREAMING_CASE XMLHttpRequest éÉàÀ ÀÉé', '...!!!???---___***///\\\\\\|||', 'https://example.com/path?q=1&r=2#frag user@host.org',
    '$100 €50 £20 ¥10 +-*/=<>^~`', '\u0000\u0001\u001f\u007f\u0080\u009f', '\ufffd \ufffd\ufffd', '\ud7ff\ue000\uffff\u{10ffff}', 'Z\u0337\u0322\u031ba\u0338\u034dl\u0336', '\u1ec7 e\u0323\u0302 \u1100\u1161\u11a8 각',
    'ﷺ ﬃ ① ｈｅｌｌｏ ﾊﾝｶｸ ㎏', 'i\u0307 \u0130 \u0131 ß \u1e9e ς Σ', '\'\'\'"""', "__init__ == '__main__'", '\u202eleft\u202c \u{1ce04} \u{2ebf0}',
    rep('a', 300), rep(' ', 70) + 'x', rep('\n', 40), rep('aB', 150), rep('😀', 60), rep('1', 100), rep('日', 80), rep('=', 130), rep('\t', 33) + 'x', rep('\u0301', 40), rep('e\u0301', 50),
    rep('<s>', 20), rep('a ', 100), rep('\r\n', 20), rep(' \n', 20), rep('<', 50),
  ];
  const random = n => { seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff; return (seed >> 8) % n; };
  const parts = [
    ' ', ' ', '  ', '\n', '\r', '\r\n', '\t', '\u00a0', '\u2003', '\u0085', '\u3000', "'", "'s", "'RE", "'ll", "'L", 'a', 'Zeta', 'é', 'e\u0301', 'ß', 'я', '日本', '漢', 'ア', 'ー', '1', '12', '345',
    '6789', '٣', '½', 'Ⅷ', '.', '...', '!?', '_', '$', '+', '=', '`', '€', '🦙', '្', '\u200d', '<|', '|>', '«', '<s>', '</s>', '<unk>', '▁', '\u0300', 'ก', 'ำ', 'न', 'ि', '𝒜', '\u{1F1E9}', '/', '\\', '-',
    '(', ')', '{', '}', '[', ']', '#', '@', 'the', ' the', 'The', 'ing', 'Ing', 'HTTP', 'x86', '\u0000', '\ufffd', 'ǅ', 'ʰ', 'ª', 'ᵃ', 'ⅷ', '①',
  ];
  for (let i = 0; i < pieced; i++) {
    let s = '';
    for (let n = 1 + random(14); n > 0; n--) s += parts[random(parts.length)];
    out.push(s);
  }
  for (let i = 0; i < points; i++) {
    let s = '';
    for (let n = 1 + random(12); n > 0; n--) {
      let c = random(5) === 0 ? random(0x110000) : random(4) ? random(0x3000) : random(0x20000);
      if (c >= 0xd800 && c < 0xe000) c = 0x41;
      s += String.fromCodePoint(c) + (random(6) ? '' : ' ');
    }
    out.push(s);
  }
  return out;
}

// encode returns what the library makes of texts: ids alone, ids with what the post-processor adds, and the ids' text.
export async function encode(tokenizer, texts) {
  const out = [];
  for (const text of texts) {
    const ids = (await tokenizer.encode(text, null, { addSpecialTokens: false })).getIds();
    const whole = (await tokenizer.encode(text, null, { addSpecialTokens: true })).getIds();
    out.push({ ids, whole, text: await tokenizer.decode(ids, false) });
  }
  return out;
}
