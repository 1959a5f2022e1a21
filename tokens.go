package powerinfer

// Tokenize returns the tokens of text. With ends, the tokens that begin and end a text are added as the model's file
// says: leave it out for a piece of a text. With control, the texts of control tokens are recognised: leave it out for
// what a stranger typed.
func (m *Model) Tokenize(text string, ends, control bool) []int32 {
	return m.session.Tokenizer().Encode(text, ends, control)
}

// TokenizeTemplate returns the tokens of a text that a chat template wrote, with the tokens that begin and end a text
// as the model's file says. Control tokens are recognised, and one that begins the text is not doubled.
func (m *Model) TokenizeTemplate(text string) []int32 {
	return m.session.Tokenizer().EncodeTemplate(text)
}

// Detokenize returns the text of tokens, without what Tokenize puts before a text; control tokens have none. Tokens
// outside the vocabulary are left out.
func (m *Model) Detokenize(tokens []int32) string {
	return m.session.Tokenizer().Detokenize(tokens, false)
}

// EndOfText reports whether the token ends a generation.
func (m *Model) EndOfText(token int32) bool { return m.session.Tokenizer().IsEOG(token) }
