package tokenizer

// wordLevel has a token for each word that it knows.
type wordLevel struct {
	ids     map[string]int32
	unknown int32
}

func (w *wordLevel) encode(e *encoder, word string) {
	id, ok := w.ids[word]
	if !ok {
		id = w.unknown
	}
	e.out = append(e.out, id)
}
