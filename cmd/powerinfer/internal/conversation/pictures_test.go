package conversation

import (
	"os"
	"testing"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/attachment"
	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/vision/visiontest"
)

// TestSavedPictures: a saved conversation is loaded with its pictures.
func TestSavedPictures(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := (visiontest.Picture{Name: "p", Width: 5, Height: 3}).Write("p.png"); err != nil {
		t.Fatal(err)
	}
	p, err := attachment.Read("p.png")
	if err != nil {
		t.Fatal(err)
	}
	parts, err := attachment.Parts("what is "+attachment.Mark+"?", []attachment.Picture{p})
	if err != nil {
		t.Fatal(err)
	}
	c := Conversation{System: "Be brief."}
	c.Show(parts, []attachment.Picture{p})
	c.Add(chat.Message{Role: "assistant", Content: "Noise."})
	if err := c.Save("talk.json"); err != nil {
		t.Fatal(err)
	}
	var loaded Conversation
	if err := loaded.Load("talk.json"); err != nil {
		t.Fatal(err)
	}
	got := loaded.Messages[0].Parts
	if len(loaded.Messages) != 2 || len(got) != 3 || got[0].Text != "what is " || got[2].Text != "?" || got[1].Picture.Sum() != p.Sum() {
		t.Errorf("loaded: %+v", loaded.Messages)
	}
	prompt, err := loaded.Prompt(true)
	if err != nil || len(prompt.Pictures) != 1 || prompt.Text != "Be brief.\nwhat is "+prompt.Mark+"?Noise." {
		t.Errorf("the prompt is %+v, %v", prompt, err)
	}
	if prompt, err = loaded.Prompt(false); err != nil || len(prompt.Pictures) != 0 || prompt.Text != "Be brief.\nwhat is [picture]?Noise." {
		t.Errorf("the prompt of a model that reads text only is %+v, %v", prompt, err)
	}
	if err := loaded.Save("again.json"); err != nil {
		t.Fatal(err)
	}
	a, _ := os.ReadFile("talk.json")
	if b, _ := os.ReadFile("again.json"); string(a) != string(b) {
		t.Error("saved again it is another file")
	}
	for _, bad := range []string{
		`{"messages":[{"role":"user","content":5}]}`,
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]}`,
		`{"messages":[{"role":"assistant","content":[]}]}`,
	} {
		if err := os.WriteFile("bad.json", []byte(bad), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := loaded.Load("bad.json"); err == nil {
			t.Errorf("%s is loaded", bad)
		}
	}
}
