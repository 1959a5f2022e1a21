//go:build agents

package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// An agent is a coding agent, run without a terminal.
type agent struct {
	name      string
	tool      string     // that runs commands
	more      [][]string // arguments of the tool besides the command, as JSON, in order: a name and a value
	command   string     // the argument that is the command
	arguments []string
	files     map[string]string
	env       []string
}

// {URL} in what follows stands for the server's address, {PROMPT} for what the agent is asked, {HOME} for the folder of
// its settings.
var agents = []agent{
	{
		name: "claude", tool: "Bash", command: "command", more: [][]string{{"description", `"Writes the proof"`}},
		arguments: []string{"-p", "{PROMPT}", "--allowedTools", "Bash", "--model", "tales"},
		env: []string{
			"ANTHROPIC_BASE_URL={URL}", "ANTHROPIC_AUTH_TOKEN=secret", "ANTHROPIC_DEFAULT_HAIKU_MODEL=tales", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
			"DISABLE_AUTOUPDATER=1",
		},
	},
	{
		name: "codex", tool: "exec_command", command: "cmd",
		arguments: []string{"exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "{PROMPT}"},
		files: map[string]string{".codex/config.toml": `model = "tales"
model_provider = "powerinfer"
[model_providers.powerinfer]
name = "PowerInfer"
base_url = "{URL}/v1"
wire_api = "responses"
env_key = "POWERINFER_KEY"
`},
		env: []string{"POWERINFER_KEY=secret", "CODEX_HOME={HOME}/.codex"},
	},
	{
		name: "opencode", tool: "bash", command: "command",
		arguments: []string{"run", "--model", "powerinfer/tales", "{PROMPT}"},
		files: map[string]string{".config/opencode/opencode.json": `{"autoupdate": false, "permission": "allow", "provider": {"powerinfer": {"npm": "@ai-sdk/openai-compatible", "name": "PowerInfer",
			"options": {"baseURL": "{URL}/v1", "apiKey": "secret"}, "models": {"tales": {"name": "tales", "tool_call": true, "limit": {"context": 65536, "output": 4096}}}}}}`},
	},
	{
		name: "qwen", tool: "run_shell_command", command: "command", more: [][]string{{"is_background", "false"}},
		arguments: []string{"-p", "{PROMPT}", "--yolo", "--auth-type", "openai", "--core-tools", "run_shell_command"},
		// Its own settings leave out most of 78,000 bytes, which would take this model longer than the agent waits.
		files: map[string]string{".qwen/system.md": "You write files by commands."},
		env:   []string{"OPENAI_BASE_URL={URL}/v1", "OPENAI_API_KEY=secret", "OPENAI_MODEL=tales", "QWEN_SYSTEM_MD={HOME}/.qwen/system.md"},
	},
}

// A family writes calls and texts as its models do.
type family struct {
	name, template string // a file of templates
	call           func(thought, tool string, arguments [][]string) string
	text           func(thought, text string) string
}

func after(thought, end, text string) string {
	if thought == "" {
		return text
	}
	return thought + end + text
}

// jsonOf returns arguments as an object.
func jsonOf(arguments [][]string) string {
	var parts []string
	for _, a := range arguments {
		parts = append(parts, fmt.Sprintf("%q: %s", a[0], a[1]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// plain returns a value in JSON as it is written between tags.
func plain(value string) string {
	var text string
	if json.Unmarshal([]byte(value), &text) == nil {
		return text
	}
	return value
}

var families = []family{
	{
		name: "Qwen 3.5", template: "Qwen3.5-4B.jinja",
		call: func(thought, tool string, arguments [][]string) string {
			call := "<tool_call>\n<function=" + tool + ">\n"
			for _, a := range arguments {
				call += "<parameter=" + a[0] + ">\n" + plain(a[1]) + "\n</parameter>\n"
			}
			return after(thought, "\n</think>\n\n", call+"</function>\n</tool_call>")
		},
		text: func(thought, text string) string { return after(thought, "\n</think>\n\n", text) },
	},
	{
		name: "Mistral Small 3.2", template: "Mistral-Small-3.2-24B-Instruct-2506.jinja",
		call: func(_, tool string, arguments [][]string) string {
			return "[TOOL_CALLS]" + tool + "[ARGS]" + jsonOf(arguments)
		},
		text: func(_, text string) string { return text },
	},
	{
		name: "gpt-oss", template: "openai-gpt-oss-120b.jinja",
		call: func(_, tool string, arguments [][]string) string {
			return "<|channel|>analysis<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions." + tool + " <|constrain|>json<|message|>" + jsonOf(arguments)
		},
		text: func(_, text string) string {
			return "<|channel|>analysis<|message|>I say it.<|end|><|start|>assistant<|channel|>final<|message|>" + text
		},
	},
	{
		name: "Gemma 4",
		call: func(_, tool string, arguments [][]string) string {
			var parts []string
			for _, a := range arguments {
				value := a[1]
				if value[0] == '"' {
					value = `<|"|>` + plain(value) + `<|"|>`
				}
				parts = append(parts, a[0]+":"+value)
			}
			return "<|tool_call>call:" + tool + "{" + strings.Join(parts, ",") + "}<tool_call|>"
		},
		text: func(_, text string) string { return text },
	},
}

// parse returns the family's chat template.
func (f *family) parse(t *testing.T) *chat.Template {
	path := "testdata/agents/gemma-4.jinja" // ours, in the published form
	if f.template != "" {
		path = testenv.Shared(t, "chat-templates/"+f.template)
	}
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	template, err := chat.Parse(string(source), "<s>", "</s>")
	if err != nil {
		t.Fatal(err)
	}
	return template
}

// quick returns a model of one small layer that has the embedded model's tokens: it reads the agents' prompts of tens
// of thousands of tokens in seconds.
func quick(t *testing.T) *gguf.File {
	embedded, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	tokens, _, err := embedded.Strings("tokenizer.ggml.tokens")
	if err != nil {
		t.Fatal(err)
	}
	f := synthtest.File(t, synth.Spec{Arch: "llama", Type: quant.F32, Layers: 1, Embd: 32, FF: 32, Heads: 1, Vocab: len(tokens), Context: agentContext, Seed: 1})
	for _, k := range embedded.Keys {
		if strings.HasPrefix(k.Key, "tokenizer.") {
			f.Set(k.Key, k.Value)
		}
	}
	return f
}

const agentContext = 1 << 17

// agentTime is the longest time that an agent may take.
const agentTime = 10 * time.Minute

// steps are how many commands an agent has to run, one after the other.
const steps = 5

// TestAgents: unmodified coding agents read a prompt, run five commands that the model calls for, each after the last
// one's result, and show the model's answer. POWERINFER_AGENTS names the folder with their node_modules; "make
// agents-check" installs them.
func TestAgents(t *testing.T) {
	folder := os.Getenv("POWERINFER_AGENTS")
	if folder == "" {
		t.Skip("POWERINFER_AGENTS names no folder with agents")
	}
	for i := range agents {
		for k := range families {
			t.Run(agents[i].name+"/"+families[k].name, func(t *testing.T) { agents[i].try(t, &families[k], folder) })
		}
	}
}

// step returns the command number i: its result is not in its text.
func step(i int) string {
	return fmt.Sprintf("echo proven >> proof.txt; echo proof-$((%d+1000))-done", i)
}

// answer returns what the model says to a prompt: the next command, as long as there are some, and told then.
func (a *agent) answer(t *testing.T, f *family, prompt, told string) string {
	thought := ""
	if strings.HasSuffix(strings.TrimSpace(prompt), "<think>") {
		thought = "I look."
	}
	done := 0
	for strings.Contains(prompt, fmt.Sprintf("proof-%d-done", 1001+done)) {
		done++
	}
	t.Logf("a prompt of %d bytes after %d commands, which ends in %.120q", len(prompt), done, prompt[max(0, len(prompt)-120):])
	switch {
	case !strings.Contains(prompt, a.tool): // a title, perhaps
		return f.text(thought, "Proof")
	case done >= steps:
		return f.text(thought, told)
	}
	command, _ := json.Marshal(step(done + 1))
	command = bytes.ReplaceAll(command, []byte(`\u003e`), []byte(">"))
	return f.call(thought, a.tool, append([][]string{{a.command, string(command)}}, a.more...))
}

func (a *agent) try(t *testing.T, f *family, folder string) {
	program := filepath.Join(folder, "node_modules", ".bin", a.name)
	if _, err := os.Stat(program); err != nil {
		t.Skip("it is not installed")
	}
	const told = "The proof is written, as the tool says."
	l := start(t, func(o *choices) {
		o.Keys = []string{"secret"}
		o.file, o.context, o.model.Template = quick(t), agentContext, f.parse(t)
	})
	home, work := t.TempDir(), t.TempDir()
	l.says.answer(func(prompt string) string { return a.answer(t, f, prompt, told) })
	fill := strings.NewReplacer("{URL}", l.url, "{HOME}", home, "{PROMPT}", "Write the proof.")
	for name, text := range a.files {
		at := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(fill.Replace(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), agentTime)
	defer cancel()
	c := exec.CommandContext(ctx, program)
	for _, argument := range a.arguments {
		c.Args = append(c.Args, fill.Replace(argument))
	}
	c.Dir, c.WaitDelay = work, time.Second
	path := filepath.Join(folder, "node_modules", "node", "bin") + string(filepath.ListSeparator) + os.Getenv("PATH")
	c.Env = []string{"HOME=" + home, "PATH=" + path, "XDG_CONFIG_HOME=" + filepath.Join(home, ".config"), "TERM=dumb", "NO_COLOR=1"}
	for _, e := range a.env {
		c.Env = append(c.Env, fill.Replace(e))
	}
	out, err := c.CombinedOutput()
	proof, _ := os.ReadFile(filepath.Join(work, "proof.txt"))
	if err != nil || !strings.Contains(string(out), told) || string(proof) != strings.Repeat("proven\n", steps) {
		t.Errorf("%v; the proof is %q; it said:\n%s", err, proof, out)
	}
}
