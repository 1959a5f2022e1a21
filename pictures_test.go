package powerinfer_test

import (
	"bytes"
	"image"
	"image/png"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/internal/vision/visiontest"
)

// TestPictures: Chat with a picture gives the continuation of its prompt, and another picture gives another answer.
func TestPictures(t *testing.T) {
	dir := t.TempDir()
	cases := visiontest.Cases()
	if err := cases[slices.IndexFunc(cases, func(c visiontest.Case) bool { return c.Name == "gemma3" })].Write(dir); err != nil {
		t.Fatal(err)
	}
	o := powerinfer.Options{GPU: powerinfer.GPUs{Devices: powerinfer.NoGPU}, CPU: powerinfer.CPU{Threads: 1}, Limits: powerinfer.Limits{Context: 512}}
	m, err := powerinfer.Open(t.Context(), filepath.Join(dir, visiontest.TextFile), o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if !m.Sees() {
		t.Fatal("the tower beside the model is not found")
	}
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, 30, 20))); err != nil {
		t.Fatal(err)
	}
	black, err := powerinfer.ReadPicture(file.Bytes())
	if err != nil || black.Width != 30 || black.Height != 20 {
		t.Fatalf("%+v, %v", black, err)
	}
	noise := visiontest.Picture{Name: "noise", Width: 40, Height: 40}.Image()
	g := powerinfer.Generation{Max: 12, Sampling: greedy(), IgnoreEnd: true}
	answer := func(pictures ...*powerinfer.Picture) string {
		t.Helper()
		a, err := m.Answer(t.Context(), powerinfer.Conversation{Template: "gemma", Messages: []powerinfer.Message{
			{Role: powerinfer.RoleUser, Content: "What is it?", Pictures: pictures},
		}}, g)
		if err != nil {
			t.Fatal(err)
		}
		return a.Content
	}
	first, again, other, both := answer(black), answer(black), answer(noise), answer(black, noise)
	if first != again || first == other || first == both || other == both {
		t.Errorf("answers: %q, again %q, to another picture %q, to both %q", first, again, other, both)
	}
	ids, places, err := m.TokenizeMarked("<start_of_turn>user\n<M>What is it?<end_of_turn>\n<start_of_turn>model\n", "<M>", []*powerinfer.Picture{black}, true)
	if err != nil || places.Tokens() != 16 {
		t.Fatalf("%d tokens of a picture, %v", places.Tokens(), err)
	}
	continued := g
	continued.Pictures, continued.Special = places, true
	s, err := m.Start(t.Context(), ids, continued)
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for token := range s.Tokens() {
		text += token.Text
	}
	if strings.TrimSpace(text) != strings.TrimSpace(first) {
		t.Errorf("continued as %q, answered as %q", text, first)
	}

	o.Tower.Off = true
	blind, err := powerinfer.Open(t.Context(), filepath.Join(dir, visiontest.TextFile), o)
	if err != nil {
		t.Fatal(err)
	}
	defer blind.Close()
	_, err = blind.Answer(t.Context(), powerinfer.Conversation{Template: "gemma", Messages: []powerinfer.Message{
		{Role: powerinfer.RoleUser, Pictures: []*powerinfer.Picture{black}},
	}}, g)
	if blind.Sees() || err == nil || !strings.Contains(err.Error(), "Options.Tower.Path") {
		t.Errorf("a model that does not see: %v", err)
	}
	if _, err := powerinfer.ReadPicture([]byte("GIF89a")); err == nil {
		t.Error("half a picture is read")
	}
}

// TestPictureInStep: a photo, which Gemma 4 reads in one step, is scaled to fit the default step. A tower without a
// choice of sizes is refused with the step that it needs.
func TestPictureInStep(t *testing.T) {
	for _, c := range visiontest.Cases() {
		if c.Name != "gemma4uv" && c.Name != "gemma3" {
			continue
		}
		dir := t.TempDir()
		if err := c.Write(dir); err != nil {
			t.Fatal(err)
		}
		o := powerinfer.Options{GPU: powerinfer.GPUs{Devices: powerinfer.NoGPU}, CPU: powerinfer.CPU{Threads: 1}, Limits: powerinfer.Limits{Context: 1024}}
		if c.Name == "gemma3" {
			o.Limits.UBatch, o.Tower.Path = 17, filepath.Join(dir, visiontest.TowerFile)
			if _, err := powerinfer.Open(t.Context(), filepath.Join(dir, visiontest.TextFile), o); err == nil || !strings.Contains(err.Error(), "raise Options.Limits.UBatch by 1") {
				t.Errorf("a step of 17 for 16 rows and two tokens: %v", err)
			}
			continue
		}
		m, err := powerinfer.Open(t.Context(), filepath.Join(dir, visiontest.TextFile), o)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		photo := visiontest.Picture{Name: "photo", Width: 1500, Height: 1000}.Image()
		a, err := m.Answer(t.Context(), powerinfer.Conversation{Template: "gemma", Messages: []powerinfer.Message{
			{Role: powerinfer.RoleUser, Content: "What is it?", Pictures: []*powerinfer.Picture{photo}},
		}}, powerinfer.Generation{Max: 1, Sampling: greedy()})
		if err != nil {
			t.Errorf("%+v, %v", a, err)
		}
	}
}

// TestTowerAsModel: a tower's file as the model gives an error that says so, and not one about its architecture.
func TestTowerAsModel(t *testing.T) {
	dir := t.TempDir()
	if err := visiontest.Cases()[0].Write(dir); err != nil {
		t.Fatal(err)
	}
	var notices []string
	o := powerinfer.Options{GPU: powerinfer.GPUs{Devices: powerinfer.NoGPU}, Notice: func(line string) { notices = append(notices, line) }}
	_, err := powerinfer.Open(t.Context(), filepath.Join(dir, visiontest.TowerFile), o)
	if err == nil || !strings.Contains(err.Error(), "tower for pictures") || !strings.Contains(err.Error(), "Options.Tower.Path") || notices != nil {
		t.Errorf("%v, and before it %q", err, notices)
	}
}
