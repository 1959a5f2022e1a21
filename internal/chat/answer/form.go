package answer

import "slices"

// A form is a way to write calls of tools. The parser and the grammar both follow from it.
type form struct {
	open  string // what begins a run of calls
	first bool   // only after nothing but white space
	keep  bool   // open is already part of the first call
	head  []part // what stands between open and the calls
	list  bool   // the calls of a run are in [ and ], with commas between
	many  bool   // a run may have several calls, each beginning with the first of its parts
	lines bool   // a run may have several calls, JSON objects on separate lines
	call  []part

	between string // may stand between calls that follow each other without their openings
	close   string // what ends a run, though models forget it

	aside string // text after open if content comes and no call
}

// A part is a piece of a call.
type part struct {
	kind partKind
	text string // of partLiteral, partOptional, partIdentifier, partNumber and partElements
	keys keys   // of partObject
	tags tags   // of partTagged
}

type partKind uint8

const (
	partLiteral    partKind = iota // text as it is
	partOptional                   // text that models leave out at times
	partSpace                      // white space
	partName                       // the tool's name
	partIdentifier                 // text and the call's id, or nothing
	partNumber                     // the call's number: text, the tool's name, a colon and the number are the call's id
	partDigits                     // a number that means nothing to a reader
	partArguments                  // a JSON object, the arguments
	partObject                     // a JSON object with the tool's name and the arguments
	partTagged                     // the arguments one by one, between tags
	partPython                     // a call as in Python
	partBare                       // arguments in Gemma 4's form
	partElements                   // arguments in MiniMax M3's form; text comes before their tags
)

// keys are the members of a call as a JSON object, as grammars write it; the parser accepts those of all forms.
type keys struct {
	name, arguments    string
	idBefore, idBehind string // a member with the call's id before or after the others, empty if there is none
}

// tags holds the texts around an argument's name and value: open NAME middle VALUE close.
type tags struct {
	open   string
	middle []string // with white space between
	close  string
	typed  []typing  // one of them follows middle
	quotes [2]string // text around a value that may hold tags; empty if there is none
	lines  bool      // the value is on separate lines
	json   [2]string // text around all arguments as a JSON object, which may come instead; empty if it may not
}

// quoted returns the tags of a value in quotes, after the first quote.
func (t *tags) quoted() *tags {
	q := *t
	q.close, q.quotes = t.quotes[1]+t.close, [2]string{}
	return &q
}

// A typing is a text that names the JSON Schema types of a value; without types, any but a string.
type typing struct {
	text  string
	types []string
}

// beginning returns the first part of a call other than white space.
func (f *form) beginning() part {
	for _, p := range f.call {
		if p.kind != partSpace {
			return p
		}
	}
	return part{}
}

// tagged reports whether arguments stand between tags.
func (f *form) tagged() bool {
	return slices.ContainsFunc(f.call, func(p part) bool { return p.kind == partTagged })
}

// begins returns the text that begins a call.
func (f *form) begins() string {
	if f.many {
		return f.call[0].text
	}
	return f.open
}

// tail returns the texts after arguments between tags, up to the end of the call or of a run that has one call, with
// white space between them.
func (f *form) tail() []string {
	var texts []string
	after := false
	for _, p := range f.call {
		after = after || p.kind == partTagged
		if after && p.kind == partLiteral {
			texts = append(texts, p.text)
		}
	}
	if f.close != "" && !f.many {
		texts = append(texts, f.close)
	}
	return texts
}

func lit(s string) part { return part{kind: partLiteral, text: s} }

func named(name, arguments string) part {
	return part{kind: partObject, keys: keys{name: name, arguments: arguments}}
}

var (
	space    = part{kind: partSpace}
	toolName = part{kind: partName}
	args     = part{kind: partArguments}
	plain    = named("name", "arguments")
)

// Hermes, Qwen 2.5 and 3, Apriel and Hunyuan A13B, MiniMax M1, GigaChat 3 and 3.1, Nemotron Nano 2: JSON between tags or
// after one.
var (
	hermes = form{open: "<tool_call>", call: []part{space, plain}, close: "</tool_call>"}

	hermesList = form{open: "<tool_call>", list: true, call: []part{plain}, close: "</tool_call>"} // some models write this instead

	apriel    = form{open: "<tool_calls>", list: true, call: []part{plain}, close: "</tool_calls>"}
	minimaxM1 = form{open: "<tool_calls>", lines: true, call: []part{space, plain}, close: "</tool_calls>"}
	gigachat  = form{open: "<|message_sep|>\n\nfunction call<|role_sep|>\n", call: []part{space, plain}}
	gigachat1 = form{open: "<|function_call|>", call: []part{space, plain}}
	nemotron2 = form{open: "<TOOLCALL>", list: true, call: []part{plain}, close: "</TOOLCALL>"}
)

// Lists of objects that have the tool's name as their only key: Apertus.
var apertus = form{
	open: "<|tools_prefix|>", list: true, close: "<|tools_suffix|>",
	call: []part{lit("{"), space, lit(`"`), toolName, lit(`"`), space, lit(":"), space, args, space, lit("}")},
}

// Lists of JSON objects after a marker: Granite, Command-R7B, Mistral before its eleventh tokenizer, Firefunction.
var (
	granite  = form{open: "<|tool_call|>", list: true, call: []part{plain}}
	commandR = form{
		open: "<|START_ACTION|>", list: true, close: "<|END_ACTION|>",
		call: []part{{kind: partObject, keys: keys{"tool_name", "parameters", "tool_call_id", ""}}},
	}
	mistralList  = form{open: "[TOOL_CALLS]", list: true, call: []part{{kind: partObject, keys: keys{"name", "arguments", "", "id"}}}}
	firefunction = form{open: "functools", list: true, call: []part{plain}}
)

// Llama 3.1 and later: an object that is the whole answer, perhaps after a marker; calls as in Python, single or in a
// list, which LFM2 has between markers.
var (
	llamaBare     = form{open: "{", first: true, keep: true, between: ";", call: []part{named("name", "parameters")}}
	llamaTagged   = form{open: "<|python_tag|>", between: ";", call: []part{space, named("name", "parameters")}}
	llamaList     = form{open: "[", first: true, keep: true, list: true, call: []part{named("name", "parameters")}}
	llamaFunction = form{open: "<|python_tag|>", call: []part{space, {kind: partPython}}}
	pythonic      = form{open: "[", first: true, keep: true, list: true, call: []part{{kind: partPython}}}
	lfm2          = form{open: "<|tool_call_start|>", list: true, call: []part{{kind: partPython}}, close: "<|tool_call_end|>"}
)

// The tool's name and then the arguments in JSON: Mistral's later form, DeepSeek, Hunyuan's dense models, Kimi K2, Solar
// Open, Functionary.
var (
	mistral = form{
		open: "[TOOL_CALLS]",
		call: []part{space, toolName, {kind: partIdentifier, text: "[CALL_ID]"}, {kind: partOptional, text: "[ARGS]"}, space, args},
	}
	deepseekR1 = form{
		open: "<｜tool▁calls▁begin｜>", many: true, close: "<｜tool▁calls▁end｜>",
		call: []part{
			lit("<｜tool▁call▁begin｜>"), lit("function<｜tool▁sep｜>"), toolName, lit("\n```json\n"), space, args, space,
			lit("```"), space, lit("<｜tool▁call▁end｜>"),
		},
	}
	deepseekV31 = form{
		open: "<｜tool▁calls▁begin｜>", many: true, close: "<｜tool▁calls▁end｜>",
		call: []part{lit("<｜tool▁call▁begin｜>"), toolName, lit("<｜tool▁sep｜>"), space, args, space, lit("<｜tool▁call▁end｜>")},
	}
	hunyuan = form{
		open: "<tool_calls>", many: true, close: "</tool_calls>",
		head: []part{space},
		call: []part{lit("<tool_call>"), toolName, lit("\n```json\n"), space, args, space, lit("```"), space, lit("</tool_call>")},
	}
	kimi = form{
		open: "<|tool_calls_section_begin|>", many: true, close: "<|tool_calls_section_end|>",
		call: []part{
			lit("<|tool_call_begin|>"), space,
			{kind: partOptional, text: "functions."},
			toolName,
			{kind: partNumber, text: "functions."},
			space,
			lit("<|tool_call_argument_begin|>"), space, args, space, lit("<|tool_call_end|>"),
		},
	}
	solarOpen = form{
		open: "<|tool_calls|>", many: true,
		call: []part{
			lit("<|tool_call:begin|>"),
			{kind: partIdentifier},
			lit("<|tool_call:name|>"), toolName, lit("<|tool_call:args|>"), space, args, space, lit("<|tool_call:end|>"),
		},
	}
	functionary31 = form{open: "<function=", call: []part{toolName, lit(">"), space, args, space, lit("</function>")}}
	functionary32 = form{open: ">>>", aside: "all\n", call: []part{toolName, lit("\n"), space, args}}
)

// minimaxPrefix comes before the tags of MiniMax M3.
const minimaxPrefix = "]<]minimax[>["

// MiniMax M3.
var minimaxM3 = form{
	open: minimaxPrefix + "<tool_call>", many: true, close: minimaxPrefix + "</tool_call>",
	head: []part{space},
	call: []part{
		lit(minimaxPrefix + `<invoke name="`), toolName, lit(`">`), space,
		{kind: partElements, text: minimaxPrefix},
		space, lit(minimaxPrefix + "</invoke>"),
	},
}

// Gemma 4.
var gemma = form{open: "<|tool_call>", call: []part{space, lit("call:"), space, toolName, space, {kind: partBare}, space}, close: "<tool_call|>"}

// hy3 ends the names of Hy3's tags.
const hy3 = ":opensource"

// Arguments one by one: Qwen3-Coder, Seed-OSS, GLM 4.5 and later, MiniCPM5, Hy3, MiniMax M2, DeepSeek V3.2 and V4, Kimi
// K3.
var (
	coder = form{open: "<tool_call>", close: "</tool_call>", call: []part{
		space, lit("<function="), toolName, lit(">"), space,
		{kind: partTagged, tags: coderTags},
		space, lit("</function>"),
	}}
	coderBare = form{open: "<function=", close: "</tool_call>", call: []part{
		toolName, lit(">"), space,
		{kind: partTagged, tags: coderTags},
		space, lit("</function>"),
	}}
	coderTags = tags{open: "<parameter=", middle: []string{">"}, close: "</parameter>", lines: true}

	seed = form{open: "<seed:tool_call>", close: "</seed:tool_call>", call: []part{
		space, lit("<function="), toolName, lit(">"), space,
		{kind: partTagged, tags: tags{open: "<parameter=", middle: []string{">"}, close: "</parameter>"}},
		space, lit("</function>"),
	}}
	glm = form{open: "<tool_call>", call: []part{
		toolName, space,
		{kind: partTagged, tags: tags{open: "<arg_key>", middle: []string{"</arg_key>", "<arg_value>"}, close: "</arg_value>"}},
		space, lit("</tool_call>"),
	}}
	minicpm5 = form{open: `<function name="`, call: []part{
		toolName, lit(`">`), space,
		{kind: partTagged, tags: tags{open: `<param name="`, middle: []string{`">`}, quotes: [2]string{"<![CDATA[", "]]>"}, close: "</param>"}},
		space, lit("</function>"),
	}}
	hunyuan3 = form{
		open: "<tool_calls" + hy3 + ">", many: true, close: "</tool_calls" + hy3 + ">",
		head: []part{space},
		call: []part{
			lit("<tool_call" + hy3 + ">"), space, toolName, space, lit("<tool_sep" + hy3 + ">"), space,
			{kind: partTagged, tags: tags{
				open: "<arg_key" + hy3 + ">", middle: []string{"</arg_key" + hy3 + ">", "<arg_value" + hy3 + ">"}, close: "</arg_value" + hy3 + ">",
			}},
			space, lit("</tool_call" + hy3 + ">"),
		},
	}
	minimaxM2 = invocations("<", "minimax:tool_call")
	kimiK3    = form{
		open: "<|open|>tools<|sep|>", many: true, close: "<|close|>tools<|sep|>",
		head: []part{space},
		call: []part{
			lit(`<|open|>call tool="`), toolName, lit(`" index="`),
			{kind: partDigits},
			lit(`"<|sep|>`), space,
			{kind: partTagged, tags: tags{
				open: `<|open|>argument key="`, middle: []string{`" type="`}, close: "<|close|>argument<|sep|>",
				typed: []typing{
					{`string"<|sep|>`, []string{"string"}},
					{`number"<|sep|>`, []string{"number", "integer"}},
					{`boolean"<|sep|>`, []string{"boolean"}},
					{`object"<|sep|>`, []string{"object"}},
					{`array"<|sep|>`, []string{"array"}},
					{`null"<|sep|>`, []string{"null"}},
				},
				json: [2]string{`<|open|>json type="object"<|sep|>`, "<|close|>json<|sep|>"},
			}},
			space, lit("<|close|>call<|sep|>"),
		},
	}
	dsmlV32 = dsml("function_calls")
	dsmlV4  = dsml("tool_calls")
)

// invocations are calls as of MiniMax M2, with a prefix of all tags and a section around them.
func invocations(prefix, section string) form {
	closing := "</" + prefix[1:]
	return form{
		open: "<" + section + ">", many: true, close: "</" + section + ">",
		head: []part{space},
		call: []part{
			lit(prefix + `invoke name="`), toolName, lit(`">`), space,
			{kind: partTagged, tags: tags{open: prefix + `parameter name="`, middle: []string{`">`}, close: closing + "parameter>"}},
			space, lit(closing + "invoke>"),
		},
	}
}

func dsml(section string) form {
	return form{
		open: "<｜DSML｜" + section + ">", many: true, close: "</｜DSML｜" + section + ">",
		head: []part{space},
		call: []part{
			lit("<｜DSML｜invoke name=\""), toolName, lit("\">"), space,
			{kind: partTagged, tags: tags{
				open: "<｜DSML｜parameter name=\"", middle: []string{"\" string=\""}, close: "</｜DSML｜parameter>",
				typed: []typing{{`true">`, []string{"string"}}, {`false">`, nil}},
			}},
			space, lit("</｜DSML｜invoke>"),
		},
	}
}

// The form for models with templates without tools, and calls as plain objects, which many write instead.
var (
	generic = form{
		open: "{", first: true, head: []part{space, lit(`"tool_calls"`), space, lit(":"), space}, list: true,
		call: []part{plain}, close: "}",
	}
	genericBare = form{open: "{", first: true, keep: true, between: ";", call: []part{plain}}
	genericList = form{open: "[", first: true, keep: true, list: true, call: []part{plain}}
)
