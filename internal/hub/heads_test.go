package hub

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// TestHeadsBeside: draft models are found next to their models, by their published names.
func TestHeadsBeside(t *testing.T) {
	for name, c := range map[string]struct {
		files []string
		want  map[string][]string
	}{
		"as published": {
			[]string{
				"gemma-4-E4B-it-Q4_K_M.gguf", "gemma-4-12B-it-qat-UD-Q4_K_XL.gguf", "Qwen3-8B-Q4_K_M.gguf", "gpt-oss-20b-mxfp4.gguf", "other-Q4_0.gguf",
				"mtp-gemma-4-E4B-it-Q8_0.gguf", "mtp-gemma-4-12B-it.gguf", "gemma-4-12B-it-assistant-F16.gguf", "Qwen3-8B-DFlash-b16.gguf", "Qwen3-8B-eagle3-Q8_0.gguf",
				"eagle3-gpt-oss-20b-BF16.gguf", "eagle3-gpt-oss-20b-Q8_0.gguf", "mmproj-F16.gguf",
			},
			map[string][]string{
				"gemma-4-E4B-it-Q4_K_M.gguf":         {"mtp-gemma-4-E4B-it-Q8_0.gguf"},
				"gemma-4-12B-it-qat-UD-Q4_K_XL.gguf": {"mtp-gemma-4-12B-it.gguf"},
				"Qwen3-8B-Q4_K_M.gguf":               {"Qwen3-8B-DFlash-b16.gguf", "Qwen3-8B-eagle3-Q8_0.gguf"},
				"gpt-oss-20b-mxfp4.gguf":             {"eagle3-gpt-oss-20b-Q8_0.gguf"},
				"other-Q4_0.gguf":                    nil,
				"snapshots/none/gemma-4-12B-it.gguf": nil,
				"another-folder/gemma-4-E4B-it.gguf": nil,
			},
		},
		"the only model": {
			[]string{"tuned-Q4_0.gguf", "tuned-Q8_0.gguf", "dflash-draft-q4_k_m.gguf"},
			map[string][]string{"tuned-Q4_0.gguf": {"dflash-draft-q4_k_m.gguf"}},
		},
		"a model of an assistant": {
			[]string{"gemma-4-12b-it-assistant-of-lawyers-Q8_0.gguf", "gemma-4-12b-it-Q8_0.gguf", "gemma-4-12B-it-qat-assistant-MTP-Q8_0.gguf"},
			map[string][]string{"gemma-4-12b-it-Q8_0.gguf": {"gemma-4-12B-it-qat-assistant-MTP-Q8_0.gguf"}},
		},
		"fine-tunes that are called assistants": {
			[]string{"gemma-4-12b-it-Q8_0.gguf", "gemma-4-12b-it-assistant-Q8_0.gguf", "gemma-4-12b-it-my-assistant.gguf", "gemma-4-12b-it-MTP-Q8_0.gguf", "gemma-4-31b-it-Q8_0.gguf"},
			map[string][]string{"gemma-4-12b-it-Q8_0.gguf": {"gemma-4-12b-it-MTP-Q8_0.gguf"}, "gemma-4-12b-it-assistant-Q8_0.gguf": {"gemma-4-12b-it-MTP-Q8_0.gguf"}, "gemma-4-31b-it-Q8_0.gguf": nil},
		},
		"a model with its own layers": {
			[]string{"Qwen3.6-27B-MTP-Q4_K_M.gguf", "Qwen3.6-27B-Q4_K_M.gguf"},
			map[string][]string{"Qwen3.6-27B-Q4_K_M.gguf": nil},
		},
		"a commit of a repository": {
			[]string{"snapshots/0123456789012345678901234567890123456789/UD/gemma-4-12b-it-UD-Q4_K_XL-00001-of-00002.gguf", "snapshots/0123456789012345678901234567890123456789/MTP/gemma-4-12b-it-MTP-Q8_0.gguf"},
			map[string][]string{"snapshots/0123456789012345678901234567890123456789/UD/gemma-4-12b-it-UD-Q4_K_XL-00001-of-00002.gguf": {"snapshots/0123456789012345678901234567890123456789/MTP/gemma-4-12b-it-MTP-Q8_0.gguf"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			fill(t, dir, c.files)
			for model, want := range c.want {
				var got []string
				for _, path := range HeadsBeside(filepath.Join(dir, filepath.FromSlash(model))) {
					name, err := filepath.Rel(dir, path)
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, filepath.ToSlash(name))
				}
				if !slices.Equal(got, want) {
					t.Errorf("of %s: %q, want %q", model, got, want)
				}
			}
		})
	}
}

// architectures are those in the files of these names; others are empty.
var architectures = map[string]string{"gemma-4-12b-it-assistant-Q8_0.gguf": "gemma4", "gemma-4-12b-it-my-assistant.gguf": "gemma4", "gemma-4-12b-it-MTP-Q8_0.gguf": "gemma4-assistant"}

// fill writes files to a folder.
func fill(t *testing.T, dir string, files []string) {
	for _, name := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(path), 0o777)
		if err == nil && architectures[name] != "" {
			err = gguf.Create(t.Context(), path, "GGUF", []gguf.KV{{Key: "general.architecture", Value: architectures[name]}}, nil, nil)
		} else if err == nil {
			err = os.WriteFile(path, nil, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestAssistantsListed: a folder's list has models with names like those of draft models, and no draft models.
func TestAssistantsListed(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, []string{"gemma-4-12b-it-Q8_0.gguf", "gemma-4-12b-it-assistant-Q8_0.gguf", "gemma-4-12b-it-MTP-Q8_0.gguf"})
	list, err := Folder(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range list {
		got = append(got, m.Name)
	}
	if want := []string{"gemma-4-12b-it-Q8_0", "gemma-4-12b-it-assistant-Q8_0"}; !slices.Equal(got, want) {
		t.Errorf("models %q, want %q", got, want)
	}
}

// TestHeadsAlong: a repository's draft model is pulled with its model, by itself if the repository has nothing else,
// and instead of the model on request.
func TestHeadsAlong(t *testing.T) {
	both := []File{{Path: "gemma-4-E4B-it-Q4_K_M.gguf"}, {Path: "gemma-4-E4B-it-Q8_0.gguf"}, {Path: "mmproj-gemma-4-E4B-it-Q8_0.gguf"}, {Path: "mtp-gemma-4-E4B-it-Q8_0.gguf"}}
	alone := []File{{Path: "Qwen3.6-27B-DFlash-F16.gguf"}, {Path: "Qwen3.6-27B-DFlash-Q4_K_M.gguf"}}
	for _, c := range []struct {
		files []File
		name  Name
		model string
		along []string
	}{
		{both, Name{}, "gemma-4-E4B-it-Q4_K_M.gguf", []string{"mtp-gemma-4-E4B-it-Q8_0.gguf"}},
		{both, Name{Tag: "Q8_0"}, "gemma-4-E4B-it-Q8_0.gguf", []string{"mtp-gemma-4-E4B-it-Q8_0.gguf"}},
		{both, Name{Draft: true}, "mtp-gemma-4-E4B-it-Q8_0.gguf", nil},
		{alone, Name{}, "Qwen3.6-27B-DFlash-Q4_K_M.gguf", nil},
		{alone, Name{Tag: "F16"}, "Qwen3.6-27B-DFlash-F16.gguf", nil},
	} {
		chosen, _, err := choose(c.files, c.name)
		if err != nil || chosen[0].Path != c.model {
			t.Errorf("%+v: %v, %v, want %s", c.name, chosen, err, c.model)
			continue
		}
		h := &Hub{o: Options{Heads: true}}
		var got []string
		for _, f := range h.along(c.files, chosen[0].Path) {
			got = append(got, f.Path)
		}
		if !reflect.DeepEqual(got, c.along) {
			t.Errorf("%+v: along come %q, want %q", c.name, got, c.along)
		}
	}
}
