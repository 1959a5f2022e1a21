package task

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// mmluLetters name the choices.
const mmluLetters = "ABCD"

// readMMLU reads the form of Hugging Face's copy.
func readMMLU(s *source) (all []Item, err error) {
	type row struct {
		Question string   `json:"question"`
		Subject  string   `json:"subject"`
		Choices  []string `json:"choices"`
		Answer   *number  `json:"answer"`
	}
	err = readObjects(s, func(line int, r *row) error {
		if r.Answer == nil {
			return errors.New("a question of MMLU has question, choices and answer")
		}
		it, err := mmluItem(s, strconv.Itoa(line), r.Subject, r.Question, r.Choices, int(*r.Answer))
		all = append(all, it)
		return err
	})
	return all, err
}

// readMMLUCSV reads the publishers' form: question, four choices and the right one's letter, without a header. The
// file's name is the subject.
func readMMLUCSV(s *source) (all []Item, err error) {
	subject := strings.TrimSuffix(filepath.Base(s.name), filepath.Ext(s.name))
	for _, part := range []string{"_test", "_val", "_dev"} {
		subject = strings.TrimSuffix(subject, part)
	}
	err = readRows(s, len(mmluLetters)+2, func(line int, row []string) error {
		letter := strings.TrimSpace(row[len(mmluLetters)+1])
		if len(letter) != 1 {
			return fmt.Errorf("the last field, %.20q, is not one of the letters %s", letter, mmluLetters)
		}
		it, err := mmluItem(s, strconv.Itoa(line), subject, row[0], row[1:len(mmluLetters)+1], strings.Index(mmluLetters, letter))
		all = append(all, it)
		return err
	})
	return all, err
}

// mmluItem returns an item with letters as choices, or, under llama.cpp's definition, the answers.
func mmluItem(s *source, id, subject, question string, choices []string, right int) (Item, error) {
	if question == "" || len(choices) != len(mmluLetters) {
		return Item{}, fmt.Errorf("a question of MMLU has %d choices, not %d", len(mmluLetters), len(choices))
	}
	if right < 0 {
		return Item{}, fmt.Errorf("the right answer is none of the letters %s", mmluLetters)
	}
	if s.scoring == Llama {
		return oneOf(id, question, choices, right)
	}
	var b strings.Builder
	if subject != "" {
		fmt.Fprintf(&b, "The following are multiple choice questions (with answers) about %s.\n\n", strings.ReplaceAll(subject, "_", " "))
	}
	intro := b.Len()
	b.WriteString(strings.TrimSpace(question))
	for i, c := range choices {
		fmt.Fprintf(&b, "\n%c. %s", mmluLetters[i], c)
	}
	b.WriteString("\nAnswer:")
	it, err := oneOf(id, b.String(), strings.Split(mmluLetters, ""), right)
	it.topic, it.intro = subject, intro
	return it, err
}
