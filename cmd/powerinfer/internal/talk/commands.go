package talk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/attachment"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/conversation"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/editor"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/peers"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/summary"
	"github.com/powerinfer-go/powerinfer/internal/markdown"
	"github.com/powerinfer-go/powerinfer/internal/terminal"
	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

// errExit means that the user wants to leave.
var errExit = errors.New("exit")

// chatAction is a command within a conversation.
type chatAction struct {
	name, argument, help string
	run                  func(ctx context.Context, t *talk, argument string) error
}

// chatActions returns all commands of a chat.
func chatActions() []chatAction {
	return []chatAction{
		{"help", "", "list the commands", func(_ context.Context, t *talk, _ string) error { t.help(); return nil }},
		{"clear", "", "begin a new conversation", func(_ context.Context, t *talk, _ string) error {
			t.said.Clear()
			t.attached, t.pictures, t.evaluated = "", nil, nil
			t.note("a new conversation")
			return nil
		}},
		{"regen", "", "answer the last message again", func(ctx context.Context, t *talk, _ string) error { return t.again(ctx) }},
		{"read", "FILE", "put a file's text before the next message", func(_ context.Context, t *talk, file string) error { return t.attach(attachment.File(file)) }},
		{"image", "FILE", "show the model a picture with the next message", func(_ context.Context, t *talk, files string) error { return t.attachPictures(files) }},
		{"system", "TEXT", "set the system text; without TEXT remove it", func(_ context.Context, t *talk, text string) error {
			t.said.System = text
			if text == "" {
				t.note("from the next answer on there is no system text")
			} else {
				t.note("the system text applies from the next answer on")
			}
			return nil
		}},
		{"set", "NAME VALUE", "set a sampling option such as temp; without NAME show all", func(_ context.Context, t *talk, argument string) error { return t.set(argument) }},
		{"save", "FILE", "write the conversation to a file, as JSON, and its KV cache to FILE.kv", func(ctx context.Context, t *talk, file string) error { return t.save(ctx, attachment.File(file)) }},
		{"load", "FILE", "go on with a conversation that /save wrote", func(ctx context.Context, t *talk, file string) error { return t.restore(ctx, attachment.File(file)) }},
		{"model", "NAME", "go on with another model; without NAME say which one answers", func(ctx context.Context, t *talk, name string) error {
			return t.changeModel(ctx, name)
		}},
		{"stats", "", "show what the last answer took", func(_ context.Context, t *talk, _ string) error { return t.stats() }},
		{"neurons", "", "show which share of each layer's neurons the last answer needed", func(_ context.Context, t *talk, _ string) error {
			if t.answers == 0 {
				return errors.New("there is no answer yet")
			}
			if _, counted := summary.ActiveShare(t.last.Neurons); !counted {
				return errors.New("every neuron was computed: no share was counted")
			}
			summary.Neurons(t.last.Neurons)
			return nil
		}},
		{"thoughts", "", "show the thoughts before the last answer", func(_ context.Context, t *talk, _ string) error { return t.thoughts() }},
		{"exit", "", "leave, as Ctrl-D does", func(context.Context, *talk, string) error { return errExit }},
	}
}

// obey runs the command of a line that begins with a slash.
func (t *talk) obey(ctx context.Context, line string) error {
	name, argument, _ := strings.Cut(strings.TrimPrefix(line, "/"), " ")
	name, argument = peers.Action(name, strings.TrimSpace(argument))
	var names []string
	for _, a := range chatActions() {
		if a.name == name {
			return a.run(ctx, t, strings.TrimSpace(argument))
		}
		names = append(names, a.name)
	}
	suggestion := peers.Nearest(name, names)
	if suggestion != "" {
		suggestion = "/" + suggestion
	}
	return fmt.Errorf("unknown command %q%s; /help lists them, and a space before the slash makes it text", "/"+name, peers.DidYouMean(suggestion))
}

// actionIndent stands before the further lines of a command's help.
const actionIndent = "                    "

func (t *talk) help() {
	for _, a := range chatActions() {
		fmt.Fprintln(screen.Err, t.fitted(fmt.Sprintf("  %-17s %s", strings.TrimSpace("/"+a.name+" "+a.argument), a.help), actionIndent))
	}
	t.note(`A line that ends with \ goes on in the next one, as does text after """ until """.`)
}

// completeAction returns the completions of a line that begins with a slash: commands, or a command's files.
func completeAction(line string) (c editor.Completion) {
	command, ok := strings.CutPrefix(line, "/")
	if !ok {
		return c
	}
	name, argument, named := strings.Cut(command, " ")
	for _, a := range chatActions() {
		switch {
		case !named:
			c.Described = append(c.Described, "/"+a.name, a.help)
		case a.name == name && a.argument == "FILE":
			c.Typed, c.Words = attachment.Complete(argument, name == "image")
		}
	}
	return c
}

// again answers the last message once more.
func (t *talk) again(ctx context.Context) error {
	before := t.said.Messages
	question, ok := t.said.Withdraw()
	if !ok {
		return errors.New("there is no message yet")
	}
	t.said.Messages = slices.Clone(t.said.Messages)
	t.said.Add(question)
	if err := t.answer(ctx); err != nil {
		t.said.Messages = before
		return err
	}
	return nil
}

// attach keeps a file's text for the next message.
func (t *talk) attach(file string) error {
	if file == "" {
		return errors.New("/read needs the name of a file")
	}
	text, err := wholefile.Read(file, wholefile.Setting)
	if err != nil {
		return err
	}
	switch {
	case len(text) == 0:
		return fmt.Errorf("%s is empty", file)
	case !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0:
		return fmt.Errorf("%s is not a text: it is not UTF-8", file)
	}
	t.attached = strings.TrimPrefix(t.attached+"\n\n", "\n\n") + strings.TrimRight(string(text), "\n")
	t.note("%s of %s go before your next message", quantity.Of(len(text), "byte"), file)
	return nil
}

// cacheOf returns the file of a saved conversation's keys and values.
func cacheOf(file string) string { return file + ".kv" }

// save writes the conversation to a file, and its keys and values to another, so that continuing later does not
// evaluate everything again. If the second file cannot be written, the conversation is saved all the same.
func (t *talk) save(ctx context.Context, file string) error {
	if file == "" {
		return errors.New("/save needs the name of a file")
	}
	if err := t.said.Save(file); err != nil {
		return err
	}
	messages, most := quantity.Of(len(t.said.Messages), "message"), t.SaveCache
	if most == 0 || len(t.evaluated) == 0 {
		t.note("%s are in %s", messages, file)
		return nil
	}
	s, err := t.model.SaveCache(ctx, cacheOf(file), t.evaluated, most<<20)
	var size *powerinfer.CacheSizeError
	switch {
	case errors.As(err, &size):
		t.note("%s are in %s; %s; --save-cache %d keeps them", messages, file, screen.Error(err), size.Bytes>>20+1)
	case err != nil:
		t.note("%s are in %s, without the KV cache: %s", messages, file, screen.Error(err))
	default:
		t.note("%s are in %s, the KV cache of %s in %s (%.1f MiB)", messages, file, quantity.Of(len(s.Tokens), "token"), cacheOf(file), float64(s.Bytes)/(1<<20))
	}
	return nil
}

// restore continues a saved conversation. Keys and values that cannot be used, for example of another model, are
// computed again.
func (t *talk) restore(ctx context.Context, file string) error {
	if file == "" {
		return errors.New("/load needs the name of a file")
	}
	if err := t.said.Load(file); err != nil {
		return err
	}
	t.recall()
	t.tellUnseen()
	s, err := t.model.RestoreCache(ctx, cacheOf(file))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		t.note("the next answer reads the whole conversation: %s", screen.Error(err))
	default:
		t.evaluated = s.Tokens
		t.note("%s of it are in the KV cache and are not read again", quantity.Of(len(s.Tokens), "token"))
	}
	return nil
}

// recalled is the number of a loaded conversation's last messages that /load shows.
const recalled = 2

// recall describes the conversation, and shows its last question and answer.
func (t *talk) recall() {
	n := len(t.said.Messages)
	earlier := ""
	if n > recalled {
		earlier = fmt.Sprintf("; the last %d are", recalled)
	}
	t.note("the conversation has %s%s", quantity.Of(n, "message"), earlier)
	if !t.interactive {
		return
	}
	for _, m := range t.said.Messages[max(0, n-recalled):] {
		text := terminal.Clean(strings.TrimSpace(conversation.TextOf(&m, conversation.Unseen+" ")))
		if m.Role == "user" {
			fmt.Fprintln(screen.Out, editor.Prompt+strings.ReplaceAll(text, "\n", "\n"+editor.PromptMore))
			continue
		}
		if t.styled && t.format != nil {
			s := markdown.Styler{Width: screen.Columns(screen.Out)}
			fmt.Fprintln(screen.Out.Styled(), s.Feed(text)+s.Finish())
			continue
		}
		fmt.Fprintln(screen.Out, text)
	}
}

// changeModel continues with the model that name means on the command line. If it cannot be opened, the present model
// stays.
func (t *talk) changeModel(ctx context.Context, name string) error {
	if name == "" {
		t.describeModel()
		return nil
	}
	next := *t
	err := next.open(ctx, name)
	var full *powerinfer.MemoryError
	if errors.As(err, &full) && t.model.Name != "" { // memory may have room for only one of the two models; the embedded one is small
		if err := t.model.Close(); err != nil {
			return err
		}
		if err = next.open(ctx, name); err != nil {
			if again := t.open(ctx, t.model.Name); again != nil {
				return fmt.Errorf("%w, and the model before cannot be opened again: %w", err, again)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("%w; the model before still answers", err)
	}
	closed := t.model.Close()
	*t = next
	t.describeModel()
	t.tellUnseen()
	return closed
}

// describeModel tells the user which model answers.
func (t *talk) describeModel() {
	i := t.model.Info()
	t.note("%s: %s, %.1f MiB of weights, a context of %s; %s", screen.Plain(i.Name), i.Type, quantity.MiB(i.Bytes), quantity.Of(i.Context, "token"), t.model.Device())
}

// set changes a sampling option, or shows them all.
func (t *talk) set(argument string) error {
	if argument == "" {
		for _, name := range t.Flags.Names() {
			fmt.Fprintf(screen.Err, "  %-22s %v\n", name, t.Flags.Value(name, &t.model.Sampling))
		}
		return nil
	}
	name, value, _ := strings.Cut(argument, " ")
	if names := t.Flags.AllNames(); !slices.Contains(names, name) {
		return fmt.Errorf("there is no sampling option %q%s; /set lists them", name, peers.DidYouMean(peers.Nearest(name, names)))
	}
	chosen, err := t.Flags.Set(name, strings.TrimSpace(value), &t.model.Sampling, t.model.Model)
	if err != nil {
		return fmt.Errorf("/set %s: %w", name, err)
	}
	t.model.Sampling = chosen
	t.note("%s is %v", name, t.Flags.Given(name))
	return nil
}

// stats prints what the last answer took and how full the context is.
func (t *talk) stats() error {
	if t.answers == 0 {
		return errors.New("there is no answer yet")
	}
	for line := range strings.Lines(summary.Closing(t.last, t.load)) {
		fmt.Fprintln(screen.Err, t.fitted(strings.TrimSuffix(line, "\n"), ""))
	}
	used := t.last.Cached + t.last.Prompt + t.last.Tokens
	fmt.Fprintln(screen.Err, t.fitted(fmt.Sprintf("%d of %d tokens of context used; %s, %s generated; %s",
		used, t.model.Info().Context, quantity.Of(t.answers, "answer"), quantity.Of(t.tokens, "token"), t.model.Device()), ""))
	return nil
}

// thoughts shows the last answer's thoughts.
func (t *talk) thoughts() error {
	for i := len(t.said.Messages) - 1; i >= 0; i-- {
		m := &t.said.Messages[i]
		if m.Role != "assistant" {
			continue
		}
		text := strings.Trim(m.Reasoning, "\n")
		if text == "" {
			break
		}
		if t.styled {
			fmt.Fprintln(screen.Out.Styled(), screen.Faint+terminal.Clean(text)+screen.Normal)
			return nil
		}
		fmt.Fprintln(screen.Out, text)
		return nil
	}
	return errors.New("the last answer has no thoughts")
}
