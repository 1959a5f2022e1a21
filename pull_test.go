package powerinfer_test

import (
	"errors"
	"testing"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/hub/hubtest"
)

// TestPull: a model is downloaded once, found again without the network, listed, and can be opened.
func TestPull(t *testing.T) {
	hub := hubtest.New()
	t.Cleanup(hub.Close)
	hub.Repos["someone/tales-GGUF"] = &hubtest.Repo{Files: map[string][]byte{"tales-Q8_0.gguf": demo.Model()}}
	for name, value := range map[string]string{
		"MODEL_ENDPOINT": hub.URL, "HF_HOME": t.TempDir(), "HF_TOKEN": "", "HF_HUB_OFFLINE": "", "LLAMA_CACHE": "", "HF_HUB_CACHE": "", "HUGGINGFACE_HUB_CACHE": "", "TRANSFORMERS_OFFLINE": "",
	} {
		t.Setenv(name, value)
	}
	var last, size int64
	path, err := powerinfer.Pull(t.Context(), "someone/tales-GGUF", func(done, total int64) { last, size = done, total })
	if err != nil || last != size || size != int64(len(demo.Model())) {
		t.Fatal(path, last, size, err)
	}
	t.Setenv("HF_HUB_OFFLINE", "1")
	if again, err := powerinfer.Pull(t.Context(), "someone/tales-GGUF", nil); err != nil || again != path {
		t.Errorf("%s %v, want %s", again, err, path)
	}
	all, err := powerinfer.List("demo")
	if err != nil || len(all) < 2 {
		t.Fatalf("%+v %v", all, err)
	}
	found := false
	for _, m := range all {
		found = found || m.Path == path && m.Size == size && m.Quant == "Q8_0"
	}
	if !found {
		t.Errorf("%s is not among %+v", path, all)
	}
	m, err := powerinfer.Open(t.Context(), path, powerinfer.Options{GPU: powerinfer.GPUs{Devices: powerinfer.NoGPU}})
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	if _, err := powerinfer.Pull(t.Context(), "someone/else", nil); !errors.Is(err, powerinfer.ErrOffline) {
		t.Errorf("without the network: %v", err)
	}
	t.Setenv("HF_HUB_OFFLINE", "")
	if _, err := powerinfer.Pull(t.Context(), "someone/else", nil); !errors.Is(err, powerinfer.ErrNotFound) {
		t.Errorf("a model that there is not: %v", err)
	}
}
