package convert

import (
	"fmt"
	"path/filepath"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// The ways of pooling as GGUF files number them.
const (
	poolMean = 1
	poolCLS  = 2
	poolLast = 3
)

// poolingKeys returns how a text's tokens become one embedding, of folders that say it as Sentence Transformers does.
func poolingKeys(dir, family string) ([]gguf.KV, error) {
	path := filepath.Join(dir, "1_Pooling", "config.json")
	if !checkpoint.Exists(path) {
		return nil, nil
	}
	var c struct {
		Mean bool `json:"pooling_mode_mean_tokens"`
		CLS  bool `json:"pooling_mode_cls_token"`
		Last bool `json:"pooling_mode_lasttoken"`
	}
	if err := checkpoint.ReadJSON(path, &c); err != nil {
		return nil, err
	}
	var way []uint32
	for i, is := range []bool{c.Mean, c.CLS, c.Last} {
		if is {
			way = append(way, []uint32{poolMean, poolCLS, poolLast}[i])
		}
	}
	if len(way) != 1 {
		return nil, fmt.Errorf("%s: one of pooling_mode_mean_tokens, pooling_mode_cls_token and pooling_mode_lasttoken must be true, and no other", path)
	}
	return []gguf.KV{{Key: family + ".pooling_type", Value: way[0]}}, nil
}
