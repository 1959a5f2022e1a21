package demotest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestHuggingFace: except for tensors with a free order of neurons, the checkpoint is the trained one, by the hashes of
// its tensors.
func TestHuggingFace(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(HuggingFace(t), "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint64(data)
	var header map[string]struct {
		Offsets [2]int `json:"data_offsets"`
	}
	if err := json.Unmarshal(data[8:8+n], &header); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"embed_tokens":                      "d6bfb0d73b11cd04",
		"norm":                              "130625e870d66ede",
		"layers.5.input_layernorm":          "183e48d68cfdf3e9",
		"layers.5.self_attn.q_proj":         "0c6e17efb276d1f4",
		"layers.5.self_attn.k_proj":         "8a7ff1bfcfada367",
		"layers.5.self_attn.v_proj":         "2d30afec4fed1841",
		"layers.5.self_attn.o_proj":         "5d77b19999d44830",
		"layers.5.post_attention_layernorm": "4f30c51b2c06f984",
	} {
		at := header["model."+name+".weight"].Offsets
		sum := sha256.Sum256(data[8+int(n):][at[0]:at[1]])
		if got := hex.EncodeToString(sum[:8]); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
