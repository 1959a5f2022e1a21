package tokenizer

import "slices"

// endTexts are the texts of tokens that end a generation in the families that have them, whatever a file says. No
// ordinary text has them, so a token that a file calls normal becomes a control token.
//
// Source: llama.cpp's src/llama-vocab.cpp (at 00ad355e); <|eot|> and <|eom|> are Llama 4's, <|end_of_msg|> is Kimi
// K3's.
var endTexts = []string{
	"<|eot_id|>", "<|eom_id|>", "<|eot|>", "<|eom|>", "<|im_end|>", "<|end|>", "<|endoftext|>", "<|end_of_text|>", "<end_of_turn>", "<end_of_utterance>",
	"<|return|>", "<|call|>", "<|calls|>", "<|flush|>", "<turn|>", "<|tool_response>", "<|end_of_msg|>", "<｜end▁of▁sentence｜>", "[e~[",
}

// endTextsOfControl are more such texts, which ordinary text may have: only control and user-defined tokens count.
var endTextsOfControl = []string{"</s>", "<eos>", "<EOT>", "_<EOT>", "▁<EOT>", "[EOT]", "[EOS]"}

// infillPads are the texts of the token that fills up infills.
var infillPads = []string{"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}

// markEnds makes end tokens control tokens that the file calls normal.
func (v *Vocab) markEnds() {
	var types []int32
	for id, text := range v.Tokens {
		if v.kind(int32(id)) != Normal || !slices.Contains(endTexts, text) {
			continue
		}
		if types == nil {
			types = slices.Clone(v.Types)
			if len(types) == 0 {
				types = slices.Repeat([]int32{Normal}, len(v.Tokens))
			}
		}
		types[id] = Control
	}
	if types != nil {
		v.Types = types
	}
}

// findEnds returns the tokens that end a generation: those that the file names, those known by name, and tokens of
// infills that begin something else.
func (t *Tokenizer) findEnds() map[int32]bool {
	ends := map[int32]bool{}
	add := func(ids ...int32) {
		for _, id := range ids {
			if id >= 0 {
				ends[id] = true
			}
		}
	}
	control := func(text string) int32 {
		if id, ok := t.ids[text]; ok && (t.v.kind(id) == Control || t.v.kind(id) == UserDefined) {
			return id
		}
		return -1
	}
	for _, text := range slices.Concat(endTexts, endTextsOfControl) {
		add(control(text))
	}
	if id, ok := t.ids["</s>"]; ok && control("<|tool_response>") >= 0 { // in Gemma 4's texts </s> is HTML
		delete(ends, id)
	}
	if user, observation := control("<|user|>"), control("<|observation|>"); user >= 0 && observation >= 0 { // GLM
		add(user, observation)
	}
	add(t.v.EOS, t.v.EOT)
	add(t.v.Ends...)
	f, _ := t.Infill()
	for _, id := range []int32{f.Pad, f.Repository, f.File} {
		if id >= 0 && (t.control(id) || t.v.kind(id) == UserDefined) {
			add(id)
		}
	}
	// In gpt-oss and Solar Open <|end|> ends a part of an answer, such as its thoughts, even if a file names it.
	if call := control("<|call|>") >= 0 || control("<|calls|>") >= 0; call && (control("<|return|>") >= 0 || control("<|flush|>") >= 0) {
		if id, ok := t.ids["<|end|>"]; ok {
			delete(ends, id)
		}
	}
	// In Muse Glimmer <|eom|> ends a message that others of the same answer follow; Llama 4's messages begin otherwise.
	if control("<|start|>") >= 0 && control("<|message|>") >= 0 && control("<|eot|>") >= 0 {
		if id, ok := t.ids["<|eom|>"]; ok {
			delete(ends, id)
		}
	}
	return ends
}
