// Package modelname reads what a command line names: models, their draft models and towers, and texts. It fetches
// models that are not here.
package modelname

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/peers"
	"github.com/powerinfer-go/powerinfer/evaluate"
	"github.com/powerinfer-go/powerinfer/internal/hub"
	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

// What the words of a command that are no flags may be.
type wordKind int

const (
	ownWords     wordKind = iota // the command reads them itself
	modelWord                    // a model
	modelAndText                 // a model, a text, or a model and a text
)

func wordsOf(command string) wordKind {
	switch command {
	case "serve", "batch", "bench", "perplexity", "sweep", "plan", "inspect", "imatrix", "profile", "prepare", "eval":
		return modelWord
	case "run", "chat", "tokenize", "embedding":
		return modelAndText
	}
	return ownWords
}

// modelUsage and textUsage say in the help of commands what their words are.
const (
	modelUsage = "MODEL is a GGUF file, a short name such as qwen3:0.6b (powerinfer models), one that powerinfer list shows, " +
		"USER/REPO[:QUANT] of the Hugging Face hub, or an address there. -m takes the same. What is not here is downloaded."
	textUsage = " A first word is a model if a file has that name, if it ends in .gguf, or if it is one of these names and has no " +
		"spaces. Otherwise, and with -m or -hf, all words are TEXT, as they stand."
)

// Keys of a command's metadata: the model that a word names, whether the text came as words or by standard input, and
// the short name that the model was given by.
const (
	wordOfModel = "model"
	wordOfText  = "text"
	shortName   = "short"
)

// Names reports whether a word of a command may name a model.
func Names(command string) bool { return wordsOf(command) != ownWords }

func remember(c *cli.Command, key string, value any) {
	if c.Metadata == nil {
		c.Metadata = map[string]any{}
	}
	c.Metadata[key] = value
}

// namedModel returns the model that one of a command's words names, or nothing.
func namedModel(c *cli.Command) string {
	name, _ := c.Metadata[wordOfModel].(string)
	return name
}

// Short returns the short name by which the user named the model; empty: another name.
func Short(c *cli.Command) string {
	name, _ := c.Metadata[shortName].(string)
	return name
}

// Asked reports whether the text came as words, or by standard input alone: as a question to the model.
func Asked(c *cli.Command) bool { return c.Metadata[wordOfText] == true }

// ReadWords returns an action that first makes a model and a text of the command's words that are no flags, and then
// calls action.
func ReadWords(action cli.ActionFunc) cli.ActionFunc {
	return func(ctx context.Context, c *cli.Command) error {
		if err := takeWords(c); err != nil {
			return err
		}
		return action(ctx, c)
	}
}

func takeWords(c *cli.Command) error {
	kind, words := wordsOf(c.Name), c.Args().Slice()
	if c.Name == "eval" {
		words = withoutTask(words)
	}
	if kind == ownWords || len(words) == 0 {
		return nil
	}
	if !modelFlagGiven(c) {
		switch {
		case IsModel(c, words[0]):
			remember(c, wordOfModel, words[0])
			words = words[1:]
		case kind == modelWord || meansModel(words):
			err := unknownModel(words[0])
			if kind == modelAndText {
				err = fmt.Errorf("%w; -p gives a text of one word", err)
			}
			return err
		}
	}
	switch {
	case len(words) == 0:
		return nil
	case kind == modelWord:
		return fmt.Errorf("unexpected argument %q; %s takes one model", words[0], c.FullName())
	case c.IsSet("prompt") || c.IsSet("file"):
		return fmt.Errorf("%q and -p or -f both give a text; give one", words[0])
	}
	between := " "
	if c.Name == "embedding" {
		between = c.String("embd-separator") // each is a text
	}
	text := strings.Join(words, between)
	if c.Name == "run" {
		before, err := Piped()
		if err != nil {
			return err
		}
		if before != "" {
			text = before + "\n\n" + text
		}
	}
	return takeText(c, text)
}

// takeText makes text the prompt, as it stands.
func takeText(c *cli.Command, text string) error {
	remember(c, wordOfText, true)
	return errors.Join(c.Set("prompt", text), c.Set("no-escape", "true"))
}

// withoutTask returns the words of eval without the first one that is a task.
func withoutTask(words []string) []string {
	if i := slices.IndexFunc(words, func(word string) bool { return slices.Contains(evaluate.TaskNames(), word) }); i >= 0 {
		return slices.Delete(slices.Clone(words), i, i+1)
	}
	return nil // the command says that one is missing
}

// Piped returns the text of standard input where that is a file or a pipe. A socket is not read: programs that start
// others leave it open.
func Piped() (string, error) {
	info, err := os.Stdin.Stat()
	if err != nil || !info.Mode().IsRegular() && info.Mode().Type() != os.ModeNamedPipe {
		return "", nil
	}
	text, err := wholefile.ReadFrom(os.Stdin, wholefile.Text)
	return strings.TrimSuffix(string(text), "\n"), err
}

// TakeInput makes standard input the text of a run without a text.
func TakeInput(c *cli.Command) error {
	if c.IsSet("prompt") || c.IsSet("file") || c.IsSet("prompt-cache") || term.IsTerminal(int(os.Stdin.Fd())) {
		return nil
	}
	text, err := wholefile.ReadFrom(os.Stdin, wholefile.Text)
	if err != nil || len(text) == 0 {
		return err
	}
	return takeText(c, strings.TrimSuffix(string(text), "\n"))
}

// modelFlagGiven reports whether the command line names a model by a flag, and not only a variable of the environment.
func modelFlagGiven(c *cli.Command) bool {
	for flag, variables := range map[string]cli.ValueSourceChain{"model": flags.Env("MODEL"), "hf-repo": flags.Env("HF_REPO")} {
		value, found := variables.Lookup()
		if c.IsSet(flag) && !(found && value == c.String(flag)) {
			return true
		}
	}
	return false
}

// IsModel reports whether a word means a model.
func IsModel(c *cli.Command, word string) bool {
	if info, err := os.Stat(word); err == nil && !info.IsDir() {
		return true
	}
	if strings.HasSuffix(strings.ToLower(word), ".gguf") {
		return true
	}
	if _, _, ok := hub.FindShort(word); ok {
		return true
	}
	if _, ok := inFolders(c, word); ok {
		return true
	}
	_, err := hub.ParseName(word)
	return hub.IsAddress(word) || err == nil && !strings.ContainsAny(word, " \t\n")
}

// modelLike matches a word that is hardly a text: a name with a tag, or letters and digits in one.
var modelLike = regexp.MustCompile(`^[A-Za-z][\w.-]*(:[\w.-]+|\d[\w.-]*)$`)

// meansModel reports whether the first of words, which is no model, was meant to be one. A family's name in it, or a
// hyphen, counts only where hardly any text follows: "llamas live in the Andes" is a text.
func meansModel(words []string) bool {
	first := strings.ToLower(words[0])
	if strings.ContainsAny(first, " \t\n") {
		return false
	}
	family, _, _ := strings.Cut(first, ":")
	named := slices.ContainsFunc(hub.ShortStems(), func(stem string) bool { return strings.Contains(first, stem) })
	return modelLike.MatchString(first) || holdsModel(words[0]) || len(hub.ShortSizes(family)) > 0 || peers.Nearest(first, hub.ShortNames()) != "" ||
		strings.Contains(first, "/") || named && (len(words) <= 2 || strings.Contains(first, "-")) ||
		len(words) == 1 && hyphened.MatchString(first) || len(words) == 2 && strings.Contains(words[1], " ")
}

// hyphened matches names such as orca-mini and command-r.
var hyphened = regexp.MustCompile(`^[a-z]+(-[a-z]+)+$`)

// holdsModel reports whether a name is a folder that holds a GGUF file or a model of Hugging Face's form.
func holdsModel(name string) bool {
	entries, _ := os.ReadDir(name)
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return e.Name() == "config.json" || e.Name() == "params.json" || strings.HasSuffix(strings.ToLower(e.Name()), ".gguf")
	})
}

// unknownModel is the error of a word that is no model where one is expected.
func unknownModel(word string) error {
	if info, err := os.Stat(word); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder; name a GGUF file in it, or serve all of them with powerinfer serve --models-dir %s; powerinfer convert makes a file of a Hugging Face folder", word, word)
	}
	family, _, _ := strings.Cut(word, ":")
	hint := "; powerinfer models shows short names, powerinfer list the models that are here"
	if sizes := hub.ShortSizes(family); len(sizes) > 0 {
		hint = "; of that family there is " + strings.Join(sizes, ", ")
	} else if near := peers.Nearest(strings.ToLower(word), hub.ShortNames()); near != "" {
		hint = peers.DidYouMean(near)
	}
	return fmt.Errorf("there is no model %q%s", word, hint)
}

// inFolders returns the model of that name in the folder that --models-dir or its variable names.
func inFolders(c *cli.Command, name string) (m hub.Model, ok bool) {
	dirs := flags.ReadModelsDirs(c)
	if dir, found := flags.Variable("LLAMA_ARG_MODELS_DIR").Lookup(); found && len(dirs) == 0 {
		dirs = []string{dir}
	}
	for _, dir := range dirs {
		list, err := hub.Folder(dir)
		if err != nil {
			continue
		}
		if i := slices.IndexFunc(list, func(m hub.Model) bool { return m.Name == name && m.Complete }); i >= 0 {
			return list[i], true
		}
	}
	return m, false
}

// Describe adds to a command's help what its words may be.
func Describe(c *cli.Command) {
	kind := wordsOf(c.Name)
	if kind == ownWords {
		return
	}
	usage, text := "[MODEL]", modelUsage
	if kind == modelAndText {
		usage, text = "[MODEL] [TEXT]", modelUsage+textUsage
	}
	if c.ArgsUsage == "" {
		c.ArgsUsage = usage
	}
	if c.Description != "" {
		c.Description = strings.TrimSpace(c.Description) + "\n\n"
	}
	c.Description += text
}
