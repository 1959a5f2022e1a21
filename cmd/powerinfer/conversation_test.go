package main

import (
	"path/filepath"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/chat"
)

// What a full context leaves out of prompts stays in the conversation, and a prompt always holds the last question.
func TestLeaveOut(t *testing.T) {
	answer := func(c *conversation, text string) {
		c.messages = append(c.messages, chat.Message{Role: "assistant", Content: text})
	}
	c := conversation{system: "S"}
	c.ask("1")
	if c.leaveOut() {
		t.Error("the only question is left out")
	}
	answer(&c, "one")
	c.ask("2")
	answer(&c, "two")
	c.ask("3")
	for _, want := range []string{"S\n1one\n2two\n3", "S\n2two\n3", "S\n3"} {
		if got, err := c.prompt(); err != nil || got.Text != want {
			t.Errorf("the prompt is %q (%v), want %q", got.Text, err, want)
		}
		c.leaveOut()
	}
	if c.leaveOut() {
		t.Error("the last question is left out")
	}
	path := filepath.Join(t.TempDir(), "talk.json")
	if err := c.save(path); err != nil {
		t.Fatal(err)
	}
	var loaded conversation
	if err := loaded.load(path); err != nil || len(loaded.messages) != 5 || loaded.left != 0 {
		t.Errorf("%d messages, %d left out, %v", len(loaded.messages), loaded.left, err)
	}
	for range 3 {
		c.withdraw()
		if c.left > len(c.messages) {
			t.Errorf("%d of %d messages are left out", c.left, len(c.messages))
		}
	}
	c.ask("4")
	if got, _ := c.prompt(); got.Text != "S\n4" {
		t.Errorf("the prompt is %q", got.Text)
	}
}
