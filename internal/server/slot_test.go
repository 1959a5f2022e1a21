package server_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const slotPrompt = "Once upon a time there was a king who had three daughters, and the youngest of them was so beautiful that the sun itself wondered"

// tale asks for a text in a slot. It returns the text and how many tokens of its prompt were evaluated.
func (l *live) tale(slot int) (text string, evaluated int) {
	l.t.Helper()
	doc := l.good("/completion", fmt.Sprintf(`{"prompt": %q, "id_slot": %d, "n_predict": 12, "temperature": 0}`, slotPrompt, slot))
	if got := at(l.t, doc, "id_slot"); got != float64(slot) {
		l.t.Errorf("the text was generated in slot %v, not %d", got, slot)
	}
	return at(l.t, doc, "content").(string), int(at(l.t, doc, "timings", "prompt_n").(float64))
}

// TestSlots: a saved slot serves another process' requests, and an erased one is evaluated again.
func TestSlots(t *testing.T) {
	folder := t.TempDir()
	with := func(c *choices) { c.model.SlotPath = folder }
	first := start(t, with)
	want, all := first.tale(1)
	saved := first.good("/slots/1?action=save", `{"filename": "tale.bin"}`)
	n := at(t, saved, "n_saved").(float64)
	info, err := os.Stat(filepath.Join(folder, "tale.bin"))
	if err != nil || int(n) < all || at(t, saved, "n_written") != float64(info.Size()) || at(t, saved, "id_slot") != 1.0 || at(t, saved, "filename") != "tale.bin" {
		t.Fatalf("a prompt of %d tokens was saved as %v: %v", all, saved, err)
	}
	if at(t, saved, "timings", "save_ms").(float64) < 0 {
		t.Error("it took no time")
	}
	second := start(t, with)
	restored := second.good("/slots/0?action=restore", `{"filename": "tale.bin"}`)
	if at(t, restored, "n_restored") != n || at(t, restored, "n_read") != float64(info.Size()) {
		t.Errorf("restored %v of %v", restored, saved)
	}
	if got, evaluated := second.tale(0); evaluated != 1 || got != want {
		t.Errorf("after %d evaluated tokens the text is %q, want %q", evaluated, got, want)
	}
	if erased := second.good("/slots/0?action=erase", ""); at(t, erased, "n_erased").(float64) < n-1 {
		t.Errorf("erased %v of %v", erased, saved)
	}
	if got, evaluated := second.tale(0); evaluated != all || got != want {
		t.Errorf("an erased prompt of %d tokens: %d are evaluated and the text is %q", all, evaluated, got)
	}
}

// TestSlotsKeep: saving a slot replaces another saved slot or an empty file, and nothing else.
func TestSlotsKeep(t *testing.T) {
	folder, far := t.TempDir(), filepath.Join(t.TempDir(), "far.bin")
	l := start(t, func(c *choices) { c.model.SlotPath = folder })
	l.tale(0)
	put := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(filepath.Join(folder, "empty"), "")
	put(filepath.Join(folder, "model.gguf"), "GGUF and more")
	l.good("/slots/0?action=save", `{"filename": "empty"}`)
	l.good("/slots/0?action=save", `{"filename": "empty"}`)
	kept := map[string]string{"model.gguf": "is not a file of keys and values"}
	saved, err := os.ReadFile(filepath.Join(folder, "empty"))
	if err != nil {
		t.Fatal(err)
	}
	put(far, string(saved))
	if os.Symlink(far, filepath.Join(folder, "link")) == nil {
		kept["link"] = "is a symbolic link"
	}
	for name, want := range kept {
		doc, status := l.ask("/slots/0?action=save", fmt.Sprintf(`{"filename": %q}`, name))
		said := at(t, doc, "error", "message").(string)
		if status != http.StatusBadRequest || !strings.Contains(said, name+" "+want) || strings.Contains(said, folder) {
			t.Errorf("%s: %d, %s", name, status, said)
		}
	}
	if now, _ := os.ReadFile(filepath.Join(folder, "model.gguf")); string(now) != "GGUF and more" {
		t.Errorf("the model is now %q", now)
	}
}

// TestSlotsRefuse: names cannot be paths, and foreign files are not slots.
func TestSlotsRefuse(t *testing.T) {
	folder := t.TempDir()
	l := start(t, func(c *choices) { c.model.SlotPath = folder })
	if err := os.WriteFile(filepath.Join(folder, "other"), []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, body, want string }{
		{"/slots/0?action=save", `{"filename": "x"}`, "no text to save"},
		{"/slots/0?action=save", `{}`, "filename"},
		{"/slots/0?action=save", `{"filename": "../x"}`, "plain name"},
		{"/slots/0?action=save", `{"filename": "/tmp/x"}`, "plain name"},
		{"/slots/0?action=restore", `{"filename": ".."}`, "plain name"},
		{"/slots/0?action=restore", `{"filename": "a\u0000b"}`, "plain name"},
		{"/slots/0?action=save", `{"filename": "a\nb"}`, "control characters"},
		{"/slots/0?action=save", `{"filename": "a\u001b[2Jb"}`, "control characters"},
		{"/slots/0?action=restore", `{"filename": "a\u009bb"}`, "control characters"},
		{"/slots/0?action=save", `{"filename": "-rf"}`, "a dash"},
		{"/slots/0?action=restore", `{"filename": "absent"}`, "no saved slot"},
		{"/slots/0?action=restore", `{"filename": "other"}`, "no file of keys and values"},
		{"/slots/7?action=erase", "", "no slot 7"},
		{"/slots/one?action=erase", "", "not a number"},
		{"/slots/0?action=steal", "", "none of save"},
	} {
		doc, status := l.ask(c.path, c.body)
		message := fmt.Sprint(at(t, doc, "error", "message"))
		if status != http.StatusBadRequest || !strings.Contains(message, c.want) || strings.Contains(message, folder) {
			t.Errorf("%s %s: status %d, %q", c.path, c.body, status, message)
		}
	}
	plain := start(t, nil)
	for _, action := range []string{"save", "restore", "erase"} {
		if _, status := plain.ask("/slots/0?action="+action, `{"filename": "x"}`); status != http.StatusNotImplemented {
			t.Errorf("%s without a folder: status %d", action, status)
		}
	}
}

// TestSlotAskedFor: a request for a busy slot waits for it although another is free, and ends when its client leaves.
func TestSlotAskedFor(t *testing.T) {
	l := start(t, func(o *choices) { o.context = endless })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	long := l.request(ctx, "POST", "/completion", `{"prompt": "The king", "id_slot": 1, "stream": true, "ignore_eos": true}`)
	defer long.Body.Close()
	eventually(t, "slot 1 is busy", func() bool { return l.m.Busy()[1] })
	gone, leave := context.WithCancel(t.Context())
	given := make(chan int)
	go func() {
		r, err := http.NewRequestWithContext(gone, "POST", l.url+"/completion", strings.NewReader(`{"prompt": "The queen", "id_slot": 1, "n_predict": 1}`))
		if err == nil {
			if res, err := http.DefaultClient.Do(r); err == nil {
				res.Body.Close()
			}
		}
		given <- 0
	}()
	l.tale(0)
	leave()
	<-given
	if l.m.Busy()[0] || !l.m.Busy()[1] {
		t.Errorf("slots that are busy: %v, want the second", l.m.Busy())
	}
	stop()
	eventually(t, "all slots are free again", l.idle)
	l.tale(1)
	states := l.m.SlotStates()
	if states[1].Task <= states[0].Task || states[1].Decoded != 12 || len(states[1].Tokens) == 0 {
		t.Errorf("slot 1 remembers task %d and %d tokens", states[1].Task, states[1].Decoded)
	}
}
