package task

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzParse reads arbitrary files. Accepted tasks can be asked, scored, drawn from and used as examples.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.*v"))
	if err != nil {
		f.Fatal(err)
	}
	lines, err := filepath.Glob(filepath.Join("testdata", "*.jsonl"))
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range append(files, lines...) {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for kind := range Kinds() {
			f.Add(uint8(kind), data[:min(len(data), 600)])
		}
	}
	f.Add(uint8(7), choiceForm([]string{"Q", "a", "b"}, []string{"R", "c", "d"}))
	f.Add(uint8(2), []byte("Ctx\n2\na\nb\nc\nd\n"))
	f.Add(uint8(3), []byte("0,\"So, _ ran.\",Al,Bo,1\n"))
	f.Add(uint8(6), []byte("Type,Question,Best Answer,Correct Answers,Incorrect Answers\nx,Q1,yes,aye; yes,no\n"))
	f.Add(uint8(6), []byte(`[{"question": "Q1", "mc1_targets": {"yes": 1, "no": 0}, "mc2_targets": {"yes": 1, "aye": 1, "no": 0}}]`))
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		k := Kinds()[int(kind)%len(Kinds())]
		for _, scoring := range []Scoring{ByForm, Llama, Harness} {
			d, err := Parse(k, "f", data, scoring)
			if err != nil {
				continue
			}
			if d.Len() == 0 {
				t.Fatal("there is no question, and no error")
			}
			examples, err := Parse(k, "f", data, scoring)
			if err != nil {
				t.Fatal(err)
			}
			examples.Hash = "of another file"
			_ = d.AddShots(1, examples)
			d.Draw(2, LlamaSeed)
			for i := range d.Items {
				it := &d.Items[i]
				l := make([]Likelihood, len(it.Choices))
				for j := range l {
					l[j] = Likelihood{Sum: -1, Tokens: 1}
				}
				for metric, v := range d.Score(it, l) {
					if !(v >= 0 && v <= 1) {
						t.Errorf("%s is %g", metric, v)
					}
				}
			}
		}
	})
}
