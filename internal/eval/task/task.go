// Package task reads the data of published tasks, in the forms that their publishers and llama.cpp use, and turns what a model answered into scores.
// It knows no model: internal/eval scores an Item with one.
package task

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Scoring says by whose definition choices are scored.
type Scoring string

// The definitions. By llama.cpp's a choice's score is the mean logarithm of the probability of each of its tokens behind the beginning that all choices
// share. By the harness's (EleutherAI's lm-evaluation-harness) it is the sum over the tokens of the continuation.
const (
	ByForm  Scoring = ""          // llama.cpp's for its own forms, else the harness's
	Llama   Scoring = "llama.cpp" //
	Harness Scoring = "harness"   //
)

// Scorings returns the definitions by name.
func Scorings() []string { return []string{string(Llama), string(Harness)} }

// Kind is a task.
type Kind string

// The tasks.
const (
	HellaSwag  Kind = "hellaswag"
	Winogrande Kind = "winogrande"
	ARC        Kind = "arc"
	MMLU       Kind = "mmlu"
	TruthfulQA Kind = "truthfulqa"
	Choice     Kind = "multiple-choice" // llama.cpp's binary form, whatever is asked
	HumanEval  Kind = "humaneval"
	MBPP       Kind = "mbpp"
)

// Kinds returns all tasks.
func Kinds() []Kind {
	return []Kind{HumanEval, MBPP, HellaSwag, Winogrande, ARC, MMLU, TruthfulQA, Choice}
}

// Generates reports whether the model writes programs in the task, rather than choosing between answers.
func (k Kind) Generates() bool { return k == HumanEval || k == MBPP }

// Item is a question with choices.
type Item struct {
	ID      string
	Choices []Text
	Right   []bool // [choices], of those that the first metric counts
	Right2  []bool // [choices], of TruthfulQA's mc2; nil: the item has none
	First   int    // choices that the first metric compares, which lead; the others are only mc2's
}

// Text is a choice: what the model is given, and what of it is scored. Under llama.cpp's definition scoring begins where choices begin to differ.
type Text struct {
	Context, Continuation string
	Length                int // of the answer, in characters, by which the harness's acc_norm divides
}

// Data is a file of a task.
type Data struct {
	Kind     Kind
	Scoring  Scoring
	Hash     string // SHA-256 of the file
	Items    []Item
	Programs []Program // of HumanEval and MBPP
}

// Len returns how many questions or programs there are.
func (d *Data) Len() int { return len(d.Items) + len(d.Programs) }

// form reads a file that is in a form, or reports that it is not.
type form struct {
	name    string
	fits    func(data []byte) bool
	read    func(r *source) ([]Item, error)
	scoring Scoring
}

// source is a file that is read.
type source struct {
	name    string
	data    []byte
	scoring Scoring
}

// errorAt returns an error that names the file and a line.
func (s *source) errorAt(line int, format string, args ...any) error {
	return fmt.Errorf("%s: line %d: %w", s.name, line, fmt.Errorf(format, args...))
}

// Read reads the file at path as data of a task, to be scored by a definition.
func Read(kind Kind, path string, scoring Scoring) (*Data, error) {
	if !slices.Contains(Kinds(), kind) {
		var names []string
		for _, k := range Kinds() {
			names = append(names, string(k))
		}
		return nil, fmt.Errorf("there is no task %q; tasks are %s", kind, strings.Join(names, ", "))
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(kind, path, data, scoring)
}

// Parse reads data, which is name's.
func Parse(kind Kind, name string, data []byte, scoring Scoring) (*Data, error) {
	sum := sha256.Sum256(data)
	d := &Data{Kind: kind, Hash: hex.EncodeToString(sum[:])}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, fmt.Errorf("%s is empty", name)
	}
	var err error
	if kind.Generates() {
		if scoring != ByForm {
			return nil, fmt.Errorf("--scoring is for tasks with choices; %s runs programs", kind)
		}
		d.Programs, err = readPrograms(kind, &source{name: name, data: data})
		return d, err
	}
	var names []string
	for _, f := range forms(kind) {
		names = append(names, f.name)
		if !f.fits(data) {
			continue
		}
		if d.Scoring = f.scoring; scoring != ByForm {
			d.Scoring = scoring
		}
		d.Items, err = f.read(&source{name: name, data: data, scoring: d.Scoring})
		if err == nil && len(d.Items) == 0 {
			err = fmt.Errorf("%s: line 1: there is no question", name)
		}
		return d, err
	}
	return nil, fmt.Errorf("%s: line 1: this is no form of %s, which are %s", name, kind, strings.Join(names, ", "))
}

func forms(k Kind) []form {
	lines := func(read func(*source) ([]Item, error)) form { return form{"JSON Lines", isJSON, read, Harness} }
	binary := form{"llama.cpp's binary form", isBinary, readBinary, Llama}
	switch k {
	case HellaSwag:
		return []form{lines(readHellaSwag), binary, {"llama.cpp's text of six lines a question", isText, readHellaSwagText, Llama}}
	case Winogrande:
		return []form{lines(readWinogrande), {"llama.cpp's CSV", isText, readWinograndeCSV, Llama}}
	case ARC:
		return []form{lines(readARC), binary, {"CSV", isText, readARCCSV, Harness}}
	case MMLU:
		return []form{lines(readMMLU), binary, {"CSV", isText, readMMLUCSV, Harness}}
	case TruthfulQA:
		return []form{lines(readTruthfulQA), binary, {"CSV", isText, readTruthfulQACSV, Harness}}
	}
	return []form{binary}
}

func isJSON(data []byte) bool {
	data = bytes.TrimSpace(data)
	return data[0] == '{' || data[0] == '['
}

func isText(data []byte) bool { return !bytes.ContainsRune(data[:min(len(data), 512)], 0) }

// check returns an error if an item cannot be scored.
func (it *Item) check() error {
	if len(it.Choices) < 2 {
		return fmt.Errorf("there are %d choices, fewer than two", len(it.Choices))
	}
	right := 0
	for i := range it.Choices[:it.First] {
		if it.Right[i] {
			right++
		}
	}
	if right == 0 {
		return errors.New("no choice is right")
	}
	for i, c := range it.Choices {
		if strings.TrimSpace(c.Continuation) == "" {
			return fmt.Errorf("choice %d is empty", i+1)
		}
	}
	return nil
}

// oneOf returns an item with a single right choice.
func oneOf(id, context string, choices []string, right int) (Item, error) {
	it := Item{ID: id, First: len(choices), Right: make([]bool, len(choices))}
	for _, c := range choices {
		it.Choices = append(it.Choices, Text{context, " " + c, len([]rune(c))})
	}
	if right < 0 || right >= len(choices) {
		return it, fmt.Errorf("the right answer is number %d of %d", right+1, len(choices))
	}
	it.Right[right] = true
	return it, it.check()
}
