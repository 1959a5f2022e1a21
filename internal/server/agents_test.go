//go:build agents

package server_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// An agent is a coding agent, run without a terminal.
type agent struct {
	name      string
	call      string // of its tool that runs commands, in Qwen's form; %s is the command in JSON
	arguments []string
	files     map[string]string
	env       []string
}

// {URL} in what follows stands for the server's address, {PROMPT} for what the agent is asked, {HOME} for the folder of
// its settings.
var agents = []agent{
	{
		name: "claude", call: `{"name": "Bash", "arguments": {"command": %s, "description": "Writes the proof"}}`,
		arguments: []string{"-p", "{PROMPT}", "--allowedTools", "Bash", "--model", "tales"},
		env: []string{
			"ANTHROPIC_BASE_URL={URL}", "ANTHROPIC_AUTH_TOKEN=secret", "ANTHROPIC_DEFAULT_HAIKU_MODEL=tales", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
			"DISABLE_AUTOUPDATER=1",
		},
	},
	{
		name: "codex", call: `{"name": "exec_command", "arguments": {"cmd": %s}}`,
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
		name: "opencode", call: `{"name": "bash", "arguments": {"command": %s}}`,
		arguments: []string{"run", "--model", "powerinfer/tales", "{PROMPT}"},
		files: map[string]string{".config/opencode/opencode.json": `{"autoupdate": false, "permission": "allow", "provider": {"powerinfer": {"npm": "@ai-sdk/openai-compatible", "name": "PowerInfer",
			"options": {"baseURL": "{URL}/v1", "apiKey": "secret"}, "models": {"tales": {"name": "tales", "tool_call": true, "limit": {"context": 65536, "output": 4096}}}}}}`},
	},
	{
		name: "qwen", call: `{"name": "run_shell_command", "arguments": {"command": %s, "is_background": false}}`,
		arguments: []string{"-p", "{PROMPT}", "--yolo", "--auth-type", "openai", "--core-tools", "run_shell_command"},
		// Its own settings leave out most of 78,000 bytes, which would take this model longer than the agent waits.
		files: map[string]string{".qwen/system.md": "You write files by commands."},
		env:   []string{"OPENAI_BASE_URL={URL}/v1", "OPENAI_API_KEY=secret", "OPENAI_MODEL=tales", "QWEN_SYSTEM_MD={HOME}/.qwen/system.md"},
	},
}

// agentTime is the longest time that an agent may take: its prompts have tens of thousands of tokens, which two busy
// cores read in minutes.
const agentTime = 10 * time.Minute

// TestAgents: coding agents, unmodified, read a prompt, run a command that the model calls for, and tell what it
// answers to the result. The folder that POWERINFER_AGENTS names has them in node_modules; "make agents-check" installs
// them.
func TestAgents(t *testing.T) {
	folder := os.Getenv("POWERINFER_AGENTS")
	if folder == "" {
		t.Skip("POWERINFER_AGENTS names no folder with agents")
	}
	for i := range agents {
		t.Run(agents[i].name, func(t *testing.T) { agents[i].try(t, folder) })
	}
}

func (a *agent) try(t *testing.T, folder string) {
	program := filepath.Join(folder, "node_modules", ".bin", a.name)
	if _, err := os.Stat(program); err != nil {
		t.Skip("it is not installed")
	}
	change := thinking(t)
	l := start(t, func(o *choices) {
		change(o)
		o.context = 1 << 16
	})
	const told = "The proof is written, as the tool says."
	home, work := t.TempDir(), t.TempDir()
	said := 0
	l.says.answer(func(prompt string) string {
		turn := prompt[max(0, strings.LastIndex(prompt, "<|im_start|>user")):]
		t.Logf("a prompt of %d bytes, whose last turn begins with %.80q", len(prompt), turn)
		switch {
		case strings.Contains(turn, "<tool_response>"):
			return told
		case !strings.Contains(prompt, "<tools>") || said > 2: // a title, perhaps
			return "Proof"
		}
		said++
		return "<tool_call>\n" + fmt.Sprintf(a.call, `"echo proven > proof.txt && cat proof.txt"`) + "\n</tool_call>"
	})
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
	if err != nil || !strings.Contains(string(out), told) || string(proof) != "proven\n" {
		t.Errorf("%v; the proof is %q; it said:\n%s", err, proof, out)
	}
}
