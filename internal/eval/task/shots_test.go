package task

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func readTest(t *testing.T, kind Kind, name string) *Data {
	t.Helper()
	d, err := Read(kind, filepath.Join("testdata", name), ByForm)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Prompts with examples are the harness's own, which testdata/shots.json holds, for every task in which it defines
// them.
func TestShots(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "shots.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Prompts map[Kind]map[string]map[string][][]string // [task][examples][question]: contexts, each with its continuations
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, c := range []struct {
		kind           Kind
		data, examples string
	}{
		{HellaSwag, "hellaswag.jsonl", "hellaswag_train.jsonl"},
		{Winogrande, "winogrande.jsonl", "winogrande_train.jsonl"},
		{ARC, "arc.jsonl", "arc_train.jsonl"},
		{MMLU, "mmlu.jsonl", "mmlu_dev.jsonl"},
		{MMLU, "abstract_algebra_test.csv", "abstract_algebra_dev.csv"},
		{MMLU, "abstract_algebra_test.csv", "mmlu_dev.jsonl"},
		{MBPP, "mbpp.jsonl", ""},
	} {
		for shots, questions := range want.Prompts[c.kind] {
			d := readTest(t, c.kind, c.data)
			var examples *Data
			if c.examples != "" {
				examples = readTest(t, c.kind, c.examples)
			}
			n, _ := strconv.Atoi(shots)
			if err := d.AddShots(n, examples); err != nil {
				t.Fatal(err)
			}
			for question, prompts := range questions {
				i, _ := strconv.Atoi(question)
				got := fmt.Sprintf("%q", flat(d, i))
				var all []string
				for _, p := range prompts {
					if c.kind == MBPP {
						all = append(all, p[0])
					}
					for _, continuation := range p[1:] {
						all = append(all, p[0], continuation)
					}
				}
				if want := fmt.Sprintf("%q", all); got != want {
					t.Errorf("%s, %s examples, question %d:\n%s, not\n%s", c.data, shots, i, got, want)
				}
				compared++
			}
		}
	}
	if compared < 20 {
		t.Errorf("%d questions were compared", compared)
	}
}

// flat returns what the model is given for a question or program, contexts and continuations in turn.
func flat(d *Data, i int) (all []string) {
	if d.Kind.Generates() {
		return []string{d.Programs[i].Prompt}
	}
	for _, c := range d.Items[i].Choices {
		all = append(all, c.Context, c.Continuation)
	}
	return all
}

// Programs of MBPP that are examples, or not the publishers' test, are not asked for.
func TestShotsOfMBPP(t *testing.T) {
	d := readTest(t, MBPP, "mbpp.jsonl")
	if d.Len() != 2 || d.Programs[0].ID != "11" || d.Aside() != 5 {
		t.Errorf("%d programs, the first %s, and %d aside", d.Len(), d.Programs[0].ID, d.Aside())
	}
	few, err := Parse(MBPP, "few", []byte(`{"task_id": 2, "text": "a", "code": "c", "test_list": ["x"]}`+"\n"+`{"task_id": 5, "text": "b", "code": "d", "test_list": ["y"]}`), ByForm)
	if err != nil {
		t.Fatal(err)
	}
	if few.Len() != 2 {
		t.Errorf("%d programs", few.Len())
	}
	if err := few.AddShots(1, nil); err != nil || few.Len() != 1 || !strings.HasPrefix(few.Programs[0].Prompt, "You are an expert Python programmer, and here is your task: a ") {
		t.Errorf("%v, %+v", err, few.Programs)
	}
}

// Examples that cannot be given are refused with the reason.
func TestShotsRefused(t *testing.T) {
	human, err := Parse(HumanEval, "f", []byte(`{"task_id": "a", "prompt": "b", "entry_point": "c", "test": "d"}`), ByForm)
	if err != nil {
		t.Fatal(err)
	}
	llama, err := Parse(HellaSwag, "f", []byte("a\n0\nb\nc\nd\ne"), ByForm)
	if err != nil {
		t.Fatal(err)
	}
	other, err := Parse(MMLU, "botany_test.csv", []byte("q,a,b,c,d,A\n"), ByForm)
	if err != nil {
		t.Fatal(err)
	}
	bare, err := Parse(MBPP, "f", []byte(`{"task_id": 2, "text": "a", "test_list": ["x"]}`), ByForm)
	if err != nil {
		t.Fatal(err)
	}
	same := readTest(t, HellaSwag, "hellaswag_train.jsonl")
	same.Hash = "of another file"
	for _, c := range []struct {
		d, examples *Data
		n           int
		want        string
	}{
		{human, nil, 1, "not for humaneval"},
		{llama, llama, 1, "llama.cpp's definition has no examples; take --scoring harness"},
		{readTest(t, ARC, "arc.jsonl"), nil, 1, "give the examples of arc, its training or development questions"},
		{readTest(t, ARC, "arc.jsonl"), readTest(t, ARC, "arc.jsonl"), 1, "the examples are the questions themselves"},
		{readTest(t, ARC, "arc.jsonl"), readTest(t, ARC, "arc_train.jsonl"), 31, "each question needs 31 examples, but there are only 30"},
		{readTest(t, HellaSwag, "hellaswag.jsonl"), readTest(t, HellaSwag, "hellaswag_train.jsonl"), 30, "each question needs 31 examples, but there are only 30"},
		{readTest(t, MMLU, "mmlu.jsonl"), readTest(t, MMLU, "mmlu_dev.jsonl"), 6, `question 1 needs 6 examples of the subject "abstract_algebra", but there are only 5`},
		{other, readTest(t, MMLU, "mmlu_dev.jsonl"), 1, `question 1 needs 1 examples of the subject "botany", but there are only 0`},
		{readTest(t, MBPP, "mbpp.jsonl"), nil, 4, "4 programs are needed as examples, but there are only 3"},
		{readTest(t, MBPP, "mbpp.jsonl"), bare, 1, "program 2, an example, has no code"},
	} {
		if err := c.d.AddShots(c.n, c.examples); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.d.Kind, err, c.want)
		}
	}
	// A question that is drawn as its own example is left out of them.
	again := readTest(t, HellaSwag, "hellaswag_train.jsonl")
	if err := again.AddShots(29, same); err != nil {
		t.Fatal(err)
	}
	for i := range again.Items {
		c := again.Items[i].Choices[0]
		if own := c.Context[strings.LastIndex(c.Context, "Tale"):]; strings.Count(c.Context, own) != 1 || strings.Count(c.Context, "\n\n") != 29 {
			t.Errorf("question %d: %q", i, c.Context)
		}
	}
}

// A folder is MMLU's, with a file for each subject.
func TestFolder(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"botany_test.csv": "q,a,b,c,d,A\n", "easy_maths_test.csv": "r,a,b,c,d,B\ns,a,b,c,d,C\n", "notes.txt": "x"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Read(MMLU, folder, ByForm)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, it := range d.Items {
		ids = append(ids, it.ID)
	}
	if got := strings.Join(ids, " "); got != "botany/1 easy_maths/1 easy_maths/2" || !strings.Contains(d.Items[1].Choices[0].Context, "about easy maths.\n\nr\n") {
		t.Errorf("%s; %q", got, d.Items[1].Choices[0].Context)
	}
	if _, err := Read(ARC, folder, ByForm); err == nil || !strings.Contains(err.Error(), "is a folder; give the file of arc") {
		t.Errorf("%v", err)
	}
	if _, err := Read(MMLU, t.TempDir(), ByForm); err == nil || !strings.Contains(err.Error(), "has no CSV files") {
		t.Errorf("%v", err)
	}
}
