package conversation

import (
	"path/filepath"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/chat"
)

// TestLeaveOut: messages that prompts leave out stay in the conversation, and a prompt always holds the last question.
func TestLeaveOut(t *testing.T) {
	answer := func(c *Conversation, text string) {
		c.Messages = append(c.Messages, chat.Message{Role: "assistant", Content: text})
	}
	c := Conversation{System: "S"}
	c.Ask("1")
	if c.LeaveOut() {
		t.Error("the only question is left out")
	}
	answer(&c, "one")
	c.Ask("2")
	answer(&c, "two")
	c.Ask("3")
	for _, want := range []string{"S\n1one\n2two\n3", "S\n2two\n3", "S\n3"} {
		if got, err := c.Prompt(true); err != nil || got.Text != want {
			t.Errorf("the prompt is %q (%v), want %q", got.Text, err, want)
		}
		c.LeaveOut()
	}
	if c.LeaveOut() {
		t.Error("the last question is left out")
	}
	path := filepath.Join(t.TempDir(), "talk.json")
	if err := c.Save(path); err != nil {
		t.Fatal(err)
	}
	var loaded Conversation
	if err := loaded.Load(path); err != nil || len(loaded.Messages) != 5 || loaded.Left != 0 {
		t.Errorf("%d messages, %d left out, %v", len(loaded.Messages), loaded.Left, err)
	}
	for range 3 {
		c.Withdraw()
		if c.Left > len(c.Messages) {
			t.Errorf("%d of %d messages are left out", c.Left, len(c.Messages))
		}
	}
	c.Ask("4")
	if got, _ := c.Prompt(true); got.Text != "S\n4" {
		t.Errorf("the prompt is %q", got.Text)
	}
}
