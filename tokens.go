package powerinfer

// Tokenize returns the tokens of text. ends adds the tokens that begin and end a text, as the model's file says; it
// should be false for a piece of a text. control recognises the texts of control tokens; it should be false for text
// from strangers.
func (m *Model) Tokenize(text string, ends, control bool) []int32 {
	return m.session.Tokenizer().Encode(text, ends, control)
}

// TokenizeTemplate returns the tokens of a text that a chat template wrote, with the tokens that begin and end a text
// as the model's file says. Control tokens are recognised, and one that begins the text is not doubled.
func (m *Model) TokenizeTemplate(text string) []int32 {
	return m.session.Tokenizer().EncodeTemplate(text)
}

// Detokenize returns the text of tokens, without what Tokenize puts before a text. Control tokens and tokens outside
// the vocabulary have no text.
func (m *Model) Detokenize(tokens []int32) string {
	return m.session.Tokenizer().Detokenize(tokens, false)
}

// EndOfText reports whether the token ends a generation.
func (m *Model) EndOfText(token int32) bool { return m.session.Tokenizer().IsEOG(token) }
