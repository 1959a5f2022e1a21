package tokenizer

import "strings"

// preTokenization is the meaning of a pre-tokenizer's name in a GGUF file.
type preTokenization struct {
	patterns   []string // each cuts the pieces of the earlier ones into matches and the text between them
	wholeWords bool     // a word that is a token is that token, whatever the merges say
	characters bool     // tokens are written in plain characters, with ▁ for a space, not in GPT-2's for bytes
	lines      bool     // a run of newlines that is a token is that token
	addBOS     bool     // unless the file says otherwise
}

// Parts of the expressions that models share.
const (
	contractions = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	letters      = `[^\r\n\p{L}\p{N}]?\p{L}+`
	ending       = `|\s*[\r\n]+|\s+(?!\S)|\s+`
	marks        = ` ?[^\s\p{L}\p{N}]+[\r\n]*` + ending
	slashMarks   = ` ?[^\s\p{L}\p{N}]+[\r\n/]*` + ending
	upper        = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
	lower        = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
	lead         = `[^\r\n\p{L}\p{N}]?`
	cased        = lead + upper + `*` + lower + `+|` + lead + upper + `+` + lower + `*`
	casedShort   = lead + upper + `*` + lower + `+` + contractions + `?|` + lead + upper + `+` + lower + `*` + contractions + `?`
	asciiMarks   = `[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_` + "`" + `{|}~]`
	marked       = asciiMarks + `[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*` + ending
	kana         = `[一-龥぀-ゟ゠-ヿ]+`
	han          = `&&[^\p{Han}]]`

	llama3Expression = contractions + `|` + letters + `|\p{N}{1,3}|` + marks
	qwen2Expression  = contractions + `|` + letters + `|\p{N}|` + marks
	gpt4oExpression  = casedShort + `|\p{N}{1,3}|` + slashMarks
	bloomExpression  = ` ?[^(\s|.,!?…。，、।۔،)]+`
	lines            = `[^\n]+|[\n]+`
	latin            = `\s?[` +
		`A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}` +
		`\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}` +
		`\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-` +
		`\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-` +
		`\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-` +
		`\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}` +
		`\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-` +
		`\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}` +
		`\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}` +
		`\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}` +
		`]+`
)

// preTokenizer finds the pre-tokenizer of a name in tokenizer.ggml.pre, and whether it is known. The names are
// llama.cpp's. The expressions are those of the tokenizer.json of the model that a name was made for, also if llama.cpp
// computes only something similar.
func preTokenizer(name string) (*preTokenization, bool) {
	one := func(patterns ...string) (*preTokenization, bool) { return &preTokenization{patterns: patterns}, true }
	whole := func(addBOS bool, patterns ...string) (*preTokenization, bool) {
		return &preTokenization{patterns: patterns, wholeWords: true, addBOS: addBOS}, true
	}
	switch name {
	case "", "default":
		return defaultPre(), true
	case "gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum", "modern-bert", "mpt", "olmo", "jais",
		"trillion", "granite-docling", "exaone4", "jina-v1-en", "jina-v2-code", "roberta-bpe":
		return one(gpt2Expression)
	case "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano":
		return whole(true, llama3Expression)
	case "dbrx", "smaug-bpe", "glm4", "chatglm-bpe":
		return one(llama3Expression)
	case "minicpm5":
		return whole(false, `\p{N}{1,3}`, contractions+`|`+letters+`|\p{N}+|`+marks)
	case "jais-2":
		spaces := `|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}`
		return one(contractions + `|` + letters + `|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+` + spaces)
	case "qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "stablelm2", "hunyuan", "solar-open", "megrez", "grok-2":
		return one(qwen2Expression)
	case "qwen35":
		return one(contractions + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*` + ending)
	case "laguna":
		return one(lines, qwen2Expression)
	case "seed-coder":
		return one(contractions + `|` + letters + `|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+` + ending)
	case "bailingmoe", "bailingmoe2", "llada-moe":
		return one(`'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`)
	case "exaone-moe":
		return one(contractions + `|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+`)
	case "gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2":
		return one(gpt4oExpression)
	case "granite-embed-multi-97m":
		return whole(false, gpt4oExpression)
	case "tiny_aya", "cohere2moe":
		return one(`\d{1,3}(?=(?:\d{3})*\b)`, gpt4oExpression)
	case "tekken":
		return whole(true, cased+`|\p{N}|`+slashMarks)
	case "youtu":
		p, _ := whole(false, `[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|`+kana, casedShort+`|\p{N}|`+slashMarks)
		return p, true
	case "kimi-k2":
		upperHan, lowerHan := strings.TrimSuffix(upper, "]")+han, strings.TrimSuffix(lower, "]")+han
		return one(`[\p{Han}]+|` + lead + upperHan + `*` + lowerHan + `+` + contractions + `?|` + lead + upperHan + `+` + lowerHan + `*` + contractions +
			`?|\p{N}{1,3}|` + marks)
	case "deepseek-llm":
		return one(`[\r\n]`, latin, `\s?[!-/:-~！-／：-～‘-‟　-。]+`, `\s+$`, `[一-龥ࠀ-一가-퟿]+`, `\p{N}+`)
	case "deepseek-coder":
		return one(`[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, `[一-龥ࠀ-一가-퟿]+`, `\p{N}`)
	case "deepseek-v3", "hunyuan-dense", "hy_v4", "joyai-llm":
		return one(`\p{N}{1,3}`, kana, marked)
	case "spark2_5":
		return one(`\p{N}{1,3}`, kana, asciiMarks+`[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+`, `\p{N}`)
	case "ufakzeka": // Turkish: suffixes stay with their apostrophes
		return one(letters + `|\p{N}|` + marks)
	case "afmoe":
		return one(`\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))`,
			`[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+`, marked)
	case "falcon":
		return one("[\\p{P}\\$\\+<=>\\^~\\|`]+", gpt2Expression, `[0-9][0-9][0-9]`)
	case "starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2":
		return one(`\p{N}`, gpt2Expression)
	case "poro-chat", "bloom", "gpt3-finnish":
		return one(bloomExpression)
	case "viking":
		return one(bloomExpression, `\p{N}`)
	case "chameleon":
		return &preTokenization{addBOS: true, patterns: []string{
			`<sentinel:[0-9]+>`, `(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z`, `([\t\n]|    |  )`, `\p{N}`,
			"[\\p{P}!-/:-@\\[-`{-~]", gpt2Expression,
		}}, true
	case "superbpe":
		return one(`\p{N}+`, `(?=(\d{3})+(?!\d))`)
	case "gemma4", "granite-embed-multi-311m":
		return &preTokenization{patterns: []string{lines}, characters: true, lines: true, addBOS: true}, true
	case "sarvam-moe":
		return &preTokenization{patterns: []string{lines}, characters: true}, true
	case "whitespace":
		return &preTokenization{patterns: []string{`\S+`}, characters: true}, true
	}
	return defaultPre(), false
}

func defaultPre() *preTokenization {
	return &preTokenization{patterns: []string{`[\p{P}\$\+<=>\^~\|]+`, gpt2Expression, `\p{N}+`, `[0-9][0-9][0-9]`}}
}

// KnownPreTokenizer reports whether the expressions of this name in tokenizer.ggml.pre are known; unknown ones use the
// default's.
func KnownPreTokenizer(name string) bool {
	_, ok := preTokenizer(name)
	return ok
}

// PreTokenizerAddsBOS reports whether files with that pre-tokenizer mean a text to begin with BOS unless they say
// otherwise.
func PreTokenizerAddsBOS(name string) bool {
	p, _ := preTokenizer(name)
	return p.addBOS
}

func (p *preTokenization) splitters() ([]splitter, error) {
	var out []splitter
	for _, pattern := range p.patterns {
		s, err := patternSplitter(&Pattern{Regex: &pattern}, "Isolated", false)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}
