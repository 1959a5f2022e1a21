package chat

import (
	"fmt"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/picture"
)

// TestMarks: each picture's mark is in its message's text, in whatever form templates take messages. Pictures and marks
// stay in the same order when messages are joined, moved or turned into other messages' texts.
func TestMarks(t *testing.T) {
	a, b, c := picture.Blank(1, 1, [3]byte{1}), picture.Blank(2, 2, [3]byte{2}), picture.Blank(3, 3, [3]byte{3})
	named := map[*picture.Image]string{a: "<A>", b: "<B>", c: "<C>"}
	seen := func(text string, pictures ...*picture.Image) []Part {
		parts := []Part{{Type: "text", Text: text}}
		for _, p := range pictures {
			parts = append(parts, Part{Type: "image", Picture: p})
		}
		return parts
	}
	conversation := []Message{
		{Role: "system", Parts: seen("sys", c)},
		{Role: "user", Parts: append(seen("one ", a), Part{Type: "text", Text: " two"})},
		{Role: "user", Parts: seen("three", b, a)},
		{Role: "assistant", ToolCalls: []ToolCall{{ID: "x", Name: "look", Arguments: []byte("{}")}}},
		{Role: "tool", ToolCallID: "x", Name: "look", Parts: seen("result", b)},
	}
	plain := `{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}`
	for name, k := range map[string]struct{ source, want string }{
		"strings": {plain, `[system:sys<C>][user:one <A> two][user:three<B><A>]`},
		"parts": {
			`{% for m in messages %}[{{ m.role }}:{% for p in m.content %}{% if p.type == 'image' %}<image>{% else %}{{ p.text }}{% endif %}{% endfor %}]{% endfor %}`,
			`[system:sys<C>][user:one <A> two][user:three<B><A>]`,
		},
		"turns": {
			`{% set ns = namespace(last='assistant') %}{% for m in messages %}{% if m.role == 'system' or m.role == 'tool' or m.role == ns.last %}{{ raise_exception('no') }}{% endif %}` +
				`{% set ns.last = m.role %}[{{ m.role }}:{{ m.content }}]{% endfor %}`,
			"[user:sys<C>\n\none <A> two\n\nthree<B><A>]",
		},
		"upside down": {
			`{% for m in messages | reverse %}[{{ m.role }}:{{ m.content }}]{% endfor %}`,
			`[user:three<B><A>][user:one <A> two][system:sys<C>]`,
		},
	} {
		tmpl, err := Parse(k.source, "", "")
		if err != nil {
			t.Fatal(err)
		}
		m, err := tmpl.RenderMarked(Request{Messages: conversation})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text := m.Text
		for _, p := range m.Pictures {
			text = strings.Replace(text, m.Mark, named[p], 1)
		}
		if !strings.Contains(text, k.want) || !strings.Contains(text, "result<B>") || strings.Contains(text, m.Mark) {
			t.Errorf("%s: %q", name, text)
		}
		again, err := tmpl.RenderMarked(Request{Messages: conversation})
		if err != nil || again.Mark == m.Mark {
			t.Errorf("%s: the same mark twice: %v", name, err)
		}
	}
}

// TestMarksLost: a template that leaves a picture out is an error, and one that shows it twice repeats it.
func TestMarksLost(t *testing.T) {
	conversation := []Message{{Role: "user", Parts: []Part{{Type: "text", Text: "Hi"}, {Type: "image", Picture: picture.Blank(1, 1, [3]byte{})}}}}
	for source, want := range map[string]int{
		`{% for m in messages %}{{ m.content[:2] }}{% endfor %}`:                   -1,
		`{% for m in messages %}{{ m.content }}{% endfor %}`:                       1,
		`{% for m in messages %}{{ m.content }}{{ m.content | trim }}{% endfor %}`: 2,
	} {
		tmpl, err := Parse(source, "", "")
		if err != nil {
			t.Fatal(err)
		}
		m, err := tmpl.RenderMarked(Request{Messages: conversation})
		if want < 0 {
			if err == nil || !strings.Contains(err.Error(), "--chat-template") {
				t.Errorf("%s: %v", source, err)
			}
			continue
		}
		if err != nil || len(m.Pictures) != want || strings.Count(m.Text, m.Mark) != want {
			t.Errorf("%s: %v, %d pictures", source, err, len(m.Pictures))
		}
		if _, err := tmpl.Render(Request{Messages: conversation}); err == nil {
			t.Errorf("%s: pictures are lost silently", source)
		}
	}
}

// TestTextWithPictures: texts and pictures are joined in order.
func TestTextWithPictures(t *testing.T) {
	a, b := picture.Blank(1, 1, [3]byte{}), picture.Blank(2, 1, [3]byte{})
	var text Text
	text.Picture(a)
	text.Add("one")
	text.Add(" two")
	text.Picture(b)
	text.Paragraph("three")
	m := Message{Content: "old"}
	text.Fill(&m)
	var got []string
	for _, p := range m.Parts {
		got = append(got, fmt.Sprint(p.Type, p.Text, p.Picture == a, p.Picture == b))
	}
	want := fmt.Sprint([]string{"imagetrue false", "textone twofalse false", "imagefalse true", "text\n\nthreefalse false"})
	if m.Content != "" || fmt.Sprint(got) != want || m.IsEmpty() || text.Empty() {
		t.Errorf("%q, want %s", got, want)
	}
}
