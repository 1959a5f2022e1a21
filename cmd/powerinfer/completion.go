package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/help"
	"github.com/powerinfer-go/powerinfer/evaluate"
	"github.com/powerinfer-go/powerinfer/internal/convert"
	"github.com/powerinfer-go/powerinfer/internal/hub"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/prepare"
)

// The scripts of the cli library complete no file names in fish and take a flag's value for a flag. In bash they
// execute a command line's $( ) when the user types a tab. These scripts ask the program for each word instead:
// __complete WORDS... completes the last word.

//go:embed completion/powerinfer.bash
var bashCompletion string

//go:embed completion/_powerinfer
var zshCompletion string

//go:embed completion/powerinfer.fish
var fishCompletion string

// completionShells are the shells that have a script.
var completionShells = []string{"bash", "zsh", "fish"}

// completeName is the hidden command that scripts call.
const completeName = "__complete"

// Lines in a completion's output that make the script complete names by itself.
const (
	fileNames   = ":files"
	folderNames = ":folders"
)

// takesModels matches the usage of arguments that may be short names of models.
var takesModels = regexp.MustCompile(`\b(MODEL|NAME)\b`)

// takesFiles matches the usage of arguments that are files.
var takesFiles = regexp.MustCompile(`\b(FILE|FOLDER|MODEL|IN)\b`)

func completionCommand() *cli.Command {
	return &cli.Command{
		Name: "completion", Usage: "print the script by which a shell completes commands, flags and files", ArgsUsage: "bash|zsh|fish",
		Description: `In ~/.bashrc:

  source <(powerinfer completion bash)

In ~/.zshrc, after compinit:

  source <(powerinfer completion zsh)

For fish, once:

  powerinfer completion fish > ~/.config/fish/completions/powerinfer.fish`,
		Action: func(_ context.Context, c *cli.Command) error {
			script := ""
			if c.Args().Len() == 1 {
				script = map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[c.Args().First()]
			}
			if script == "" {
				return fmt.Errorf("name a shell: powerinfer completion %s", strings.Join(completionShells, ", "))
			}
			_, err := io.WriteString(c.Root().Writer, script)
			return err
		},
	}
}

func completeCommand() *cli.Command {
	return &cli.Command{
		Name: completeName, Hidden: true, SkipFlagParsing: true,
		Action: func(_ context.Context, c *cli.Command) error {
			for _, line := range completions(c.Root(), c.Args().Slice()) {
				if _, err := io.WriteString(c.Root().Writer, line+"\n"); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// completions returns the possible last words of a command line. Each line is a word, a tab and its description. The
// line fileNames or folderNames alone asks the script to complete names itself.
func completions(root *cli.Command, words []string) []string {
	if len(words) == 0 {
		return nil
	}
	before, current := words[:len(words)-1], words[len(words)-1]
	if len(before) > 0 || strings.HasPrefix(current, "-") {
		before = withCommand(append([]string{root.Name}, words...))[1:]
		before = before[:len(before)-1]
	}
	if len(before) == 0 {
		return commandNames(root, current)
	}
	c := root.Command(before[0])
	if c == nil {
		return nil
	}
	f, value, onlyWords := flagBefore(c, before[1:], current)
	switch {
	case f != nil:
		return flagValues(f, value, strings.TrimSuffix(current, value))
	case !onlyWords && strings.HasPrefix(current, "-"):
		return flagsOf(c, current)
	case c.Name == "completion":
		return matching(completionShells, current, "")
	case c.Name == "quantize" && len(before) == 3: // IN OUT TYPE
		return matching(strings.Split(convert.OutTypes(), ", "), current, "")
	case c.Name == "eval":
		return matching(evaluate.TaskNames(), current, "")
	case takesModels.MatchString(c.ArgsUsage) && current != "":
		if names := matching(hub.ShortNames(), current, ""); names != nil {
			return names
		}
	}
	if takesFiles.MatchString(c.ArgsUsage) {
		return []string{fileNames}
	}
	return nil
}

func commandNames(root *cli.Command, current string) []string {
	var lines []string
	for _, c := range root.VisibleCommands() {
		if strings.HasPrefix(c.Name, current) {
			lines = append(lines, c.Name+"\t"+c.Usage)
		}
	}
	return lines
}

// flagBefore returns the flag that takes current as its value, and the value: all of current, or the part after its
// "=". onlyWords reports that a -- has ended the flags.
func flagBefore(c *cli.Command, before []string, current string) (f cli.Flag, value string, onlyWords bool) {
	for _, word := range before {
		switch {
		case onlyWords:
		case word == "=": // bash splits words at "="
		case f != nil:
			f = nil
		case word == "--":
			onlyWords = true
		default:
			if named := flagNamed(c, word); named != nil && takesValue(named) {
				f = named
			}
		}
	}
	if f != nil {
		if current == "=" {
			return f, "", false
		}
		return f, current, false
	}
	if name, v, ok := strings.Cut(current, "="); ok && !onlyWords {
		if named := flagNamed(c, name); named != nil && takesValue(named) {
			return named, v, false
		}
	}
	return nil, "", onlyWords
}

// flagNamed returns the flag that a word names, or nil.
func flagNamed(c *cli.Command, word string) cli.Flag {
	name := strings.TrimLeft(word, "-")
	if name == word {
		return nil
	}
	for _, f := range c.Flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

func takesValue(f cli.Flag) bool {
	d, ok := f.(cli.DocGenerationFlag)
	return ok && d.TakesValue()
}

// flagsOf returns the flags of c that begin with current.
func flagsOf(c *cli.Command, current string) []string {
	var lines []string
	for _, f := range c.VisibleFlags() {
		word := flagWord(f, current)
		if word == "" {
			continue
		}
		usage := ""
		if d, ok := f.(cli.DocGenerationFlag); ok {
			usage = strings.ReplaceAll(d.GetUsage(), "`", "")
		}
		lines = append(lines, word+"\t"+usage)
	}
	return lines
}

// flagWord returns the first of a flag's names that begins with current, with the dashes of the help, else with one
// dash; empty if there is none.
func flagWord(f cli.Flag, current string) string {
	for _, name := range f.Names() {
		if word := help.Dashed(name); strings.HasPrefix(word, current) {
			return word
		}
	}
	for _, name := range f.Names() {
		if word := "-" + name; strings.HasPrefix(word, current) {
			return word
		}
	}
	return ""
}

// flagValues returns the possible values of a flag, each after prefix, the part of the word before the value.
func flagValues(f cli.Flag, value, prefix string) []string {
	if words := flagChoices(f.Names()[0]); words != nil {
		return matching(words, value, prefix)
	}
	switch help.Placeholder(f.(cli.DocGenerationFlag)) { // every flag here takes a value, so it is one
	case "FILE":
		return []string{fileNames}
	case "FOLDER":
		return []string{folderNames}
	}
	return nil
}

// flagChoices returns the values of a flag with few values.
func flagChoices(name string) []string {
	switch name {
	case "sparse":
		return []string{model.Auto.String(), model.Off.String(), model.Exact.String(), model.Predict.String(), model.Threshold.String()}
	case "scoring":
		return evaluate.TaskScorings()
	case "kernels":
		return []string{planner.KernelsAuto, "usual"}
	case "predictor-type":
		return strings.Split(prepare.PredictorTypes(), ", ")
	}
	return nil
}

func matching(words []string, current, prefix string) []string {
	var lines []string
	for _, w := range words {
		if strings.HasPrefix(w, current) {
			lines = append(lines, prefix+w)
		}
	}
	return lines
}
