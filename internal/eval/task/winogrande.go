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

// csvFields is the number of fields in a line of llama.cpp's form: number, sentence, two words, the right one's number.
const csvFields = 5

// readWinograndeCSV reads llama.cpp's form, without a header, as llama.cpp does: quotes keep a field with commas
// together, and are removed only around the sentence.
func readWinograndeCSV(s *source) (all []Item, err error) {
	line := 0
	for row := range strings.Lines(string(s.data)) {
		line++
		row = strings.TrimRight(row, "\r\n")
		if row == "" {
			continue
		}
		fields := splitQuoted(row)
		if len(fields) != csvFields {
			return nil, s.errorAt(line, "wrong number of fields")
		}
		answer, err := strconv.Atoi(strings.TrimSpace(fields[4]))
		if err != nil {
			return nil, s.errorAt(line, "the fifth field is 1 or 2, the right choice")
		}
		sentence := fields[1]
		if len(sentence) > 1 && sentence[0] == '"' {
			sentence = sentence[1 : len(sentence)-1]
		}
		it, err := blank(s, strconv.Itoa(line), sentence, [2]string{fields[2], fields[3]}, answer)
		if err != nil {
			return nil, s.errorAt(line, "%w", err)
		}
		all = append(all, it)
	}
	return all, nil
}

// splitQuoted divides a line at the commas that are not within quotes.
func splitQuoted(line string) (fields []string) {
	begin, quoted := 0, false
	for i := range len(line) {
		switch {
		case line[i] == '"':
			quoted = !quoted
		case line[i] == ',' && !quoted:
			fields, begin = append(fields, line[begin:i]), i+1
		}
	}
	return append(fields, line[begin:])
}

// blank returns the item of a sentence with _ for one of two words. The end of the sentence after either word is
// scored.
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
