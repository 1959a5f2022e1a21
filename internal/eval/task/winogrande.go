package task

import (
	"errors"
	"strconv"
	"strings"
)

// readWinogrande reads the publishers' JSON Lines.
func readWinogrande(s *source) (all []Item, err error) {
	type row struct {
		ID       string  `json:"qID"`
		Sentence string  `json:"sentence"`
		One      string  `json:"option1"`
		Two      string  `json:"option2"`
		Answer   *number `json:"answer"`
	}
	err = readObjects(s, func(line int, r *row) error {
		if r.Answer == nil {
			return errors.New("a question of Winogrande has sentence, option1, option2 and answer")
		}
		if r.ID == "" {
			r.ID = strconv.Itoa(line)
		}
		it, err := blank(s, r.ID, r.Sentence, [2]string{r.One, r.Two}, int(*r.Answer))
		all = append(all, it)
		return err
	})
	return all, unique(s, all, err)
}

// readWinograndeCSV reads llama.cpp's form: number, sentence, two choices, the right one's number, without a header.
func readWinograndeCSV(s *source) (all []Item, err error) {
	err = readRows(s, 5, func(line int, row []string) error {
		answer, err := strconv.Atoi(strings.TrimSpace(row[4]))
		if err != nil {
			return errors.New("the fifth field is 1 or 2, the right choice")
		}
		it, err := blank(s, strconv.Itoa(line), row[1], [2]string{row[2], row[3]}, answer)
		all = append(all, it)
		return err
	})
	return all, err
}

// blank returns the item of a sentence in which _ stands for one of two words. What is scored is the end of the sentence, behind either.
func blank(s *source, id, sentence string, words [2]string, answer int) (Item, error) {
	before, after, ok := strings.Cut(sentence, "_")
	it := Item{ID: id, First: 2, Right: []bool{answer == 1, answer == 2}}
	if !ok {
		return it, errors.New("the sentence has no _, where a word is missing")
	}
	if s.scoring == Harness {
		after = " " + strings.TrimSpace(after)
	}
	for _, w := range words {
		if w == "" {
			return it, errors.New("a word to put in is empty")
		}
		it.Choices = append(it.Choices, Text{before + w, after, len([]rune(after))})
	}
	return it, it.check()
}
