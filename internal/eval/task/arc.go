package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// readARC reads the publishers' JSON Lines, and the form of Hugging Face's copy, with choices as an object of lists.
func readARC(s *source) (all []Item, err error) {
	type choice struct{ Text, Label string }
	type row struct {
		ID       string          `json:"id"`
		Question json.RawMessage `json:"question"`
		Choices  struct {
			Text, Label []string
		} `json:"choices"`
		Answer string `json:"answerKey"`
	}
	err = readObjects(s, func(line int, r *row) error {
		var q struct {
			Stem    string
			Choices []choice
		}
		texts, labels := r.Choices.Text, r.Choices.Label
		if json.Unmarshal(r.Question, &q.Stem) != nil {
			if err := json.Unmarshal(r.Question, &q); err != nil {
				return errors.New("question is neither a text nor an object with stem and choices")
			}
			for _, c := range q.Choices {
				texts, labels = append(texts, c.Text), append(labels, c.Label)
			}
		}
		if len(texts) != len(labels) {
			return fmt.Errorf("there are %d choices with %d labels", len(texts), len(labels))
		}
		it, err := arcItem(s, r.ID, q.Stem, texts, labels, r.Answer)
		all = append(all, it)
		return err
	})
	return all, unique(s, all, err)
}

// arcChoice matches the label of a choice within the question of the publishers' CSV.
var arcChoice = regexp.MustCompile(`\(([A-E1-5])\) `)

// readARCCSV reads the publishers' CSV, with choices inside the questions: "What is hot? (A) Ice (B) Fire".
func readARCCSV(s *source) (all []Item, err error) {
	var at []int
	err = readRows(s, 0, func(line int, row []string) (err error) {
		if at == nil {
			at, err = columns(row, "questionID", "AnswerKey", "question")
			return err
		}
		text := row[at[2]]
		marks := arcChoice.FindAllStringSubmatchIndex(text, -1)
		if len(marks) == 0 {
			return errors.New("the question has no choices such as (A)")
		}
		var texts, labels []string
		for i, m := range marks {
			end := len(text)
			if i+1 < len(marks) {
				end = marks[i+1][0]
			}
			texts, labels = append(texts, strings.TrimSpace(text[m[1]:end])), append(labels, text[m[2]:m[3]])
		}
		it, err := arcItem(s, row[at[0]], strings.TrimSpace(text[:marks[0][0]]), texts, labels, row[at[1]])
		all = append(all, it)
		return err
	})
	return all, unique(s, all, err)
}

func arcItem(s *source, id, question string, texts, labels []string, answer string) (Item, error) {
	if id == "" || question == "" {
		return Item{}, errors.New("a question of ARC has id, question, choices and answerKey")
	}
	right := slices.Index(labels, answer)
	if right < 0 {
		return Item{}, fmt.Errorf("the right answer %.20q is none of the choices", answer)
	}
	return oneOf(id, arcContext(s, question), texts, right)
}

func arcContext(s *source, question string) string {
	if s.scoring == Llama {
		return question
	}
	return "Question: " + question + "\nAnswer:"
}
