package task

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// remark matches what WikiHow's texts have in brackets.
var remark = regexp.MustCompile(`\[.*?\]`)

// clean returns a text of HellaSwag as in the harness and llama.cpp's data.
func clean(text string) string {
	text = strings.ReplaceAll(strings.TrimSpace(text), " [title]", ". ")
	return strings.ReplaceAll(remark.ReplaceAllString(text, ""), "  ", " ")
}

// capitalize returns text with a large first letter and small others, like Python's method of that name.
func capitalize(text string) string {
	r := []rune(strings.ToLower(text))
	if len(r) > 0 {
		r[0] = unicode.ToTitle(r[0])
	}
	return string(r)
}

// readHellaSwag reads the publishers' file hellaswag_val.jsonl.
func readHellaSwag(s *source) (all []Item, err error) {
	type row struct {
		Ind      *int     `json:"ind"`
		Activity string   `json:"activity_label"`
		A        string   `json:"ctx_a"`
		B        string   `json:"ctx_b"`
		Context  string   `json:"ctx"`
		Endings  []string `json:"endings"`
		Label    *number  `json:"label"`
	}
	err = readObjects(s, func(line int, r *row) error {
		if r.Context == "" && r.A == "" || r.Label == nil || len(r.Endings) == 0 {
			return errors.New("a question of HellaSwag has ctx, endings and label")
		}
		context := r.Activity + ": " + r.Context
		if s.scoring == Harness && r.A != "" {
			context = r.Activity + ": " + r.A + " " + capitalize(r.B)
		}
		endings := make([]string, len(r.Endings))
		for i, e := range r.Endings {
			endings[i] = clean(e)
		}
		id := strconv.Itoa(line)
		if r.Ind != nil {
			id = strconv.Itoa(*r.Ind)
		}
		it, err := oneOf(id, clean(context), endings, int(*r.Label))
		all = append(all, it)
		return err
	})
	return all, unique(s, all, err)
}

// hellaSwagLines is how many lines a question has in llama.cpp's form: context, number of the right ending, four
// endings.
const hellaSwagLines = 6

func readHellaSwagText(s *source) (all []Item, err error) {
	text := strings.TrimRight(strings.ReplaceAll(string(s.data), "\r\n", "\n"), "\n")
	lines := strings.Split(text, "\n")
	if n := len(lines) % hellaSwagLines; n != 0 {
		return nil, s.errorAt(len(lines), "the last question has %d lines, not %d", n, hellaSwagLines)
	}
	for at := 0; at < len(lines); at += hellaSwagLines {
		right, err := strconv.Atoi(strings.TrimSpace(lines[at+1]))
		if err != nil {
			return nil, s.errorAt(at+2, "%.40q is not the number of an ending", lines[at+1])
		}
		it, err := oneOf(strconv.Itoa(at/hellaSwagLines+1), lines[at], lines[at+2:at+hellaSwagLines], right)
		if err != nil {
			return nil, s.errorAt(at+2, "%w", err)
		}
		all = append(all, it)
	}
	return all, nil
}

// unique returns err, or an error if two items have the same name.
func unique(s *source, all []Item, err error) error {
	seen := map[string]bool{}
	for i, it := range all {
		if err == nil && seen[it.ID] {
			return fmt.Errorf("%s: line %d: a question before has the same name, %s", s.name, i+1, it.ID)
		}
		seen[it.ID] = true
	}
	return err
}
