package task

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
)

// mostAnswers bounds the choices of a question in the binary form, as llama.cpp does.
const mostAnswers = 100

// isBinary reports whether data begins like llama.cpp's binary form: the number of questions and their offsets, the
// first question right after them.
func isBinary(data []byte) bool {
	if len(data) < 8 {
		return false
	}
	n := uint64(binary.LittleEndian.Uint32(data))
	return n > 0 && 4+4*n <= uint64(len(data)) && uint64(binary.LittleEndian.Uint32(data[4:])) == 4+4*n
}

// reader reads little-endian numbers and texts. After an error everything is zero.
type reader struct {
	data []byte
	at   int
	err  error
}

func (r *reader) bytes(n uint32) []byte {
	if r.err == nil && uint64(n) > uint64(len(r.data)-r.at) {
		r.err = errors.New("the file ends within it")
	}
	if r.err != nil {
		return nil
	}
	r.at += int(n)
	return r.data[r.at-int(n) : r.at]
}

func (r *reader) uint32() uint32 {
	b := r.bytes(4)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint32(b)
}

func (r *reader) text() string {
	return string(r.bytes(r.uint32()))
}

// answers reads answers with their labels, 1 for a right one.
func (r *reader) answers() (texts []string, right []bool) {
	n := r.uint32()
	if n > mostAnswers {
		r.err = fmt.Errorf("it has %d answers, more than %d", n, mostAnswers)
		return nil, nil
	}
	for range n {
		texts = append(texts, r.text())
	}
	for range n {
		right = append(right, r.uint32() == 1)
	}
	return texts, right
}

// readBinary reads llama.cpp's binary form. It uses each question's mc1, as llama.cpp does; mc2's answers are read and
// ignored. The form has no lines: errors name the question and its offset.
func readBinary(s *source) (all []Item, err error) {
	r := &reader{data: s.data}
	n := int(r.uint32())
	offsets := make([]uint32, n)
	for i := range offsets {
		offsets[i] = r.uint32()
	}
	for i, at := range offsets {
		fail := func(err error) error {
			return fmt.Errorf("%s: question %d at offset %d: %w", s.name, i+1, at, err)
		}
		if int64(at) != int64(r.at) {
			return nil, fail(fmt.Errorf("the one before ends at %d", r.at))
		}
		question := r.text()
		texts, right := r.answers()
		r.answers()
		if r.err != nil {
			return nil, fail(r.err)
		}
		if question == "" {
			return nil, fail(errors.New("the question is empty"))
		}
		it := Item{ID: strconv.Itoa(i + 1), First: len(texts), Right: right}
		for _, t := range texts {
			it.Choices = append(it.Choices, Text{question, " " + t, len([]rune(t))})
		}
		if err := it.check(); err != nil {
			return nil, fail(err)
		}
		all = append(all, it)
	}
	return all, nil
}
