package chat

import "strings"

// builtin are the formats that --chat-template knows by name, under llama.cpp's names. TestBuiltins compares them with
// llama.cpp's renderings, except gpt-oss, which follows the published template: there an answer has a channel, and
// earlier ones end like other messages. Only gigachat, hunyuan-moe, hunyuan-vl and smolvlm write the token that begins
// a sequence, as llama.cpp does; for all others the tokenizer adds it if the model wants it.
var builtin = map[string]format{
	"bailing":           roles("<role>", "SYSTEM HUMAN ASSISTANT", "</role>", ""),
	"bailing-think":     roles("<role>", "SYSTEM HUMAN ASSISTANT", "</role>", "").answering("<role>ASSISTANT</role><think>"),
	"bailing2":          roles("<role>", "SYSTEM HUMAN ASSISTANT", "</role>", "<|role_end|>").without("<role>SYSTEM</role>detailed thinking off<|role_end|>"),
	"chatglm3":          roles("<|", usual, "|>\n ", "").after("[gMASK]sop").answering("<|assistant|>"),
	"chatglm4":          roles("<|", usual, "|>\n", "").after("[gMASK]<sop>"),
	"chatml":            roles("<|im_start|>", usual, "\n", "<|im_end|>\n"),
	"command-r":         roles("<|START_OF_TURN_TOKEN|><|", "SYSTEM USER CHATBOT", "_TOKEN|>", "<|END_OF_TURN_TOKEN|>").trimmed(),
	"deepseek":          {user: turn{begin: "### Instruction:\n", end: "\n"}, assistant: turn{begin: "### Response:\n", end: "\n<|EOT|>\n"}, answer: "### Response:\n"},
	"deepseek-ocr":      {},
	"deepseek2":         {system: turn{end: "\n\n"}, user: turn{begin: "User: ", end: "\n\n"}, assistant: turn{begin: "Assistant: ", end: "<｜end▁of▁sentence｜>"}, answer: "Assistant:"},
	"deepseek3":         {system: turn{end: "\n\n"}, user: turn{begin: "<｜User｜>"}, assistant: turn{begin: "<｜Assistant｜>", end: "<｜end▁of▁sentence｜>"}, answer: "<｜Assistant｜>"},
	"exaone-moe":        roles("<|", usual+" tool", "|>\n", "<|endofturn|>\n").trimmed(),
	"exaone3":           exaone(usual),
	"exaone4":           exaone(usual + " tool"),
	"falcon3":           roles("<|", usual, "|>\n", "\n"),
	"gemma":             roles("<start_of_turn>", "system user model", "\n", "<end_of_turn>\n").trimmed().within("", "\n\n"),
	"gigachat":          {first: "<s>", system: turn{end: "<|message_sep|>"}, user: turn{begin: "user<|role_sep|>", end: "<|message_sep|>available functions<|role_sep|>[]<|message_sep|>"}, assistant: turn{begin: "assistant<|role_sep|>", end: "<|message_sep|>"}, answer: "assistant<|role_sep|>"},
	"glmedge":           roles("<|", usual, "|>\n", "").answering("<|assistant|>"),
	"gpt-oss":           {source: gptOSS},
	"granite":           granite,
	"granite-4.0":       granite,
	"granite-4.1":       granite,
	"grok-2":            {system: turn{begin: "System: ", end: "<|separator|>\n\n", trim: true}, user: turn{begin: "Human: ", end: "<|separator|>\n\n", trim: true}, assistant: turn{begin: "Assistant: ", end: "<|separator|>\n\n"}, answer: "Assistant:"},
	"hunyuan-dense":     {system: turn{end: "<｜hy_place▁holder▁no▁3｜>"}, user: turn{begin: "<｜hy_User｜>", end: "<｜hy_Assistant｜>"}, assistant: turn{begin: "<｜hy_Assistant｜>", end: "<｜hy_place▁holder▁no▁2｜>"}},
	"hunyuan-moe":       {system: turn{begin: "<|startoftext|>", end: "<|extra_4|>"}, user: turn{begin: "<|startoftext|>", end: "<|extra_0|>"}, assistant: turn{end: "<|eos|>"}},
	"hunyuan-vl":        {first: "<｜hy_begin▁of▁sentence｜>", system: turn{end: "<｜hy_place▁holder▁no▁3｜>"}, user: turn{end: "<｜hy_User｜>"}, assistant: turn{end: "<｜hy_Assistant｜>"}},
	"kimi-k2":           {system: kimi("system", "system"), user: kimi("user", "user"), assistant: kimi("assistant", "assistant"), tool: kimi("system", "tool"), answer: "<|im_assistant|>assistant<|im_middle|>"},
	"llama2":            llama2.within("", "\n"),
	"llama2-sys":        llama2.within("<<SYS>>\n", "\n<</SYS>>\n\n"),
	"llama2-sys-bos":    llama2.within("<<SYS>>\n", "\n<</SYS>>\n\n").again("<s>"),
	"llama2-sys-strip":  llama2.within("<<SYS>>\n", "\n<</SYS>>\n\n").trimmed(),
	"llama3":            roles("<|start_header_id|>", usual, "<|end_header_id|>\n\n", "<|eot_id|>").trimmed(),
	"llama4":            roles("<|header_start|>", usual, "<|header_end|>\n\n", "<|eot|>").trimmed(),
	"megrez":            roles("<|role_start|>", usual, "<|role_end|>", "<|turn_end|>"),
	"minicpm":           format{user: turn{begin: "<用户>", end: "<AI>"}}.trimmed(),
	"mistral-v1":        mistral(" [INST] ", " [/INST]", " ").within("", "\n\n"),
	"mistral-v3":        mistralV3.within("", "\n\n"),
	"mistral-v3-tekken": mistral("[INST]", "[/INST]", "").within("", "\n\n"),
	"mistral-v7":        mistral("[INST] ", "[/INST]", " "),
	"mistral-v7-tekken": mistral("[INST]", "[/INST]", ""),
	"monarch":           {source: monarch},
	"openchat":          {system: turn{end: "<|end_of_turn|>"}, user: turn{begin: "GPT4 Correct User: ", end: "<|end_of_turn|>"}, assistant: turn{begin: "GPT4 Correct Assistant: ", end: "<|end_of_turn|>"}, answer: "GPT4 Correct Assistant:"},
	"orion":             format{user: turn{begin: "Human: ", end: "\n\nAssistant: </s>"}, assistant: turn{end: "</s>"}}.within("", "\n\n"),
	"pangu-embedded":    roles("[unused9]", "系统 用户 助手 工具", "：", "[unused10]").without("[unused9]系统：[unused10]"),
	"phi3":              roles("<|", usual, "|>\n", "<|end|>\n"),
	"phi4":              roles("<|im_start|>", usual, "<|im_sep|>", "<|im_end|>"),
	"rwkv-world":        format{system: turn{begin: "System: ", end: "\n\n"}, user: turn{begin: "User: ", end: "\n\n"}, assistant: turn{begin: "Assistant: ", end: "\n\n"}, answer: "Assistant:"}.trimmed(),
	"seed_oss":          seedOSS,
	"smolvlm":           {first: "<|im_start|>", system: turn{end: "\n\n"}, user: turn{begin: "User: ", end: "<end_of_utterance>\n"}, assistant: turn{begin: "Assistant: ", end: "<end_of_utterance>\n"}, answer: "Assistant:"},
	"solar-open":        roles("<|begin|>", usual, "<|content|>", "<|end|>").answering("<|begin|>assistant"),
	"vicuna":            {system: turn{end: "\n\n"}, user: turn{begin: "USER: ", end: "\n"}, assistant: turn{begin: "ASSISTANT: ", end: "</s>\n"}, answer: "ASSISTANT:"},
	"vicuna-orca":       {system: turn{begin: "SYSTEM: ", end: "\n"}, user: turn{begin: "USER: ", end: "\n"}, assistant: turn{begin: "ASSISTANT: ", end: "</s>\n"}, answer: "ASSISTANT:"},
	"yandex":            format{user: turn{begin: " Пользователь: ", end: "\n\n"}, assistant: turn{begin: " Ассистент: ", end: "\n\n"}, answer: " Ассистент:[SEP]"}.within("", "\n\n"), // llama.cpp drops system messages
	"zephyr":            roles("<|", usual, "|>\n", "<|endoftext|>\n"),
}

const usual = "system user assistant"

var (
	granite   = roles("<|start_of_role|>", usual, "<|end_of_role|>", "<|end_of_text|>\n")
	llama2    = format{user: turn{begin: "[INST] ", end: " [/INST]"}, assistant: turn{end: "</s>"}}
	mistralV3 = func() format { f := mistral("[INST] ", "[/INST]", " "); f.assistant.trim = true; return f }()
	seedOSS   = func() format { f := roles("<seed:bos>", usual, "\n", "<seed:eos>"); f.assistant.trim = true; return f }()
)

func exaone(names string) format {
	f := roles("[|", names, "|]", "[|endofturn|]\n").trimmed()
	f.user.end = "\n"
	return f
}

func kimi(token, role string) turn {
	return turn{begin: "<|im_" + token + "|>" + role + "<|im_middle|>", end: "<|im_end|>"}
}

// mistral returns one of Mistral's formats; they differ in their spaces.
func mistral(open, end, gap string) format {
	return format{
		system: turn{begin: "[SYSTEM_PROMPT]" + gap, end: "[/SYSTEM_PROMPT]"},
		user:   turn{begin: open, end: end}, assistant: turn{begin: gap, end: "</s>"},
	}
}

const monarch = `{% for m in messages %}{{ '<s>' if not loop.first }}{{ m.role + '\n' + m.content + '</s>\n' }}{% endfor %}` +
	`{% if add_generation_prompt %}{{ '<s>assistant\n' }}{% endif %}`

const gptOSS = `{% for m in messages %}` +
	`{% if m.role == 'assistant' %}{{ '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|end|>' }}` +
	`{% elif m.role in ['system', 'user', 'developer'] %}{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}` +
	`{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}`

// A turn is the text around a message of a role.
type turn struct {
	begin, end string
	trim       bool // the message without white space around it
}

// A format describes templates with turns for each role.
type format struct {
	first                         string // begins every conversation
	noSystem                      string // begins those without a system message
	system, user, assistant, tool turn
	inUser                        bool   // a system message stands at the beginning of the next user message
	later                         string // before every user's turn except the first
	answer                        string // begins an answer
	source                        string // of a template of another form
}

// roles returns a format with turns that differ only by the names of the roles: system, user, assistant and perhaps
// tool.
func roles(open, names, shut, end string) format {
	var turns [4]turn
	for i, name := range strings.Fields(names) {
		turns[i] = turn{begin: open + name + shut, end: end}
	}
	return format{system: turns[0], user: turns[1], assistant: turns[2], tool: turns[3], answer: turns[2].begin}
}

func (f format) trimmed() format {
	f.system.trim, f.user.trim, f.assistant.trim, f.tool.trim = true, true, true, true
	return f
}

func (f format) after(first string) format     { f.first = first; return f }
func (f format) again(later string) format     { f.later = later; return f }
func (f format) answering(begin string) format { f.answer = begin; return f }
func (f format) without(system string) format  { f.noSystem = system; return f }

// within puts system messages into the users', between begin and end.
func (f format) within(begin, end string) format {
	f.inUser, f.system.begin, f.system.end = true, begin, end
	return f
}

// template returns the format as a Jinja template.
func (f format) template() string {
	if f.source != "" {
		return f.source
	}
	var b strings.Builder
	b.WriteString(`{% set ns = namespace(system='', later='') %}` + literal(f.first))
	if f.noSystem != "" {
		b.WriteString(`{% if messages[0].role != 'system' %}` + literal(f.noSystem) + `{% endif %}`)
	}
	b.WriteString(`{% for m in messages %}{% if m.role == 'system' %}`)
	if f.inUser {
		b.WriteString(`{% set ns.system = ns.system + ` + quoted(f.system.begin) + ` + ` + f.system.content() + ` + ` + quoted(f.system.end) + ` %}`)
	} else {
		b.WriteString(f.system.template(""))
	}
	b.WriteString(`{% elif m.role == 'user' %}{{ ns.later }}` + f.user.template(`{{ ns.system }}`) +
		`{% set ns.system = '' %}{% set ns.later = ` + quoted(f.later) + ` %}` +
		`{% elif m.role == 'assistant' %}` + f.assistant.template(""))
	if f.tool != (turn{trim: f.tool.trim}) {
		b.WriteString(`{% elif m.role == 'tool' %}` + f.tool.template(""))
	}
	b.WriteString(`{% endif %}{% endfor %}`)
	if f.answer != "" {
		b.WriteString(`{% if add_generation_prompt %}` + literal(f.answer) + `{% endif %}`)
	}
	return b.String()
}

// template returns the turn of message m, with more of the template before its content.
func (t turn) template(before string) string {
	return literal(t.begin) + before + `{{ ` + t.content() + ` }}` + literal(t.end)
}

func (t turn) content() string {
	if t.trim {
		return `m.content|trim`
	}
	return `m.content`
}

// literal returns an expression for text with white space that tags would remove.
func literal(s string) string {
	if s == "" {
		return ""
	}
	return "{{ " + quoted(s) + " }}"
}

func quoted(s string) string {
	return "'" + strings.NewReplacer("\n", `\n`, "'", `\'`, `\`, `\\`).Replace(s) + "'"
}
