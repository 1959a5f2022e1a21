package task

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// shotSeed is the seed with which the harness draws examples.
const shotSeed = 1234

// usualShots are the programs that MBPP's publishers give as examples.
var usualShots = []string{"2", "3", "4"}

// Shots are examples with answers before each question or program.
type Shots struct {
	N    int
	Hash string // SHA-256 of their file; empty: they are from the task's own
}

// scored is the setting that names the definition of scores.
const scored setting.Setting = "--scoring|scoring"

// AddShots puts n examples before every question as the harness does: in MMLU the first ones of the question's subject,
// in MBPP the first programs, in other tasks those that its generator draws for each question in the order of the file,
// so call it before Draw. examples is the training or development file; nil in MBPP: the publishers' three programs of
// the task's own file.
func (d *Data) AddShots(n int, examples *Data) error {
	switch {
	case n == 0:
		return nil
	case d.Kind == HumanEval || d.Kind == TruthfulQA || d.Kind == Choice:
		return fmt.Errorf("examples are defined for mmlu, mbpp, hellaswag, winogrande and arc, not for %s", d.Kind)
	case d.Kind != MBPP && d.Scoring == Llama:
		return setting.Errorf("llama.cpp's definition has no examples; take %s", scored.To(string(Harness)))
	case examples == nil && d.Kind != MBPP:
		return fmt.Errorf("give the examples of %s, its training or development questions, in a file of the same form", d.Kind)
	case examples != nil && examples.Hash == d.Hash:
		return errors.New("the examples are the questions themselves; give the task's training or development file")
	}
	d.Shots.N = n
	if examples != nil {
		d.Shots.Hash = examples.Hash
	}
	if d.Kind == MBPP {
		return d.addPrograms(n, examples)
	}
	if d.Kind == MMLU {
		return d.addFirst(n, examples.Items)
	}
	return d.addDrawn(n, examples.Items)
}

// addFirst puts the first examples of its topic before every question.
func (d *Data) addFirst(n int, examples []Item) error {
	topics := map[string][]string{}
	for i := range examples {
		t := examples[i].topic
		topics[t] = append(topics[t], examples[i].answered())
	}
	for i := range d.Items {
		it := &d.Items[i]
		all := topics[it.topic]
		if len(all) < n {
			return fmt.Errorf("question %s needs %d examples of the subject %q, but there are only %d", it.ID, n, it.topic, len(all))
		}
		it.insert(strings.Join(all[:n], ""))
	}
	return nil
}

// addDrawn puts drawn examples before every question.
func (d *Data) addDrawn(n int, examples []Item) error {
	draws := n
	if d.Kind != ARC { // ARC's tests are a separate split in the harness: for others one more is drawn, in case the question itself is
		draws++
	}
	if len(examples) < draws {
		return fmt.Errorf("each question needs %d examples, but there are only %d", draws, len(examples))
	}
	r := newPythonRandom(shotSeed)
	for i := range d.Items {
		var text strings.Builder
		taken := 0
		for _, j := range r.sample(len(examples), draws) {
			if taken < n && !d.Items[i].same(&examples[j]) {
				text.WriteString(examples[j].answered())
				taken++
			}
		}
		if taken < n {
			return fmt.Errorf("question %s is among the examples; give the task's training file", d.Items[i].ID)
		}
		d.Items[i].insert(text.String())
	}
	return nil
}

// addPrograms puts examples before every program's prompt. Programs that are examples are not asked for.
func (d *Data) addPrograms(n int, examples *Data) error {
	var all []Program
	if examples != nil {
		all = slices.Concat(examples.aside, examples.Programs)
	} else {
		for _, id := range usualShots {
			for _, p := range slices.Concat(d.aside, d.Programs) {
				if p.ID == id {
					all = append(all, p)
				}
			}
		}
	}
	if len(all) < n {
		return fmt.Errorf("%d programs are needed as examples, but there are only %d; usual are the publishers' %s, others come from a file of their own", n, len(all),
			strings.Join(usualShots, ", "))
	}
	var text strings.Builder
	shown := map[string]bool{}
	for _, p := range all[:n] {
		if p.Right == "" {
			return fmt.Errorf("program %s, an example, has no code", p.ID)
		}
		text.WriteString(p.Prompt + p.Right + "\n[DONE]\n\n")
		shown[p.ID] = true
	}
	d.Programs = slices.DeleteFunc(d.Programs, func(p Program) bool { return shown[p.ID] })
	if len(d.Programs) == 0 {
		return errors.New("all programs are examples, and none is left to write")
	}
	for i := range d.Programs {
		d.Programs[i].Prompt = text.String() + d.Programs[i].Prompt
	}
	return nil
}

// answered returns the item as an example: with its answer, and without what stands before examples.
func (it *Item) answered() string {
	c := it.Choices[slices.Index(it.Right, true)]
	return c.Context[it.intro:] + c.Continuation + "\n\n"
}

// same reports whether both are the same question.
func (it *Item) same(other *Item) bool {
	return it.ID == other.ID && slices.Equal(it.Choices, other.Choices)
}

// insert puts examples before the question.
func (it *Item) insert(examples string) {
	for i := range it.Choices {
		c := &it.Choices[i]
		if i > 0 && len(it.Choices[i-1].Context) == len(c.Context)+len(examples) && strings.HasSuffix(it.Choices[i-1].Context, c.Context[it.intro:]) {
			c.Context = it.Choices[i-1].Context // one text in memory for all
			continue
		}
		c.Context = c.Context[:it.intro] + examples + c.Context[it.intro:]
	}
}
