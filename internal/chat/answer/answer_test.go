package answer

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

var testTools = []Tool{
	{Name: "get_weather", Parameters: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},"wind":{"type":"boolean"},` +
		`"options":{"type":"object"},"unit":{"anyOf":[{"$ref":"#/$defs/unit"},{"type":"null"}]}},"required":["city"],"$defs":{"unit":{"enum":["C","F"]}}}`)},
	{Name: "get_weather_map"},
	{Name: "now", Parameters: json.RawMessage(`{"type":"object","properties":{}}`)},
}

// sources are texts of templates by which each format is known.
var sources = map[string]string{
	"hermes": "<tool_call>", "coder": "<tool_call><function=<parameter=", "seed": "<seed:tool_call><seed:think>", "glm": "<tool_call><arg_key>",
	"dsml": "｜DSML｜function_calls", "r1": "<｜tool▁calls▁begin｜>```json", "v31": "<｜tool▁calls▁begin｜>", "kimi": "<|tool_calls_section_begin|>",
	"apriel": "<tool_calls>[ [BEGIN FINAL RESPONSE]", "mistral": "[TOOL_CALLS][ARGS][THINK]", "mistral-list": "[TOOL_CALLS]", "command-r": "<|START_ACTION|><|START_THINKING|>",
	"granite": "<|tool_call|> <response></response>", "functionary1": "<function=", "functionary2": ">>>all", "functools": "functools[", "llama": "<|python_tag|>",
	"pythonic": "[func_name1(params_name1=", "harmony": "<|channel|><|message|>", "generic": "",
	"gemma": "<|tool_call>call:<|channel>thought\n<channel|>", "k3": "<|open|><|close|><|end_of_msg|>", "hy3": "<think{}><arg_key{}>:opensource",
	"apertus": "<|tools_prefix|><|inner_prefix|>", "m2": "<minimax:tool_call><think>", "m1": `<tool_calls>\n{"name"`, "lfm2": "<|tool_call_start|><think>",
	"gigachat": "<|role_sep|>'function call'", "gigachat1": "<|role_sep|><|function_call|>", "m3": "]<]minimax[>[<tool_call><mm:think>", "muse": "<atem:function_calls><|eom|><|message|>", "nemotron2": "<TOOLCALL>", "hunyuan-dense": "<tool_calls><tool_call>function_name\n```json", "minicpm5": `<function name="<param name="`, "solar": "<|begin|>assistant<|think|><|begin|>assistant<|content|><|tool_call:begin|>", "hunyuan": "<|extra_0|><|extra_4|><tool_calls>[{ 助手：",
}

type testCall struct{ id, name, arguments string }

func tc(name, arguments string) testCall { return testCall{name: name, arguments: arguments} }

// answerCases are answers in the forms that the models' makers publish, and what they say.
var answerCases = []struct {
	format, prompt, text string
	content, reasoning   string
	calls                []testCall
}{
	// Hermes and Qwen.
	{"hermes", "", "Hello, world.\n", "Hello, world.\n", "", nil},
	{"hermes", "", "<think>\nHm.\n</think>\n\nYes.", "Yes.", "Hm.", nil},
	{"hermes", "assistant\n<think>\n", "Hm.\n</think>\n\nYes.", "Yes.", "Hm.", nil},
	{"hermes", "", "<think>\n\n</think>\n\nYes.", "Yes.", "", nil},
	{"hermes", "assistant\n<think>\n", "<think>\nHm.\n</think>\n\nYes.", "Yes.", "Hm.", nil},
	{"hermes", "", "<think>never closed ", "", "never closed ", nil},
	{"hermes", "", "I write <think> here.", "I write <think> here.", "", nil},
	{"hermes", "", "Let me see.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>", "Let me see.", "", []testCall{tc("get_weather", `{"city": "Paris"}`)}},
	{"hermes", "", "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n<tool_call>{\"arguments\":{\"city\":\"Rome\"},\"name\":\"get_weather\"}</tool_call>\n", "", "", []testCall{tc("now", `{}`), tc("get_weather", `{"city":"Rome"}`)}},
	{"hermes", "", `<tool_call>{"name": "get_weather", "arguments": "{\"city\": \"Rome\"}"}</tool_call>`, "", "", []testCall{tc("get_weather", `{"city": "Rome"}`)}},
	{"hermes", "", `<tool_call>{"type":"function","function":{"name":"now"},"id":"c1"}</tool_call>`, "", "", []testCall{{"c1", "now", `{}`}}},
	{"hermes", "", "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"a\nb\"}}</tool_call>", "", "", []testCall{tc("get_weather", `{"city": "a\nb"}`)}},
	{"hermes", "", `<tool_call>{"name": "get_weather", "arguments": {"city": "\u00c5 \ud83d\ude00\\u"}}</tool_call>`, "", "", []testCall{tc("get_weather", `{"city": "\u00c5 \ud83d\ude00\\u"}`)}},
	{"hermes", "", `<tool_call>{"name": "get_weather", "arguments": {"city": "\u00`, `<tool_call>{"name": "get_weather", "arguments": {"city": "\u00`, "", nil},
	{"seed", "", `<seed:tool_call><function=get_weather><parameter=options>{'a': '\u00`, `<seed:tool_call><function=get_weather><parameter=options>{'a': '\u00`, "", nil},
	{"hermes", "", "<think>I could <tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call></think>No.", "No.", "I could <tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>", nil},
	{"hermes", "", "A <tool_call> is a tag.", "A <tool_call> is a tag.", "", nil},
	{"hermes", "", "<tool_call>\n{\"name\": \"unknown\", \"arguments\": {}}\n</tool_call>", "<tool_call>\n{\"name\": \"unknown\", \"arguments\": {}}\n</tool_call>", "", nil},
	{"hermes", "", "Well\n<tool_call>\n{\"name\": \"now\", \"arguments\": {\"a\": 1,}}\n</tool_call>", "Well\n<tool_call>\n{\"name\": \"now\", \"arguments\": {\"a\": 1,}}\n</tool_call>", "", nil},
	{"hermes", "", "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": ", "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": ", "", nil},
	{"hermes", "", "<tool_call><tool_call>{\"name\": \"now\"}</tool_call>", "<tool_call>", "", []testCall{tc("now", `{}`)}},
	{"hermes", "", "<tool_call>{\"name\": \"now\"}</tool_call>\nDone.", "\nDone.", "", []testCall{tc("now", `{}`)}},
	// Qwen3-Coder and Seed-OSS.
	{
		"coder", "", "Look:\n<tool_call>\n<function=get_weather>\n<parameter=city>\nSan\nJosé \"x\"\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=wind>\nTrue\n</parameter>\n<parameter=options>\n{\"a\": [1]}\n</parameter>\n</function>\n</tool_call>", "Look:", "",
		[]testCall{tc("get_weather", `{"city":"San\nJosé \"x\"","days":3,"wind":true,"options":{"a": [1]}}`)},
	},
	{
		"coder", "", "<function=get_weather>\n<parameter=city>\n12\n</parameter>\n<parameter=days>\nmany\n</parameter>\n<parameter=unit>\nnull\n</parameter>\n<parameter=other>\n7\n</parameter>\n</function>\n</tool_call>", "", "",
		[]testCall{tc("get_weather", `{"city":"12","days":"many","unit":null,"other":7}`)},
	},
	{"coder", "", "<tool_call>\n<function=now>\n</function>\n</tool_call>\n<tool_call>\n<function=get_weather>\n<parameter=unit>\nC\n</parameter>\n</function>\n</tool_call>", "", "", []testCall{tc("now", `{}`), tc("get_weather", `{"unit":"C"}`)}},
	{
		"seed", "", "<seed:think>Hm.</seed:think>\n<seed:tool_call>\n<function=get_weather>\n<parameter=city>Paris</parameter>\n<parameter=options>{'a': [1, True, None, \"it's\"]}</parameter>\n</function>\n</seed:tool_call>", "", "Hm.",
		[]testCall{tc("get_weather", `{"city":"Paris","options":{"a":[1,true,null,"it's"]}}`)},
	},
	// GLM.
	{"glm", "", "\n<think>Hm.</think>\nI look.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>", "I look.", "Hm.", []testCall{tc("get_weather", `{"city":"Paris","days":2}`)}},
	{"glm", "<think>", "Hm.</think><tool_call>get_weather_map<arg_key>zoom</arg_key><arg_value>2.5</arg_value></tool_call><tool_call>now</tool_call>", "", "Hm.", []testCall{tc("get_weather_map", `{"zoom":2.5}`), tc("now", `{}`)}},
	// MiniCPM5.
	{
		"minicpm5", "<think>\n", "Hm.\n</think>\n\nI look.\n<function name=\"get_weather\"><param name=\"city\">São \"4\"</param><param name=\"days\">3</param><param name=\"wind\">True</param><param name=\"options\">{'a': ['</param></function>', None]}</param></function>\n<function name=\"now\"></function>", "I look.", "Hm.",
		[]testCall{tc("get_weather", `{"city":"São \"4\"","days":3,"wind":true,"options":{"a":["</param></function>",null]}}`), tc("now", `{}`)},
	},
	{
		"minicpm5", "", "<function name=\"get_weather\">\n<param name=\"city\"><![CDATA[a </param> & <b>\nc]]></param>\n<param name=\"unit\"><![CDATA[C]]></param>\n</function>", "", "",
		[]testCall{tc("get_weather", `{"city":"a </param> & <b>\nc","unit":"C"}`)},
	},
	{"minicpm5", "", "<function name=\"unknown\"></function>", "<function name=\"unknown\"></function>", "", nil},
	{"minicpm5", "", "<function name=\"get_weather\"><param name=\"city\"><![CDATA[Rome</param></function>", "<function name=\"get_weather\"><param name=\"city\"><![CDATA[Rome</param></function>", "", nil},
	// DeepSeek.
	{
		"r1", "<think>\n", "Hm.\n</think>\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"city\": \"Paris\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>", "", "Hm.",
		[]testCall{tc("get_weather", `{"city": "Paris"}`), tc("now", `{}`)},
	},
	{"v31", "</think>", "Text.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Paris\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>", "Text.", "", []testCall{tc("get_weather", `{"city": "Paris"}`)}},
	{"v31", "<think>", "Hm.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>", "", "Hm.", []testCall{tc("now", `{}`)}},
	{
		"dsml", "<think>", "Hm.</think>Text.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">4</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" string=\"false\">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name=\"now\">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>", "Text.", "Hm.",
		[]testCall{tc("get_weather", `{"city":"4","days":3}`), tc("now", `{}`)},
	},
	// Kimi K2.
	{
		"kimi", "", "Text.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{\"city\": \"Paris\"}<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>", "Text.", "",
		[]testCall{{"functions.get_weather:0", "get_weather", `{"city": "Paris"}`}, {"functions.now:1", "now", `{}`}},
	},
	// Solar Open.
	{"solar", "<|begin|>assistant", "<|think|>Hm.<|end|><|begin|>assistant<|content|>Text.<|end|>", "Text.", "Hm.", nil},
	{"solar", "<|begin|>assistant<|think|><|end|><|begin|>assistant", "<|content|>The word assistant is kept.", "The word assistant is kept.", "", nil},
	{
		"solar", "<|begin|>assistant", "<|think|>Hm.<|end|><|begin|>assistant<|tool_calls|><|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>get_weather<|tool_call:args|>{\"city\": \"Paris\", \"days\": 3}<|tool_call:end|>" +
			"<|tool_call:begin|>k0k0k0k0k0<|tool_call:name|>now<|tool_call:args|>{}<|tool_call:end|><|calls|>", "", "Hm.",
		[]testCall{{"a1b2c3d4e5", "get_weather", `{"city": "Paris", "days": 3}`}, {"k0k0k0k0k0", "now", `{}`}},
	},
	{
		"solar", "<|begin|>assistant", "<|content|>I look.<|end|><|begin|>assistant<|tool_calls|><|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>now<|tool_call:args|>{}<|tool_call:end|>", "I look.", "",
		[]testCall{{"a1b2c3d4e5", "now", `{}`}},
	},
	{"solar", "<|begin|>assistant<|think|>", "Hm.<|tool_calls|><|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>now<|tool_call:args|>{}<|tool_call:end|>", "", "Hm.", []testCall{{"a1b2c3d4e5", "now", `{}`}}},
	{"solar", "<|begin|>assistant", "<|tool_calls|><|tool_call:begin|>a1<|tool_call:name|>unknown<|tool_call:args|>{}<|tool_call:end|>", "<|tool_calls|><|tool_call:begin|>a1<|tool_call:name|>unknown<|tool_call:args|>{}<|tool_call:end|>", "", nil},
	// Kimi K3.
	{"k3", "<|open|>think<|sep|>", "Hm.<|close|>think<|sep|><|open|>response<|sep|>Text.<|close|>response<|sep|><|close|>message<|sep|>", "Text.", "Hm.", nil},
	{"k3", "", "<|open|>think<|sep|>Hm.<|close|>think<|sep|><|open|>response<|sep|>The <|open|> tag.<|close|>response<|sep|>", "The <|open|> tag.", "Hm.", nil},
	{
		"k3", "<|open|>think<|sep|>", "Hm.<|close|>think<|sep|><|open|>response<|sep|>I look.<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool=\"get_weather\" index=\"1\"<|sep|>" +
			"<|open|>argument key=\"city\" type=\"string\"<|sep|>São \"P\"<|close|>argument<|sep|><|open|>argument key=\"days\" type=\"number\"<|sep|>3<|close|>argument<|sep|>" +
			"<|open|>argument key=\"wind\" type=\"boolean\"<|sep|>true<|close|>argument<|sep|><|open|>argument key=\"options\" type=\"object\"<|sep|>{\"a\": [1, {\"b\": null}]}<|close|>argument<|sep|>" +
			"<|close|>call<|sep|><|open|>call tool=\"now\" index=\"2\"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>", "I look.", "Hm.",
		[]testCall{tc("get_weather", `{"city":"São \"P\"","days":3,"wind":true,"options":{"a": [1, {"b": null}]}}`), tc("now", `{}`)},
	},
	{
		"k3", "", "<|open|>tools<|sep|><|open|>call tool=\"get_weather\" index=\"1\"<|sep|><|open|>json type=\"object\"<|sep|>{\"city\": \"Rome\"}<|close|>json<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>", "", "",
		[]testCall{tc("get_weather", `{"city": "Rome"}`)},
	},
	{"k3", "", "<|open|>tools<|sep|><|open|>call tool=\"unknown\" index=\"1\"<|sep|><|close|>call<|sep|>", "<|open|>tools<|sep|><|open|>call tool=\"unknown\" index=\"1\"<|sep|><|close|>call<|sep|>", "", nil},
	// Hy3 and Hunyuan.
	{
		"hy3", "<think:opensource>", "Hm.</think:opensource>I look.<tool_calls:opensource>\n<tool_call:opensource>get_weather<tool_sep:opensource>\n<arg_key:opensource>city</arg_key:opensource>\n<arg_value:opensource>Paris</arg_value:opensource>\n" +
			"<arg_key:opensource>days</arg_key:opensource>\n<arg_value:opensource>3</arg_value:opensource>\n</tool_call:opensource>\n<tool_call:opensource>now<tool_sep:opensource>\n</tool_call:opensource>\n</tool_calls:opensource>", "I look.", "Hm.",
		[]testCall{tc("get_weather", `{"city":"Paris","days":3}`), tc("now", `{}`)},
	},
	{"hy3", "<think:opensource></think:opensource>", "A <tool_call> is a tag.", "A <tool_call> is a tag.", "", nil},
	{"hunyuan", "", "<think>\nHm.\n</think>\n<answer>\n<tool_calls>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}, {\"name\": \"now\", \"arguments\": {}}]</tool_calls>\n</answer>", "", "Hm.", []testCall{tc("get_weather", `{"city": "Paris"}`), tc("now", `{}`)}},
	{"hunyuan", "", "<think>\n\n</think>\n<answer>\nText.\n</answer>", "Text.", "", nil},
	{"hunyuan", "", "<think>\n\n</think>\n<answer>\n助手：The word 助手： is kept.\n</answer>", "The word 助手： is kept.", "", nil},
	{
		"hunyuan-dense", "", "<think>\nHm.\n</think>\nText.<tool_calls><tool_call>get_weather\n```json\n{\"city\": \"Paris\"}\n```</tool_call><tool_call>now\n```json\n{}\n```</tool_call></tool_calls>", "Text.", "Hm.",
		[]testCall{tc("get_weather", `{"city": "Paris"}`), tc("now", `{}`)},
	},
	{"hunyuan", "", "助手：Text.", "Text.", "", nil},
	// MiniMax.
	{
		"m2", "<think>\n", "Hm.\n</think>\n\nI look.\n<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">4</parameter>\n<parameter name=\"options\">{\"a\": [1]}</parameter>\n</invoke>\n<invoke name=\"now\">\n</invoke>\n</minimax:tool_call>", "I look.", "Hm.",
		[]testCall{tc("get_weather", `{"city":"4","options":{"a": [1]}}`), tc("now", `{}`)},
	},
	{
		"m3", "", "<mm:think>Hm.</mm:think>I look.]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"get_weather\">]<]minimax[>[<city>São \"4\"\n]<]minimax[>[</city>]<]minimax[>[<days>3]<]minimax[>[</days>" +
			"]<]minimax[>[<options>]<]minimax[>[<a>]<]minimax[>[<item>1]<]minimax[>[</item>]<]minimax[>[<item>b]<]minimax[>[</item>]<]minimax[>[</a>]<]minimax[>[<c>]<]minimax[>[<d>]<]minimax[>[<e>true]<]minimax[>[</e>]<]minimax[>[</d>]<]minimax[>[</c>]<]minimax[>[</options>" +
			"]<]minimax[>[</invoke>\n]<]minimax[>[<invoke name=\"now\">]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>", "I look.", "Hm.",
		[]testCall{tc("get_weather", `{"city":"São \"4\"\n","days":3,"options":{"a":[1,"b"],"c":{"d":{"e":true}}}}`), tc("now", `{}`)},
	},
	{"m3", "", "</mm:think>Text with ]<] and <item>.", "Text with ]<] and <item>.", "", nil},
	{"m3", "", "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"get_weather\">]<]minimax[>[<city>4]<]minimax[>[</city>]<]minimax[>[<options>]<]minimax[>[</options>]<]minimax[>[</invoke>]<]minimax[>[</tool_call>", "", "", []testCall{tc("get_weather", `{"city":"4","options":{}}`)}},
	{"m3", "", "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"get_weather\">]<]minimax[>[<city>4", "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"get_weather\">]<]minimax[>[<city>4", "", nil},
	{"m1", "", "Text.\n<tool_calls>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n{\"name\": \"now\", \"arguments\": {}}\n</tool_calls>", "Text.", "", []testCall{tc("get_weather", `{"city": "Paris"}`), tc("now", `{}`)}},
	// Apertus, LFM2, Nemotron Nano 2.
	{"apertus", "", "<|inner_prefix|>Hm.<|inner_suffix|>Text.<|tools_prefix|>[{\"get_weather\": {\"city\": \"Paris\"}}, {\"now\": {}}]<|tools_suffix|>", "Text.", "Hm.", []testCall{tc("get_weather", `{"city": "Paris"}`), tc("now", `{}`)}},
	{"apertus", "", "<|inner_prefix|>Hm.<|tools_prefix|>[{\"now\": {}}]<|tools_suffix|>", "", "Hm.", []testCall{tc("now", `{}`)}},
	{"apertus", "", "<|tools_prefix|>[{\"unknown\": {}}]<|tools_suffix|>", "<|tools_prefix|>[{\"unknown\": {}}]<|tools_suffix|>", "", nil},
	{"lfm2", "", "<think>Hm.</think><|tool_call_start|>[get_weather(city='Rome', days=3, options={\"a\": [1, true]}), now()]<|tool_call_end|>Done.", "Done.", "Hm.", []testCall{tc("get_weather", `{"city":"Rome","days":3,"options":{"a":[1,true]}}`), tc("now", `{}`)}},
	{"lfm2", "", "<|tool_call_start|>[get_weather(city='it\\'s \"4\"\nor', wind=True, options={'a': ['b', None]}, unit='C')]<|tool_call_end|>", "", "", []testCall{tc("get_weather", `{"city":"it's \"4\"\nor","wind":true,"options":{"a":["b",null]},"unit":"C"}`)}},
	{"gigachat", "", "Text.<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}", "Text.", "", []testCall{tc("get_weather", `{"city": "Paris"}`)}},
	{"gigachat1", "", "Text.<|function_call|>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}", "Text.", "", []testCall{tc("get_weather", `{"city": "Paris"}`)}},
	{"nemotron2", "", "<TOOLCALL>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}]</TOOLCALL>", "", "", []testCall{tc("get_weather", `{"city": "Paris"}`)}},
	// Lists.
	{"apriel", "Here are my reasoning steps:\n", "Hm.\n[BEGIN FINAL RESPONSE]\nText.\n<tool_calls>[{\"name\": \"now\", \"arguments\": {}}, {\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}]</tool_calls>", "Text.", "Hm.", []testCall{tc("now", `{}`), tc("get_weather", `{"city": "Paris"}`)}},
	{"mistral-list", "", "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}, \"id\": \"abcdef123\"}, {\"name\": \"now\", \"arguments\": {}}]", "", "", []testCall{tc("get_weather", `{"city": "Paris"}`), tc("now", `{}`)}},
	{"mistral", "", "[THINK]Hm.[/THINK]Text.[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Paris\"}[TOOL_CALLS]now[CALL_ID]abcdef123[ARGS]{}", "Text.", "Hm.", []testCall{tc("get_weather", `{"city": "Paris"}`), {"abcdef123", "now", `{}`}}},
	{"command-r", "<|START_THINKING|>", "Hm.<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}},\n    {\"tool_call_id\": 1, \"tool_name\": \"now\", \"parameters\": {}}\n]<|END_ACTION|>", "", "Hm.", []testCall{{"0", "get_weather", `{"city": "Paris"}`}, {"1", "now", `{}`}}},
	{"granite", "", "<think>Hm.</think><response>Text.</response>", "Text.", "Hm.", nil},
	{"granite", "", "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}]", "", "", []testCall{tc("get_weather", `{"city": "Paris"}`)}},
	{"functools", "", " functools[{\"name\": \"now\", \"arguments\": {}}]", "", "", []testCall{tc("now", `{}`)}},
	{"functools", "", "the functools[0] module", "the functools[0] module", "", nil},
	// Functionary.
	{"functionary1", "", "Text.<function=get_weather>{\"city\": \"Paris\"}</function><function=now>{}</function>", "Text.", "", []testCall{tc("get_weather", `{"city": "Paris"}`), tc("now", `{}`)}},
	{"functionary2", ">>>", "all\nText.>>>get_weather\n{\"city\": \"Paris\"}>>>now\n{}", "Text.", "", []testCall{tc("get_weather", `{"city": "Paris"}`), tc("now", `{}`)}},
	{"functionary2", ">>>", "get_weather_map\n{}", "", "", []testCall{tc("get_weather_map", `{}`)}},
	{"functionary2", ">>>", "python\nprint(1) >>> 2", "python\nprint(1) >>> 2", "", nil},
	// Llama.
	{"llama", "", `{"name": "get_weather", "parameters": {"city": "Paris"}}`, "", "", []testCall{tc("get_weather", `{"city": "Paris"}`)}},
	{"llama", "", `<|python_tag|>{"type": "function", "name": "get_weather", "parameters": {"city": "Paris"}}`, "", "", []testCall{tc("get_weather", `{"city": "Paris"}`)}},
	{"llama", "", `<|python_tag|>get_weather.call(city="Paris")`, "", "", []testCall{tc("get_weather", `{"city":"Paris"}`)}},
	{"llama", "", `{"name": "Ada", "age": 36}`, `{"name": "Ada", "age": 36}`, "", nil},
	{"llama", "", `{"a": [1, 2]} is JSON`, `{"a": [1, 2]} is JSON`, "", nil},
	{"llama", "", `For example {"name": "now", "parameters": {}}`, `For example {"name": "now", "parameters": {}}`, "", nil},
	{"pythonic", "", `[get_weather(city='Pa"ris', days=3, wind=True, options={'a': [1, None]}), now()]`, "", "", []testCall{tc("get_weather", `{"city":"Pa\"ris","days":3,"wind":true,"options":{"a":[1,null]}}`), tc("now", `{}`)}},
	{"pythonic", "", `[1] says so`, `[1] says so`, "", nil},
	// gpt-oss.
	{"harmony", "", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Text.<|return|>", "Text.", "Hm.", nil},
	{"harmony", "", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant to=functions.get_weather<|channel|>commentary json<|message|>{\"city\": \"Paris\"}<|call|>", "", "Hm.", []testCall{tc("get_weather", `{"city": "Paris"}`)}},
	{"harmony", "", "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}", "I look.", "", []testCall{tc("now", `{}`)}},
	{"harmony", "", "Plain text", "Plain text", "", nil},
	{"harmony", "", "<|channel|>commentary to=functions.unknown <|constrain|>json<|message|>{}<|call|>", "<|channel|>commentary to=functions.unknown <|constrain|>json<|message|>{}<|call|>", "", nil},
	{"harmony", "", "<|channel|>commentary to=functions.now<|message|>{]<|call|>", "<|channel|>commentary to=functions.now<|message|>{]", "", nil},
	// Muse Glimmer.
	{"muse", "<|start|>assistant", " to=self<|message|>Hm.<|eom|><|start|>assistant to=user<|message|>Text.<|eot|>", "Text.", "Hm.", nil},
	{
		"muse", "<|start|>assistant", " to=self<|message|>Hm.<|eom|><|start|>assistant to=get_weather<|message|><atem:function_calls>\n<atem:invoke name=\"get_weather\">\n<atem:parameter name=\"city\">São \"P\"\n</atem:parameter>\n" +
			"<atem:parameter name=\"options\">{\"a\": [1]}</atem:parameter>\n</atem:invoke>\n</atem:function_calls><|eom|><|start|>assistant to=now<|message|><atem:function_calls>\n<atem:invoke name=\"now\">\n</atem:invoke>\n</atem:function_calls>", "", "Hm.",
		[]testCall{tc("get_weather", `{"city":"São \"P\"\n","options":{"a": [1]}}`), tc("now", `{}`)},
	},
	{"muse", "<|start|>assistant", " to=user<|message|>I look.<|eom|><|start|>assistant to=now<|message|><atem:function_calls>\n<atem:invoke name=\"now\">\n</atem:invoke>\n</atem:function_calls>", "I look.", "", []testCall{tc("now", `{}`)}},
	{"muse", "<|start|>assistant", " to=user<|message|>I look.\n<atem:function_calls>\n<atem:invoke name=\"now\">\n</atem:invoke>\n</atem:function_calls><|eot|>", "I look.", "", []testCall{tc("now", `{}`)}},
	{"muse", "<|start|>assistant to=self<|message|>", "I could write <atem:function_calls>.<|eom|><|start|>assistant to=self<|message|>No.<|eom|><|start|>assistant<|message|>Text.", "Text.", "I could write <atem:function_calls>.No.", nil},
	{"muse", "", "Plain to=user text", "Plain to=user text", "", nil},
	{"muse", "<|start|>assistant", " to=unknown<|message|><atem:function_calls>\n<atem:invoke name=\"unknown\">", " to=unknown<|message|><atem:function_calls>\n<atem:invoke name=\"unknown\">", "", nil},
	// Gemma 4.
	{"gemma", "", "<|channel>thought\nHm.\n<channel|>Text.<|tool_call>call:get_weather{city:<|\"|>Paris, \"x\"\n<|\"|>,days:3,options:{a:[1,true,<|\"|>b<|\"|>],<|\"|>c d<|\"|>:null},wind:false}<tool_call|>", "Text.", "Hm.", []testCall{tc("get_weather", `{"city":"Paris, \"x\"\n","days":3,"options":{"a":[1,true,"b"],"c d":null},"wind":false}`)}},
	{"gemma", "<|channel>thought\n<channel|>", "<|tool_call>call:now{}<tool_call|><|tool_call>call:get_weather{city:<|\"|>Rome<|\"|>}<tool_call|>", "", "", []testCall{tc("now", `{}`), tc("get_weather", `{"city":"Rome"}`)}},
	{"gemma", "", "<|tool_call>call:get_weather{city:<|\"|>a <|\"|> b<|\"|>}<tool_call|>", "", "", []testCall{tc("get_weather", `{"city":"a <|\"|> b"}`)}},
	{"gemma", "", "<|tool_call>call:get_weather{city: Rome, \"days\": 2}<tool_call|>", "", "", []testCall{tc("get_weather", `{"city":"Rome","days":2}`)}},
	{"gemma", "", "<|tool_call>call:get_weather{unit:nullish,days:1st}<tool_call|>", "", "", []testCall{tc("get_weather", `{"unit":"nullish","days":"1st"}`)}},
	{"gemma", "<|channel>thought\n", "So<|tool_call>call:now{}<tool_call|>", "", "So", []testCall{tc("now", `{}`)}},
	{"gemma", "", "<|tool_call>call:unknown{}<tool_call|>", "<|tool_call>call:unknown{}<tool_call|>", "", nil},
	// Generic.
	{"generic", "", `{"tool_calls": [{"name": "get_weather", "arguments": {"city": "Paris"}}, {"name":"now","arguments":{}}]}`, "", "", []testCall{tc("get_weather", `{"city": "Paris"}`), tc("now", `{}`)}},
	{"generic", "", "{\n  \"tool_calls\": [\n {\"name\": \"now\", \"arguments\": {}, \"id\": \"x\"}\n]\n}\n", "", "", []testCall{tc("now", `{}`)}},
	{"generic", "", `{"name": "now", "arguments": {}}`, "", "", []testCall{tc("now", `{}`)}},
	{"generic", "", `{"tool_calls": []}`, `{"tool_calls": []}`, "", nil},
	{"generic", "", `{"tool_calls": {"no": 1}}`, `{"tool_calls": {"no": 1}}`, "", nil},
}

// parse feeds an answer in pieces.
func parse(f *Format, o Options, pieces ...string) (Message, string) {
	p := f.NewParser(o)
	var m Message
	var source strings.Builder
	add := func(events []Event) {
		m.Add(events...)
		for _, e := range events {
			source.WriteString(e.Source)
		}
	}
	for _, piece := range pieces {
		add(p.Feed(piece))
	}
	add(p.Finish())
	return m, source.String()
}

func callsOf(m Message) []testCall {
	var out []testCall
	for _, c := range m.Calls {
		out = append(out, testCall{c.ID, c.Name, string(c.Arguments)})
	}
	return out
}

func TestAnswers(t *testing.T) {
	for _, c := range answerCases {
		f := FormatOf(sources[c.format], c.format != "generic", true)
		m, source := parse(f, Options{Tools: testTools, Prompt: c.prompt}, c.text)
		if m.Content != c.content || m.Reasoning != c.reasoning || !reflect.DeepEqual(callsOf(m), c.calls) {
			t.Errorf("%s: %q:\ngot  %q, %q, %q\nwant %q, %q, %q", c.format, c.text, m.Content, m.Reasoning, callsOf(m), c.content, c.reasoning, c.calls)
		}
		if source != c.text {
			t.Errorf("%s: the events account for %q of %q", c.format, source, c.text)
		}
	}
}

// cuts cuts text at random into pieces.
func cuts(r *rand.Rand, text string) []string {
	var out []string
	for text != "" {
		n := 1 + r.IntN(min(len(text), 1+r.IntN(12)))
		out = append(out, text[:n])
		text = text[n:]
	}
	return out
}

// damaged returns a text with random bytes missing, doubled or exchanged, or with a piece of another in it.
func damaged(r *rand.Rand, text string) string {
	b := []byte(text)
	for range 1 + r.IntN(4) {
		if len(b) == 0 {
			break
		}
		i := r.IntN(len(b))
		switch r.IntN(4) {
		case 0:
			b = append(b[:i], b[min(len(b), i+1+r.IntN(5)):]...)
		case 1:
			b = append(b[:i+1], b[i:]...)
		case 2:
			b[i] = `{}[]"<>: ,a1\`[r.IntN(13)]
		case 3:
			other := answerCases[r.IntN(len(answerCases))].text
			from := r.IntN(len(other))
			b = []byte(string(b[:i]) + other[from:min(len(other), from+r.IntN(30))] + string(b[i:]))
		}
	}
	return string(b)
}

// check holds for any answer: its events cover all of it, their sum does not depend on the pieces, arguments of calls
// are JSON objects, and without calls and thoughts the content is the answer.
func check(t *testing.T, f *Format, o Options, text string, pieces []string) {
	t.Helper()
	whole, source := parse(f, o, text)
	cut, cutSource := parse(f, o, pieces...)
	if source != text || cutSource != text {
		t.Errorf("%s: %q: the events account for %q and %q", f.name, text, source, cutSource)
	}
	if whole.Content != cut.Content || whole.Reasoning != cut.Reasoning || !reflect.DeepEqual(callsOf(whole), callsOf(cut)) {
		t.Errorf("%s: %q in pieces %q:\ngot  %q, %q, %q\nwant %q, %q, %q", f.name, text, pieces, cut.Content, cut.Reasoning, callsOf(cut), whole.Content, whole.Reasoning, callsOf(whole))
	}
	for _, c := range whole.Calls {
		if !json.Valid(c.Arguments) || c.Arguments[0] != '{' {
			t.Errorf("%s: %q: the arguments of %s are %q", f.name, text, c.Name, c.Arguments)
		}
	}
}

func TestPiecesDoNotMatter(t *testing.T) {
	const seed = 1
	r := rand.New(rand.NewPCG(seed, 1))
	for range 6 {
		for _, c := range answerCases {
			f := FormatOf(sources[c.format], c.format != "generic", true)
			o := Options{Tools: testTools, Prompt: c.prompt, Reasoning: ReasoningFormat(r.IntN(2))}
			check(t, f, o, c.text, strings.Split(c.text, ""))
			check(t, f, o, c.text, cuts(r, c.text))
			text := damaged(r, c.text)
			check(t, f, o, text, cuts(r, text))
			text = c.text[:r.IntN(len(c.text)+1)] // at a limit of tokens
			check(t, f, o, text, cuts(r, text))
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestTextWithoutCallsIsUnchanged holds that every answer without a tool and with thoughts inline is its own content.
func TestTextWithoutCallsIsUnchanged(t *testing.T) {
	for _, c := range answerCases {
		f := FormatOf(sources[c.format], true, true)
		f.drop, f.speaker = nil, ""
		m, _ := parse(f, Options{Reasoning: ReasoningNone, Prompt: c.prompt}, c.text)
		want := c.text
		if c.prompt == ">>>" {
			want = strings.TrimPrefix(want, "all\n")
		}
		if f.channels == nil && m.Content != want {
			t.Errorf("%s: got %q, want %q", c.format, m.Content, want)
		}
	}
}

// TestArgumentsStream holds that arguments come while they are written, and text as soon as it can be no marker.
func TestArgumentsStream(t *testing.T) {
	p := FormatOf("<tool_call>", true, true).NewParser(Options{Tools: testTools})
	var got []string
	for _, piece := range []string{"Hi <", "tool", "_box>", "<tool_call>{\"name\": \"now\", ", "\"arguments\"", ": {\"a\"", ": 1", "}}"} {
		var b strings.Builder
		for _, e := range p.Feed(piece) {
			if e.Kind != Mark {
				fmt.Fprintf(&b, "%s:%s%s;", e.Kind, e.Name, e.Text)
			}
		}
		got = append(got, b.String())
	}
	p.Finish()
	want := []string{"content:Hi;", "", "content: <tool_box>;", "", "", `call begin:now;call arguments:{"a";`, "call arguments:: ;", "call arguments:1};call end:;"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func FuzzAnswer(f *testing.F) {
	for _, c := range answerCases {
		f.Add(c.format, c.prompt, c.text, uint64(1))
	}
	f.Fuzz(func(t *testing.T, format, prompt, text string, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		check(t, FormatOf(sources[format], true, true), Options{Tools: testTools, Prompt: prompt}, text, cuts(r, text))
	})
}

// TestReasoningFormats holds where thoughts go, by llama.cpp's names none and deepseek-legacy.
func TestReasoningFormats(t *testing.T) {
	const text = "<think>\nHm. <tool_call>{\"name\": \"now\"}</tool_call>\n</think>\n\nYes.\n<tool_call>{\"name\": \"now\"}</tool_call>"
	for _, c := range []struct {
		format             ReasoningFormat
		content, reasoning string
	}{
		{ReasoningAuto, "Yes.", "Hm. <tool_call>{\"name\": \"now\"}</tool_call>"},
		{ReasoningNone, "<think>\nHm. <tool_call>{\"name\": \"now\"}</tool_call>\n</think>\n\nYes.", ""},
		{ReasoningBoth, "<think>\nHm. <tool_call>{\"name\": \"now\"}</tool_call></think>\nYes.", "Hm. <tool_call>{\"name\": \"now\"}</tool_call>"},
	} {
		m, source := parse(FormatOf("<tool_call>", true, true), Options{Tools: testTools, Reasoning: c.format}, text)
		if m.Content != c.content || m.Reasoning != c.reasoning || len(m.Calls) != 1 || source != text {
			t.Errorf("%d: got %q, %q, %+v", c.format, m.Content, m.Reasoning, m.Calls)
		}
	}
}

// TestFinishedParsersLeaveNothing holds that no coroutine is left, also where an answer is given up.
func TestFinishedParsersLeaveNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 100 {
		p := FormatOf("<tool_call>", true, true).NewParser(Options{Tools: testTools})
		p.Feed(`Text <tool_call>{"name": "now", "arguments": {"a": "`)
		p.Finish()
	}
	if after := runtime.NumGoroutine(); after > before+10 {
		t.Errorf("%d goroutines before, %d after", before, after)
	}
}
