//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/vision/visiontest"
)

// Pictures on a terminal: /image completes names, and a path in a message is taken for the picture.
func TestChatPictures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := visiontest.Named(t, "gemma3").Write(dir); err != nil {
		t.Fatal(err)
	}
	model := filepath.Join(dir, visiontest.TextFile)
	s := onScreen(t, nil, "chat", "-m", model, "--chat-template", "gemma", "--ignore-eos", "-n", "3")
	const status = `3 tokens \|`
	for _, name := range []string{"even.png", "odd.png"} {
		if err := os.Symlink(filepath.Join(dir, name), filepath.Join(s.cmd.Dir, "my "+name)); err != nil {
			t.Fatal(err)
		}
	}
	s.keys("/image my\\ e\t\r")
	s.expect("picture: my even.png, 224x224, 16 tokens")
	s.keys("compare it with 'my odd.png'.\r")
	s.expect("picture: my odd.png, 201x133, 16 tokens")
	s.expect(status)
	s.keys(filepath.Join(dir, "even.png") + "\r")
	s.expect("picture: even.png, 224x224, 16 tokens(?s:.*)now ask about it")
	s.keys("what is it?\r")
	s.expect(status)
	s.keys(filepath.Join(dir, "odd.png") + " and this?\r")
	s.expect("picture: odd.png")
	s.expect(status)
	s.keys("/image absent.png\r")
	s.expect("absent.png: no such file")
	s.keys("/save talk.json\r")
	s.expect("6 messages are in talk.json")
	other := filepath.Join(t.TempDir(), "blind.gguf")
	text, err := os.ReadFile(model)
	if err == nil {
		err = os.WriteFile(other, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.keys("/model " + other + "\r")
	s.expect("reads text only: instead")
	s.keys("and now?\r")
	s.expect(status)
	s.keys("/model " + model + "\r")
	s.keys("and now?\r")
	s.expect(status)
	s.keys("/exit\r")
	s.ended()

	data, err := os.ReadFile(filepath.Join(s.cmd.Dir, "talk.json"))
	if err != nil {
		t.Fatal(err)
	}
	var talk struct {
		Messages []struct{ Content json.RawMessage }
	}
	if err := json.Unmarshal(data, &talk); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"image_url text compare it with  image_url text .", "image_url text what is it?", "image_url text  and this?"} {
		var parts []struct{ Type, Text string }
		if err := json.Unmarshal(talk.Messages[2*i].Content, &parts); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, p := range parts {
			got += " " + p.Type
			if p.Text != "" {
				got += " " + p.Text
			}
		}
		if got != " "+want {
			t.Errorf("message %d is%s, want %s", i, got, want)
		}
	}

	blind := onScreen(t, nil, "chat", "-m", model, "--no-mmproj", "--chat-template", "gemma", "--ignore-eos", "-n", "3")
	blind.keys("what is " + filepath.Join(dir, "even.png") + "?\r")
	blind.expect("even.png is not shown: the model reads text only")
	blind.expect(status)
	blind.keys("/image " + filepath.Join(dir, "even.png") + "\r")
	blind.expect("the model reads text and cannot be shown a picture")
	blind.keys("/exit\r")
	blind.ended()
}
