// Package task reads the data of published tasks, in the forms of their publishers and of llama.cpp, and turns a
// model's answers into scores. It knows no model: internal/eval scores an Item with one.
package task

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/powerinfer-go/powerinfer/internal/setting"
	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

// Scoring is the definition of scores.
type Scoring string

// The definitions. llama.cpp scores a choice by the mean log probability of its tokens, without the beginning that all
// choices share. The harness, EleutherAI's lm-evaluation-harness, scores it by the sum of the log probabilities of the
// continuation's tokens.
const (
	ByForm  Scoring = ""          // llama.cpp's for its own forms, else the harness's
	Llama   Scoring = "llama.cpp" // the mean over tokens
	Harness Scoring = "harness"   // the sum over tokens
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
	Choice     Kind = "multiple-choice" // llama.cpp's binary form of any task
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
	Right   []bool // [choices], for the first metric
	Right2  []bool // [choices], for TruthfulQA's mc2; nil: the item has none
	First   int    // number of choices that the first metric compares, which come first; the others are only mc2's

	topic string // MMLU's subject; examples are of the same
	intro int    // bytes of each choice's context that stand before examples
}

// Text is a choice: the text for the model, and the part that is scored. Under llama.cpp's definition scoring begins
// where choices begin to differ.
type Text struct {
	Context, Continuation string
	Length                int // of the answer, in characters, the divisor of the harness's acc_norm
}

// Topic returns MMLU's subject; empty: the item has none.
func (it *Item) Topic() string { return it.topic }

// Bytes returns about how much is read for the question: what its choices share once.
func (it *Item) Bytes() (n int64) {
	for i, c := range it.Choices {
		n += int64(len(c.Continuation))
		if i == 0 || c.Context != it.Choices[0].Context {
			n += int64(len(c.Context))
		}
	}
	return n
}

// Data is a file of a task.
type Data struct {
	Kind     Kind
	Scoring  Scoring
	Hash     string // SHA-256 of the file
	Items    []Item
	Programs []Program // of HumanEval and MBPP
	Shots    Shots     // that stand before them
	All      int       // questions or programs before Draw
	Seed     uint32    // with which they were drawn

	binary bool      // llama.cpp's binary form
	aside  []Program // programs of MBPP's file outside of the publishers' test
}

// Aside returns how many programs of the file are not asked for, since they are not the publishers' test.
func (d *Data) Aside() int { return len(d.aside) }

// Len returns how many questions or programs there are.
func (d *Data) Len() int { return len(d.Items) + len(d.Programs) }

// form is a format of a task's published data.
type form struct {
	name    string
	fits    func(data []byte) bool
	read    func(r *source) ([]Item, error)
	scoring Scoring
	binary  bool
}

// source is a file being read.
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
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return readFolder(kind, path, scoring)
	}
	data, err := wholefile.Read(path, wholefile.Text)
	if err != nil {
		return nil, err
	}
	return Parse(kind, path, data, scoring)
}

// readFolder reads all CSV files of a folder: MMLU's publishers have one for each subject.
func readFolder(kind Kind, path string, scoring Scoring) (*Data, error) {
	if kind != MMLU {
		return nil, fmt.Errorf("%s is a folder; give the file of %s", path, kind)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return e.IsDir() || !strings.EqualFold(filepath.Ext(e.Name()), ".csv") })
	if len(entries) == 0 {
		return nil, fmt.Errorf("%s has no CSV files; MMLU has one for each subject", path)
	}
	all := &Data{Kind: kind}
	sum := sha256.New()
	for _, e := range entries {
		d, err := Read(kind, filepath.Join(path, e.Name()), scoring)
		if err != nil {
			return nil, err
		}
		all.Scoring = d.Scoring
		fmt.Fprintf(sum, "%s %s\n", e.Name(), d.Hash)
		for _, it := range d.Items {
			it.ID = it.topic + "/" + it.ID
			all.Items = append(all.Items, it)
		}
	}
	all.Hash = hex.EncodeToString(sum.Sum(nil))
	return all, nil
}

// Parse reads data, the content of the file called name.
func Parse(kind Kind, name string, data []byte, scoring Scoring) (*Data, error) {
	sum := sha256.Sum256(data)
	d := &Data{Kind: kind, Hash: hex.EncodeToString(sum[:])}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, fmt.Errorf("%s is empty", name)
	}
	if !isBinary(data) {
		if at := invalidUTF8(data); at >= 0 {
			return nil, fmt.Errorf("%s: line %d: this is neither UTF-8 nor llama.cpp's binary form", name, 1+bytes.Count(data[:at], []byte("\n")))
		}
	}
	var err error
	if kind.Generates() {
		if scoring != ByForm {
			return nil, setting.Errorf("%s is for tasks with choices; %s runs programs", scored, kind)
		}
		d.Programs, d.aside, err = readPrograms(kind, &source{name: name, data: data})
		return d, err
	}
	var names []string
	for _, f := range forms(kind) {
		names = append(names, f.name)
		if !f.fits(data) {
			continue
		}
		d.binary = f.binary
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

// invalidUTF8 returns the offset of the first invalid UTF-8 in data, or -1.
func invalidUTF8(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	at := 0
	for {
		r, n := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && n <= 1 {
			return at
		}
		at += n
	}
}

func forms(k Kind) []form {
	lines := func(read func(*source) ([]Item, error)) form {
		return form{name: "JSON Lines", fits: isJSON, read: read, scoring: Harness}
	}
	text := func(name string, read func(*source) ([]Item, error), s Scoring) form {
		return form{name: name, fits: isText, read: read, scoring: s}
	}
	binary := form{name: "llama.cpp's binary form", fits: isBinary, read: readBinary, scoring: Llama, binary: true}
	switch k {
	case HellaSwag:
		return []form{lines(readHellaSwag), binary, text("llama.cpp's text of six lines a question", readHellaSwagText, Llama)}
	case Winogrande:
		return []form{lines(readWinogrande), text("llama.cpp's CSV", readWinograndeCSV, Llama)}
	case ARC:
		return []form{lines(readARC), binary, text("CSV", readARCCSV, Harness)}
	case MMLU:
		return []form{lines(readMMLU), binary, text("CSV", readMMLUCSV, Harness)}
	case TruthfulQA:
		return []form{lines(readTruthfulQA), binary, text("CSV", readTruthfulQACSV, Harness)}
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
