package task

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// choiceForm returns llama.cpp's binary form of questions with answers, the first right.
func choiceForm(questions ...[]string) []byte {
	text := func(b []byte, s string) []byte {
		return append(binary.LittleEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	var head, body []byte
	head = binary.LittleEndian.AppendUint32(head, uint32(len(questions)))
	for _, q := range questions {
		head = binary.LittleEndian.AppendUint32(head, uint32(4+4*len(questions)+len(body)))
		body = text(body, q[0])
		body = binary.LittleEndian.AppendUint32(body, uint32(len(q)-1))
		for _, a := range q[1:] {
			body = text(body, a)
		}
		for i := range q[1:] {
			body = binary.LittleEndian.AppendUint32(body, map[bool]uint32{true: 1}[i == 0])
		}
		body = binary.LittleEndian.AppendUint32(body, 0)
	}
	return append(head, body...)
}

// TestForms: every form gives the model's input of the publishers' definition.
func TestForms(t *testing.T) {
	for _, c := range []struct {
		name    string
		kind    Kind
		data    string
		scoring Scoring
		want    string // scoring, and of the first item its choices, right ones marked
	}{
		{
			"hellaswag lines", HellaSwag, `{"ind": 7, "activity_label": "Baking", "ctx_a": "A man stirs. [header] Now", "ctx_b": "the DOUGH", "ctx": "A man stirs. [header] Now the DOUGH", "endings": ["is  cut", "flies [title] Up"], "label": 1}`, ByForm,
			"harness 7 Baking: A man stirs. Now The dough| is cut; *Baking: A man stirs. Now The dough| flies. Up",
		},
		{"hellaswag as llama.cpp", HellaSwag, `{"activity_label": "Baking", "ctx_a": "A", "ctx_b": "b", "ctx": "A b", "endings": ["c", "d"], "label": "0"}`, Llama, "llama.cpp 1 *Baking: A b| c; Baking: A b| d"},
		{"hellaswag text", HellaSwag, "Ctx here\n2\na\nb\nc\nd\n", ByForm, "llama.cpp 1 Ctx here| a; Ctx here| b; *Ctx here| c; Ctx here| d"},
		{"winogrande lines", Winogrande, `{"qID": "q", "sentence": "The cat saw _ run.", "option1": "Al", "option2": "Bo", "answer": "2"}`, ByForm, "harness q The cat saw Al| run.; *The cat saw Bo| run."},
		{"winogrande csv", Winogrande, "0,\"So, _ ran  away.\",Al,Bo,1\n", ByForm, "llama.cpp 1 *So, Al| ran  away.; So, Bo| ran  away."},
		{"arc lines", ARC, `{"id": "m", "question": {"stem": "Hot?", "choices": [{"text": "ice", "label": "A"}, {"text": "fire", "label": "B"}]}, "answerKey": "B"}`, ByForm, "harness m Question: Hot?\nAnswer:| ice; *Question: Hot?\nAnswer:| fire"},
		{"arc hub", ARC, `{"id": "m", "question": "Hot?", "choices": {"text": ["ice", "fire"], "label": ["1", "2"]}, "answerKey": "1"}`, Llama, "llama.cpp m *Hot?| ice; Hot?| fire"},
		{"arc csv", ARC, "questionID,AnswerKey,question\nm,B,Hot? (A) ice (B) fire\n", ByForm, "harness m Question: Hot?\nAnswer:| ice; *Question: Hot?\nAnswer:| fire"},
		{"mmlu csv", MMLU, "1+1?,1,2,3,4,B\n", ByForm, "harness 1 1+1?\nA. 1\nB. 2\nC. 3\nD. 4\nAnswer:| A; *…B"},
		{"mmlu lines", MMLU, `{"question": "1+1?", "subject": "easy_maths", "choices": ["1", "2", "3", "4"], "answer": 1}`, ByForm, "harness 1 The following are multiple choice questions (with answers) about easy maths.\n\n1+1?\nA. 1\nB. 2\nC. 3\nD. 4\nAnswer:| A; *…B"},
		{"truthfulqa array", TruthfulQA, `[{"question": "Q1", "mc1_targets": {"yes": 1, "no": 0}, "mc2_targets": {"yes": 1, "aye": 1, "no": 0}}]`, Llama, "llama.cpp 1 *Q1| yes; Q1| no"},
		{"binary", Choice, string(choiceForm([]string{"Q", "a", "b"}, []string{"R", "c", "d"})), ByForm, "llama.cpp 1 *Q| a; Q| b"},
	} {
		name := "data"
		if c.name == "mmlu csv" {
			name = "_test.csv" // without a subject
		}
		d, err := Parse(c.kind, name, []byte(c.data), c.scoring)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		it := d.Items[0]
		got := fmt.Sprintf("%s %s ", d.Scoring, it.ID)
		for i, x := range it.Choices {
			if i > 0 {
				got += "; "
			}
			if it.Right[i] {
				got += "*"
			}
			got += x.Context + "|" + x.Continuation
		}
		if want, mark, cut := strings.Cut(c.want, "*…"); cut {
			if !strings.HasPrefix(got, want) || !strings.Contains(got, "| "+mark) || !it.Right[strings.Index(mmluLetters, mark)] {
				t.Errorf("%s: %q, not %q", c.name, got, c.want)
			}
		} else if got != c.want {
			t.Errorf("%s: %q, not %q", c.name, got, c.want)
		}
	}
}

// TestTruthfulQA: questions have the choices of mc1 and then those of mc2, from either of the publishers' files.
func TestTruthfulQA(t *testing.T) {
	for name, data := range map[string]string{
		"json": `[{"question": "Q1", "mc1_targets": {"yes": 1, "no": 0}, "mc2_targets": {"yes": 1, "aye": 1, "no": 0}}]`,
		"hub":  `{"question": "Q1", "mc1_targets": {"choices": ["yes", "no"], "labels": [1, 0]}, "mc2_targets": {"choices": ["yes", "aye", "no"], "labels": [1, 1, 0]}}`,
		"csv":  "Type,Question,Best Answer,Correct Answers,Incorrect Answers\nx,Q1,yes,aye; yes,no\n",
	} {
		d, err := Parse(TruthfulQA, name, []byte(data), ByForm)
		if err != nil {
			t.Fatal(err)
		}
		it := d.Items[0]
		var texts []string
		for _, c := range it.Choices {
			if !strings.HasSuffix(c.Context, "Spain.\n\nQ: Q1\nA:") {
				t.Errorf("%s: context %q", name, c.Context)
			}
			texts = append(texts, c.Continuation)
		}
		if strings.Join(texts, "") != " yes no yes aye no" || it.First != 2 {
			t.Errorf("%s: %q, first %d", name, texts, it.First)
		}
		a := d.Score(&it, []Likelihood{{-2, 1}, {-1, 1}, {math.Log(0.3), 1}, {math.Log(0.1), 1}, {math.Log(0.2), 1}})
		if a[MC1] != 0 || math.Abs(a[MC2]-0.4/0.6) > 1e-12 {
			t.Errorf("%s: %v", name, a)
		}
	}
}

// What does not fit is refused with its file and line.
func TestRefusals(t *testing.T) {
	whole := choiceForm([]string{"Q", "a", "b"}, []string{"R", "c", "d"})
	moved := append([]byte(nil), whole...)
	moved[8]++
	many := append(append([]byte(nil), whole[:17]...), 0xff, 0xff, 0xff, 0xff) // answers of the first question
	for _, c := range []struct {
		kind Kind
		data string
		want string
	}{
		{Choice, string(many), "f: question 1 at offset 12: it has 4294967295 answers, more than 100"},
		{HellaSwag, "a\n0\nb\nc\nd\n", "f: line 5: the last question has 5 lines, not 6"},
		{HellaSwag, "a\nx\nb\nc\nd\ne", `f: line 2: "x" is not the number of an ending`},
		{HellaSwag, "a\n4\nb\nc\nd\ne", "f: line 2: the right answer is number 5 of 4"},
		{HellaSwag, "{\"ctx\": \"a\", \"label\": 0, \"endings\": [\"b\", \"c\"]}\n\n{\"ctx\":\n", "f: line 3: unexpected end of JSON input"},
		{HellaSwag, `{"question": "x"}`, "f: line 1: a question of HellaSwag has ctx, endings and label"},
		{HellaSwag, "{\"ind\":1,\"ctx\": \"a\", \"label\": 0, \"endings\": [\"b\", \"c\"]}\n{\"ind\":1,\"ctx\": \"a\", \"label\": 0, \"endings\": [\"b\", \"c\"]}", "f: line 2: a question before has the same name, 1"},
		{Winogrande, "0,No blank,a,b,1\n", "f: line 1: the sentence has no _ in the place of a word"},
		{Winogrande, "0,A _.,a,b,1\n0,A _.,a,b,x\n", "f: line 2: the fifth field is 1 or 2, the right choice"},
		{Winogrande, "0,A _.,a,b,3\n", "f: line 1: no choice is right"},
		{Winogrande, "0,A _,a,b\n", "f: line 1: wrong number of fields"},
		{ARC, `{"id": "m", "question": "Q", "choices": {"text": ["a"], "label": ["A", "B"]}, "answerKey": "A"}`, "f: line 1: there are 1 choices with 2 labels"},
		{ARC, "a,b\n1,2\n", `f: line 1: there is no column "questionID"`},
		{MMLU, "q,a,b,c,d,E\n", "f: line 1: the right answer is none of the letters ABCD"},
		{TruthfulQA, `[{"question": "Q", "mc1_targets": {"a": "x"}}]`, `f: line 1: the target "a" has no 1 or 0`},
		{Choice, "text", "f: line 1: this is no form of multiple-choice, which are llama.cpp's binary form"},
		{Choice, string(whole[:len(whole)-5]), "f: question 2 at offset 43: the file ends within it"},
		{Choice, string(moved), "f: question 2 at offset 44: the one before ends at 43"},
		{MMLU, "", "f is empty"},
		{ARC, "[1, 2]", "f: line 1: there is a JSON number where an object belongs"},
		{HellaSwag, `{"ctx": ["a"]}`, "f: line 1: ctx is a JSON array, which does not belong there"},
		{HellaSwag, "a\n0\n\xff\n", "f: line 3: this is neither UTF-8 nor llama.cpp's binary form"},
		{Winogrande, "0,\"A _ b,a,b,1\n", "f: line 1: wrong number of fields"},
		{HumanEval, `{"task_id": "HumanEval/0"}`, "f: line 1: a program of HumanEval has task_id, prompt, entry_point and test"},
		{MBPP, "x", "f: line 1: this is no form of mbpp, which is JSON Lines"},
	} {
		_, err := Parse(c.kind, "f", []byte(c.data), ByForm)
		if err == nil || err.Error() != c.want {
			t.Errorf("%s %.30q: %v, want %q", c.kind, c.data, err, c.want)
		}
	}
	if _, err := Read("nonsense", "f", ByForm); err == nil || !strings.Contains(err.Error(), "humaneval, mbpp") {
		t.Errorf("%v", err)
	}
}

// Which choice wins is the definitions': by sums, by characters, by tokens.
func TestScore(t *testing.T) {
	it := Item{First: 2, Right: []bool{false, true}, Choices: []Text{{"", " a", 1}, {"", " bbbb", 4}}}
	l := []Likelihood{{-2, 1}, {-3, 2}}
	for _, c := range []struct {
		kind    Kind
		scoring Scoring
		want    string
	}{
		{ARC, Harness, "map[acc:0 acc_norm:1]"},
		{ARC, Llama, "map[acc_norm:1]"},
		{Winogrande, Harness, "map[acc:0]"},
		{Winogrande, Llama, "map[acc:1]"},
		{MMLU, Harness, "map[acc:0]"},
		{TruthfulQA, Harness, "map[mc1:0]"},
	} {
		d := Data{Kind: c.kind, Scoring: c.scoring}
		if got := fmt.Sprint(d.Score(&it, l)); got != c.want {
			t.Errorf("%s by %s: %s, not %s", c.kind, c.scoring, got, c.want)
		}
	}
}

// The interval of 95 % contains the true share about as often as it says; of other values it is that of the mean.
func TestIntervals(t *testing.T) {
	const seed, runs = 3, 2000
	r := rand.New(rand.NewPCG(seed, 0))
	for _, p := range []float64{0.1, 0.5} {
		hits := 0
		for range runs {
			values := make([]float64, 60)
			for i := range values {
				if r.Float64() < p {
					values[i] = 1
				}
			}
			if f := Mean(values); f.Low <= p && p <= f.High {
				hits++
			}
		}
		if share := float64(hits) / runs; share < 0.93 || share > 0.975 {
			t.Errorf("seed %d: intervals contain %g in %g of runs", seed, p, share)
		}
	}
	if f := Mean([]float64{0.5, 0.25, 0.75}); f.Method != "normal" || math.Abs(f.High-f.Value-z95*0.25/math.Sqrt(3)) > 1e-12 {
		t.Errorf("%+v", f)
	}
	if f := Mean([]float64{1, 1, 0}); math.Abs(f.Low-0.20766) > 1e-5 || math.Abs(f.High-0.938508) > 1e-6 { // llama.cpp prints these
		t.Errorf("%+v", f)
	}
}

// pass@k is 1 − C(n−c, k)/C(n, k): the share of the sets of k of n programs with a right one in them, which are counted
// here.
func TestPassAt(t *testing.T) {
	for n := 1; n <= 9; n++ {
		for c := 0; c <= n; c++ {
			for k := 1; k <= n; k++ {
				hit, all := 0, 0
				for set := range 1 << n {
					size, right := 0, false
					for i := range n {
						if set>>i&1 == 1 {
							size++
							right = right || i < c
						}
					}
					if size == k {
						all++
						if right {
							hit++
						}
					}
				}
				if want := float64(hit) / float64(all); math.Abs(PassAt(n, c, k)-want) > 1e-12 {
					t.Errorf("n %d, c %d, k %d: %g, not %g", n, c, k, PassAt(n, c, k), want)
				}
			}
		}
	}
	for _, c := range [][3]int64{{200, 0, 1}, {200, 1, 100}, {200, 37, 10}, {200, 150, 100}, {200, 199, 1}, {200, 200, 200}, {1000, 3, 400}} { // by the definition, exactly
		n, right, k := c[0], c[1], c[2]
		all, miss := new(big.Int).Binomial(n, k), new(big.Int)
		if n-right >= k {
			miss.Binomial(n-right, k)
		}
		want, _ := new(big.Rat).SetFrac(all.Sub(all, miss), new(big.Int).Binomial(n, k)).Float64()
		if got := PassAt(int(n), int(right), int(k)); math.Abs(got-want) > 1e-12 {
			t.Errorf("n %d, c %d, k %d: %.15f, not %.15f", n, right, k, got, want)
		}
	}
	f := PassEstimates(map[string]int{"a": 10, "b": 4}, map[string]int{"a": 10}, []int{1, 4, 5})
	if len(f) != 2 || f["pass@1"].Value != 0.5 || f["pass@4"].Value != 0.5 {
		t.Errorf("%v", f)
	}
}

// TestSamples: only the same run continues samples, after the last complete line, and they are HumanEval's own lines.
func TestSamples(t *testing.T) {
	path := filepath.Join(t.TempDir(), "samples.jsonl")
	run := Run{Task: HumanEval, Model: "m", Data: "d", Options: map[string]string{"temp": "0", Fingerprint: "f"}}
	add := func(id string) {
		t.Helper()
		s, err := OpenSamples(path, run)
		if err != nil {
			t.Fatal(err)
		}
		text := "    return <1>\n"
		if err := s.Add(Sample{ID: id, Completion: &text}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	add("HumanEval/0")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"task_id": "cut`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	add("HumanEval/1")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	for i, line := range lines {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil || v["task_id"] != fmt.Sprintf("HumanEval/%d", i) || v["completion"] != "    return <1>\n" {
			t.Errorf("line %d: %s", i+1, line)
		}
	}
	if len(lines) != 2 || strings.Count(string(data), `"run"`) != 1 {
		t.Errorf("%s", data)
	}
	for want, change := range map[string]func(*Run){
		`with temp "0", not "1"`: func(r *Run) { r.Options = map[string]string{"temp": "1", Fingerprint: "g"} },
		`with temp "0", not ""`:  func(r *Run) { r.Options = map[string]string{Fingerprint: "f"} },
		`with k "", not "v"`:     func(r *Run) { r.Options = map[string]string{"temp": "0", Fingerprint: "f", "k": "v"} },
		"with another k": func(r *Run) {
			r.Options = map[string]string{"temp": "0", Fingerprint: "f", "k": strings.Repeat("v", 50)}
		},
		`fingerprint "f", not "g"`: func(r *Run) { r.Options = map[string]string{"temp": "0", Fingerprint: "g"} },
		"of the model m":           func(r *Run) { r.Model = "n" },
		"with other data":          func(r *Run) { r.Data = "e" },
		"of the task humaneval":    func(r *Run) { r.Task = MBPP },
	} {
		other := run
		change(&other)
		if _, err := OpenSamples(path, other); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if all, _, err := ReadSamples("x", []byte("{\"task_id\": 11, \"completion\": \"y\"}\n")); err != nil || all[0].ID != "11" {
		t.Errorf("%v %v", all, err)
	}
	for _, line := range []string{`{"task_id": "a"}`, `{"task_id": null, "completion": "y"}`} {
		if _, _, err := ReadSamples("x", []byte(line+"\n")); err == nil || err.Error() != "x: line 1: a sample has task_id and completion" {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// A file that is not one of samples is left as it is, and two runs do not write to the same.
func TestSamplesRefused(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "samples.jsonl")
	run := Run{Task: ARC, Model: "m", Data: "d"}
	for text, want := range map[string]string{
		`{"a": 1}`:           "is no file of samples",
		"text":               "is no file of samples",
		"{\"a\": 1}\n":       "line 1: a sample has task_id and completion",
		"{\"task_id\": \n":   "line 1: unexpected end of JSON input",
		"\x00\x00\x00\x00\n": "line 1: invalid character",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenSamples(path, run); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if after, err := os.ReadFile(path); string(after) != text {
			t.Errorf("%q became %q, %v", text, after, err)
		}
	}
	for _, text := range []string{"", "{", `{"run":{"task":"arc","mod`, "\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := OpenSamples(path, run)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if runtime.GOOS != "windows" {
			if _, err := OpenSamples(path, run); err == nil || !strings.Contains(err.Error(), "another run is writing to") {
				t.Errorf("opened twice: %v", err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := CheckSamples(folder); err == nil || !strings.Contains(err.Error(), "is no regular file") {
		t.Errorf("%v", err)
	}
	if err := CheckSamples(filepath.Join(folder, "no", "such")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if err := CheckSamples(filepath.Join(folder, "new")); err != nil {
		t.Error(err)
	}
	if entries, _ := os.ReadDir(folder); len(entries) != 1 {
		t.Errorf("%v are there", entries)
	}
}
