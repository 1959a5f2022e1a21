package terminal

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// honest are texts that must not change: emoji of several characters, scripts from right to left with their marks,
// accents, scripts that need joiners, old letters with variation selectors.
var honest = []string{
	"plain\ttext\n", "", "naïve café, cafe\u0301", "👩\u200d👩\u200d👧 👍🏽 🇩🇪 ❤️\u200d🔥 1️⃣ 🏳️\u200d🌈",
	"🏴\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F and 🏴\U000E0067\U000E0062\U000E0073\U000E0063\U000E0074\U000E007F",
	"שָׁלוֹם \u200fabc\u200e", "السلام\u061c عليكم", "می\u200cخواهم", "क्\u200dष", "ภาษา\u200bไทย", "日本語\u3000の文章", "葛\U000E0100城", "⠀braille", "\U000F0001",
}

func TestHonestTextStays(t *testing.T) {
	for _, text := range honest {
		if got := Clean(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestClean(t *testing.T) {
	for _, k := range []struct{ what, text, want string }{
		{"a colour", "a\x1b[31mb", "a[31mb"},
		{"a title that ends with a bell", "\x1b]0;title\x07x", "]0;titlex"},
		{"a link", "\x1b]8;;http://x\x1b\\here", "]8;;http://x\\here"},
		{"C0 and DEL", "\x00a\x08\x0b\x0c\r\x7fb", "ab"},
		{"lines of Windows", "a\r\nb", "a\nb"},
		{"a line written over", "good\rbad", "goodbad"},
		{"C1", "a\u009b31mb\u009d0;t\u009c\u0090", "a31mb0;t"},
		{"C1 in 8 bits", "a\x9b31mb", "a\ufffd31mb"},
		{"no UTF-8", "a\xff\xc0\xafb", "a\ufffd\ufffd\ufffdb"},
		{"half a character", "a\xe2\x82", "a\ufffd"},
		{"surrogates", "\xed\xa0\x80", "\ufffd\ufffd\ufffd"},
		{"overrides", "abc\u202etxt.exe\u202c\u2066x\u2069\u202ay", "abctxt.exexy"},
		{"separators", "a\u2028b\u2029c", "a\nb\nc"},
		{"invisible operators", "a\u2060\u2061\u2064\u206ab\ufeff\ufff9", "ab"},
		{"text in tags", "a\U000E0041\U000E0042\U000E0001b", "ab"},
		{"text in tags after a flag", "🏴" + strings.Repeat("\U000E0061", 100) + "b", "🏴" + strings.Repeat("\U000E0061", mostTags) + "b"},
		{"bytes in variation selectors", "😀\ufe00\ufe01\U000E0110\U000E0111b", "😀\ufe00b"},
		{"a tower of accents", "a" + strings.Repeat("\u0301", 100) + "b", "a" + strings.Repeat("\u0301", mostMarks) + "b"},
	} {
		if got := Clean(k.text); got != k.want {
			t.Errorf("%s: %q became %q, not %q", k.what, k.text, got, k.want)
		}
	}
}

// FuzzCleaner: nothing that commands a terminal passes, clean text stays, and cutting the text into pieces changes
// nothing.
func FuzzCleaner(f *testing.F) {
	for _, text := range honest {
		f.Add(text)
	}
	f.Add("a\x1b[31m\xe2\x82\u202e🏴\U000E0041\ufe00\ufe01\x9b\xf0\x9f\x8f\xb4\xf3\xa0")
	f.Fuzz(func(t *testing.T, text string) {
		whole := Clean(text)
		var c Cleaner
		var pieces strings.Builder
		for i := range len(text) {
			pieces.WriteString(c.Text(text[i : i+1]))
		}
		pieces.WriteString(c.End())
		if pieces.String() != whole {
			t.Errorf("%q in bytes became %q, not %q", text, pieces.String(), whole)
		}
		for _, r := range whole {
			if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
				t.Errorf("%q became %q, with %q", text, whole, r)
			}
		}
		if again := Clean(whole); again != whole {
			t.Errorf("%q became %q, and that %q", text, whole, again)
		}
	})
}

// TestOutputOfFile: an output that is not a terminal gets the bytes unchanged.
func TestOutputOfFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	o := Of(f)
	want := []byte("\x1b[31m\x9b\u202e\r\n\xe2\x82")
	if n, err := o.Write(want); n != len(want) || err != nil {
		t.Fatal(n, err)
	}
	got, err := os.ReadFile(f.Name())
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	if columns, rows := o.Size(); o.IsTerminal() || columns != 0 || rows != 0 {
		t.Error("a file is taken for a terminal")
	}
}
