package flags

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/urfave/cli/v3"
)

// UsualSavedCache is the default of --save-cache in MiB: some 16,000 tokens of an 8B model of Llama 3's shape.
const UsualSavedCache = 2048

// Chat returns the flags of conversations.
func Chat() []cli.Flag {
	return About(ChatSubject, slices.Concat([]cli.Flag{
		&cli.StringFlag{Name: "system-prompt", Aliases: []string{"sys"}, Usage: "begin the conversation with this system `TEXT`"},
		&cli.StringFlag{Name: "system-prompt-file", Aliases: []string{"sysf"}, Usage: "read the system's text from `FILE`"},
		&cli.BoolFlag{Name: "single-turn", Aliases: []string{"st"}, Usage: "end after one answer"},
		&cli.BoolFlag{Name: "multiline-input", Aliases: []string{"mli"}, Usage: `a message goes on over lines until one ends with \ or /`},
		&cli.BoolFlag{Name: "simple-io", Usage: "read plain lines and write plain text, without colours and line editing"},
		&cli.Int64Flag{Name: "save-cache", Value: UsualSavedCache, Usage: "`MIB` that /save may write of keys and values beside a conversation; 0: none"},
	}, Template()))
}

// Template returns the flags that choose a chat template.
func Template() []cli.Flag {
	return About(ChatSubject, []cli.Flag{
		&cli.StringFlag{Name: "chat-template", Usage: "`NAME` of a built-in chat template, or a template itself (Jinja); default: the model's", Sources: Env("CHAT_TEMPLATE")},
		&cli.StringFlag{Name: "chat-template-file", Usage: "read the chat template from `FILE`", Sources: Env("CHAT_TEMPLATE_FILE")},
		&cli.StringFlag{Name: "chat-template-kwargs", Usage: `more variables for the template, a JSON object such as '{"tone":"formal"}'`, Sources: Env("CHAT_TEMPLATE_KWARGS")},
		&cli.StringFlag{Name: "reasoning", Aliases: []string{"rea"}, Value: "auto", Usage: "whether answers begin with thoughts: on, off, or auto, which is what the template says", Sources: Env("REASONING")},
		&cli.StringFlag{Name: "reasoning-effort", Usage: "`LEVEL` for templates that know reasoning_effort, such as low", Sources: Env("REASONING_EFFORT")},
	})
}

// Mode returns the flags that choose between a conversation and a continuation.
func Mode() []cli.Flag {
	return About(ChatSubject, []cli.Flag{
		&cli.BoolFlag{Name: "conversation", Aliases: []string{"cnv"}, Usage: "talk, as powerinfer chat does; the default on a terminal without -p and -f"},
		&cli.BoolFlag{Name: "no-conversation", Aliases: []string{"no-cnv"}, Usage: "continue a text; the default with -p or -f"},
	})
}

// ReadKwargs returns the template's variables. Those of --chat-template-kwargs replace what --reasoning and
// --reasoning-effort set.
func ReadKwargs(c *cli.Command) (map[string]json.RawMessage, error) {
	kwargs := map[string]json.RawMessage{}
	switch on := c.String("reasoning"); on {
	case "on", "off":
		for _, name := range []string{"enable_thinking", "thinking"} {
			kwargs[name] = strconv.AppendBool(nil, on == "on")
		}
	case "auto":
	default:
		return nil, fmt.Errorf("--reasoning %q is none of on, off and auto", on)
	}
	if effort := c.String("reasoning-effort"); effort != "" && effort != "default" {
		kwargs["reasoning_effort"], _ = json.Marshal(effort)
	}
	text := c.String("chat-template-kwargs")
	if text == "" {
		return kwargs, nil
	}
	if err := json.Unmarshal([]byte(text), &kwargs); err != nil {
		return nil, fmt.Errorf("--chat-template-kwargs is no JSON object: %w", err)
	}
	return kwargs, nil
}
