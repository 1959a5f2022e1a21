package convert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// TestPooling: the single pooling that a folder names becomes GGUF's number. None or two are refused; a missing folder
// gives no key.
func TestPooling(t *testing.T) {
	for _, c := range []struct {
		content string
		want    any // the key's value, nil for no key, or a part of the error
	}{
		{`{"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": false}`, uint32(1)},
		{`{"pooling_mode_cls_token": true}`, uint32(2)},
		{`{"pooling_mode_lasttoken": true, "word_embedding_dimension": 64}`, uint32(3)},
		{`{"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true}`, "must be true, and no other"},
		{`{"pooling_mode": "lasttoken"}`, uint32(3)},
		{`{}`, "must be true, and no other"},
		{``, nil},
	} {
		dir := t.TempDir()
		if c.content != "" {
			path := filepath.Join(dir, "1_Pooling")
			if err := os.Mkdir(path, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(path, "config.json"), []byte(c.content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		var keys []gguf.KV
		modules, err := readModules(dir)
		for _, m := range modules {
			keys, err = poolingKeys(filepath.Join(dir, m.Path, "config.json"), "bert")
		}
		switch want := c.want.(type) {
		case string:
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v", c.content, err)
			}
		case nil:
			if err != nil || keys != nil {
				t.Errorf("%q gives %v, %v", c.content, keys, err)
			}
		default:
			if err != nil || len(keys) != 1 || keys[0].Key != "bert.pooling_type" || keys[0].Value != want {
				t.Errorf("%s gives %v, %v, not %v", c.content, keys, err, want)
			}
		}
	}
}
