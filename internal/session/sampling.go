package session

import (
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

// Breakers returns a function that makes DRY's sequence breakers for a model with this many outputs; the first are
// tok's tokens.
func Breakers(tok *tokenizer.Tokenizer, outputs int) func(texts []string) *sample.Breakers {
	return func(texts []string) *sample.Breakers {
		return sample.NewBreakers(texts, outputs, func(id int32) []byte {
			if int(id) >= tok.Size() {
				return nil // an output that stands for no token
			}
			return tok.Piece(id, true)
		})
	}
}
