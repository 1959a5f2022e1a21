package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Program is a programming task.
type Program struct {
	ID     string
	Prompt string   // what the model continues
	Code   string   // what stands before a completion in the program: HumanEval's prompt
	Setup  string   // run after the program, if not empty: what the tests need of its classes
	Tests  string   // Python that fails by an exception
	Entry  string   // HumanEval's function, the argument of check; empty: the tests call functions themselves
	Stop   []string // texts at which a completion has left the function
	Right  string   // the publishers' own completion; may be empty
}

// Stops of completions, as the publishers have them.
var (
	humanEvalStop = []string{"\nclass", "\ndef", "\n#", "\nif", "\nprint"}
	mbppStop      = []string{"[DONE]"}
)

// readPrograms returns the programs that are asked for, and others of the file.
func readPrograms(kind Kind, s *source) (all, aside []Program, err error) {
	if !isJSON(s.data) {
		return nil, nil, fmt.Errorf("%s: line 1: this is no form of %s, which is JSON Lines", s.name, kind)
	}
	read := readHumanEval
	if kind == MBPP {
		read = readMBPP
	}
	if all, err = read(s); err != nil {
		return nil, nil, err
	}
	if len(all) == 0 {
		return nil, nil, fmt.Errorf("%s: line 1: there is no program", s.name)
	}
	seen := map[string]bool{}
	for i, p := range all {
		if seen[p.ID] {
			return nil, nil, s.errorAt(i+1, "a program before has the same task_id, %s", p.ID)
		}
		seen[p.ID] = true
	}
	if kind == MBPP {
		all, aside = testOf(all)
	}
	return all, aside, nil
}

// The publishers' test is of MBPP's programs these; others are for prompts and training.
const firstTest, lastTest = 11, 510

// testOf divides programs into the publishers' test and others. Without any of the test all are asked for.
func testOf(all []Program) (test, others []Program) {
	for _, p := range all {
		if n, err := strconv.Atoi(p.ID); err == nil && firstTest <= n && n <= lastTest {
			test = append(test, p)
		} else {
			others = append(others, p)
		}
	}
	if len(test) == 0 {
		return all, nil
	}
	return test, others
}

func readHumanEval(s *source) (all []Program, err error) {
	type row struct {
		ID    string `json:"task_id"`
		Text  string `json:"prompt"`
		Entry string `json:"entry_point"`
		Right string `json:"canonical_solution"`
		Test  string `json:"test"`
	}
	err = readObjects(s, func(_ int, r *row) error {
		if r.ID == "" || r.Text == "" || r.Entry == "" || r.Test == "" {
			return errors.New("a program of HumanEval has task_id, prompt, entry_point and test")
		}
		all = append(all, Program{ID: r.ID, Prompt: r.Text, Code: r.Text, Tests: r.Test, Entry: r.Entry, Stop: humanEvalStop, Right: r.Right})
		return nil
	})
	return all, err
}

// readMBPP reads the publishers' mbpp.jsonl and sanitized-mbpp.json.
func readMBPP(s *source) (all []Program, err error) {
	type row struct {
		ID      json.RawMessage `json:"task_id"`
		Text    string          `json:"text"`
		Prompt  string          `json:"prompt"` // text, in the sanitized file
		Code    string          `json:"code"`
		Setup   string          `json:"test_setup_code"`
		Imports []string        `json:"test_imports"`
		Tests   []string        `json:"test_list"`
	}
	err = readObjects(s, func(_ int, r *row) error {
		text := r.Text
		if text == "" {
			text = r.Prompt
		}
		if r.ID == nil || text == "" || len(r.Tests) == 0 {
			return errors.New("a program of MBPP has task_id, text and test_list")
		}
		tests := strings.Join(r.Tests, "\n")
		all = append(all, Program{
			ID: strings.Trim(string(r.ID), `"`), Setup: r.Setup, Tests: strings.Join(r.Imports, "\n") + "\n" + tests, Stop: mbppStop, Right: r.Code,
			Prompt: "You are an expert Python programmer, and here is your task: " + text + " Your code should pass these tests:\n\n" + tests + "\n[BEGIN]\n",
		})
		return nil
	})
	return all, err
}

// PassEstimates returns pass@k from each tried program's number of tries and passes, for every k for which all have as
// many tries.
func PassEstimates(tries, passes map[string]int, ks []int) map[string]Figure {
	figures := map[string]Figure{}
	for _, k := range ks {
		var values []float64
		for id, n := range tries {
			if n < k {
				values = nil
				break
			}
			values = append(values, PassAt(n, passes[id], k))
		}
		if values != nil {
			figures[fmt.Sprintf("pass@%d", k)] = Mean(values)
		}
	}
	return figures
}
