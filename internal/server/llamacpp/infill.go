package llamacpp

import (
	"net/http"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/server"
)

// infillShare is the part of the context that prefix and suffix of an infill take at most, and suffixShare the suffix's
// part of that.
const (
	infillShare = 2
	suffixShare = 4
)

// A chunkOfContext is text of another file.
type chunkOfContext struct {
	Filename string `json:"filename"`
	Text     string `json:"text"`
}

// infill answers with the text between two texts, using the tokens that code models have for it.
func infill(w http.ResponseWriter, r *http.Request, f *server.Fields, m *server.Model) error {
	tok := m.Engine.Tokenizer()
	special, ok := tok.Infill()
	if !ok {
		return server.NotSupported("the model has no tokens for infilling: it was not trained to")
	}
	var prefix, suffix, prompt string
	var extra []chunkOfContext
	f.Read("input_prefix", &prefix)
	f.Read("input_suffix", &suffix)
	f.Read("prompt", &prompt)
	f.Read("input_extra", &extra)
	encode := func(text string) []int32 {
		ids, err := m.Encode(r.Context(), text, false, false)
		if err != nil {
			f.Fail(err)
		}
		return ids
	}

	var ids []int32
	if special.Repository >= 0 {
		ids = append(append(ids, special.Repository), encode("myproject\n")...)
	}
	for _, c := range extra {
		if c.Filename == "" {
			c.Filename = "tmp"
		}
		if special.File >= 0 {
			ids = append(append(ids, special.File), encode(c.Filename+"\n")...)
		} else {
			ids = append(ids, encode("\n\n--- snippet ---\n\n")...)
		}
		ids = append(ids, encode(c.Text)...)
	}
	if special.File >= 0 {
		ids = append(append(ids, special.File), encode("filename\n")...)
	}

	before, after, begun := encode(prefix), encode(suffix), encode(prompt)
	room := m.Context() / infillShare
	before = before[max(0, len(before)-(room-room/suffixShare)):]
	after = after[:min(len(after), room/suffixShare)]
	parts := [][]int32{append([]int32{special.Prefix}, before...), append([]int32{special.Suffix}, after...)}
	if m.SuffixFirst {
		slices.Reverse(parts)
	}
	end := slices.Concat(parts[0], parts[1], []int32{special.Middle}, begun)
	if left := max(0, m.Context()-room-len(end)); len(ids) > left { // other files are cut first, the earliest of them before the others
		ids = ids[len(ids)-left:]
	}
	if tok.AddsBOS() {
		ids = slices.Insert(ids, 0, tok.BOS())
	}
	return completeTokens(w, r, f, m, &server.Prompt{IDs: append(ids, end...)})
}
