package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// soaking configures TestSoakOnDisk. To run it longer, with a larger model, in a control group of its own:
//
//	SOAKTIME=30m SOAKMODEL=experts.gguf SOAKBUDGET=1.2 SOAKGROUP=/sys/fs/cgroup/memory/soak go test ./cmd/powerinfer -run TestSoakOnDisk -v -timeout 2h
type soaking struct {
	time   time.Duration // 0: a fixed number of requests
	model  string
	budget string // --ram-budget
	group  string // folder of the server's control group (v1); empty: none
}

const (
	soakClients  = 4
	soakRequests = 8 // of each client, unless a time is given
	soakPrompts  = 12
	soakTokens   = 24 // of an answer, at most
	soakSlots    = 3
)

func newSoaking(t *testing.T) soaking {
	s := soaking{model: os.Getenv("SOAKMODEL"), budget: os.Getenv("SOAKBUDGET"), group: os.Getenv("SOAKGROUP")}
	if lasts := os.Getenv("SOAKTIME"); lasts != "" {
		var err error
		if s.time, err = time.ParseDuration(lasts); err != nil {
			t.Fatal(err)
		}
	}
	if s.model == "" {
		s.model, s.budget = filepath.Join(t.TempDir(), "experts.gguf"), "0.1"
		if err := synth.Write(t.Context(), s.model, synth.Spec{
			Arch: "qwen3moe", Type: quant.Q4_0, Layers: 3, Embd: 512, FF: 384, Experts: 128, Used: 4, Heads: 4,
			Vocab: 512, Context: 512, Mixing: synth.Mixing{ExpertLaw: 1}, Activation: "silu", Seed: 5,
		}, nil); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// soaked is a server in its own process.
type soaked struct {
	t      *testing.T
	cmd    *exec.Cmd
	socket string
	log    bytes.Buffer
}

// serve starts a server of the model.
func (s *soaking) serve(t *testing.T, group string, args ...string) *soaked {
	t.Helper()
	program, err := exec.LookPath("powerinfer")
	if err != nil {
		t.Fatal(err)
	}
	v := &soaked{t: t, socket: filepath.Join(t.TempDir(), "s.sock")}
	all := append([]string{"serve", "-m", s.model, "--host", v.socket, "--device", "none", "-t", "1", "-c", "512", "--parallel", strconv.Itoa(soakSlots), "--metrics"}, args...)
	v.cmd = exec.Command(program, all...)
	if group != "" {
		v.cmd = exec.Command("sh", append([]string{"-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, group, program}, all...)...)
	}
	v.cmd.Env, v.cmd.Stderr = append(os.Environ(), "POWERINFER_PATIENCE="+hung), &v.log
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.stop)
	testenv.Eventually(t, "the server's health", func() bool {
		if v.cmd.ProcessState != nil || v.status("State") == "Z (zombie)" {
			v.stop()
			t.Fatalf("the server ended: %s", &v.log)
		}
		res, err := v.client().Get("http://x/health")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	return v
}

func (v *soaked) stop() {
	if v.cmd.ProcessState == nil {
		_ = v.cmd.Process.Signal(os.Interrupt)
		_ = v.cmd.Wait()
	}
}

// client returns a client whose connections end with its requests.
func (v *soaked) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", v.socket)
	}}}
}

// status returns a line of the process's status.
func (v *soaked) status(name string) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.cmd.Process.Pid))
	_, rest, _ := strings.Cut(string(text), "\n"+name+":")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

// peak returns the largest resident memory in bytes, without pages of the program's file, which the system may drop.
func (v *soaked) peak() int64 {
	kib := func(name string) int64 {
		n, err := strconv.ParseInt(strings.TrimSuffix(v.status(name), " kB"), 10, 64)
		if err != nil {
			v.t.Fatal(err)
		}
		return n
	}
	return (kib("VmHWM") - kib("RssFile")) << 10
}

// open returns the number of descriptors.
func (v *soaked) open() int {
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", v.cmd.Process.Pid))
	if err != nil {
		v.t.Fatal(err)
	}
	return len(list)
}

// metric returns a sample of the server's metrics, with its labels.
func (v *soaked) metric(name string) float64 {
	res, err := v.client().Get("http://x/metrics")
	if err != nil {
		v.stop()
		v.t.Fatalf("%v; the server, %v, said:\n%s", err, v.cmd.ProcessState, &v.log)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (.*)$`).FindSubmatch(text)
	if found == nil {
		v.t.Fatalf("no metric %s in\n%s", name, text)
	}
	n, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		v.t.Fatal(err)
	}
	return n
}

// question is a request's body and its expected answer.
type question struct {
	body   string
	answer string
}

// ask sends a question and returns the answer. It disconnects after most events unless most is negative.
func (v *soaked) ask(ctx context.Context, q *question, most int) (answer string, err error) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	r, err := http.NewRequestWithContext(ctx, "POST", "http://x/completion", strings.NewReader(q.body))
	if err != nil {
		return "", err
	}
	res, err := v.client().Do(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body)
		return "", fmt.Errorf("status %d: %s", res.StatusCode, text)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for events := 0; lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if events++; events == most {
			return answer, nil
		}
		var e struct {
			Content string
			Error   any
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return "", fmt.Errorf("%w: %s", err, data)
		}
		if e.Error != nil {
			return "", fmt.Errorf("an error in the stream: %s", data)
		}
		answer += e.Content
	}
	return answer, lines.Err()
}

// report prints the progress every minute until ctx ends.
func (v *soaked) report(ctx context.Context, done, left *atomic.Int64) {
	for tick := time.NewTicker(time.Minute); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			v.t.Logf("%s: %d answers, %d left, %s resident, %d descriptors", time.Now().Format(time.TimeOnly), done.Load(), left.Load(), v.status("VmRSS"), v.open())
		}
	}
}

// TestSoakOnDisk: a server with a model twice as large as its memory limit has four clients. They ask different
// questions and often disconnect early. Every complete answer equals that of a server without a limit. Memory stays
// within the limit, and nothing of disconnected clients remains.
func TestSoakOnDisk(t *testing.T) {
	s := newSoaking(t)
	var questions []question
	for i := range soakPrompts {
		text := strings.Repeat(fmt.Sprintf("%d foxes met %d kings. ", i, i*i), 1+i%5)
		questions = append(questions, question{body: fmt.Sprintf(`{"prompt":%q,"n_predict":%d,"temperature":0,"ignore_eos":true,"stream":true}`, text, 4+i*(soakTokens-4)/soakPrompts)})
	}
	whole := s.serve(t, "")
	for i := range questions {
		var err error
		if questions[i].answer, err = whole.ask(t.Context(), &questions[i], -1); err != nil || questions[i].answer == "" {
			t.Fatalf("%q, %v", questions[i].answer, err)
		}
	}
	inRAM := whole.peak()
	whole.stop()

	v := s.serve(t, s.group, "--ram-budget", s.budget)
	gib, err := strconv.ParseFloat(s.budget, 64)
	if err != nil {
		t.Fatal(err)
	}
	limit := int64(gib * (1 << 30))
	if _, err := v.ask(t.Context(), &questions[0], -1); err != nil {
		t.Fatal(err)
	}
	goroutines, open := v.metric("go_goroutines"), v.open()

	var done, left atomic.Int64
	began := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if s.time > 0 {
		time.AfterFunc(s.time, cancel)
		go v.report(ctx, &done, &left)
	}
	var clients sync.WaitGroup
	seed := testenv.Seed(t)
	for i := range soakClients {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		clients.Go(func() {
			for n := 0; ctx.Err() == nil && (s.time > 0 || n < soakRequests); n++ {
				q, most := &questions[r.IntN(len(questions))], -1
				if r.IntN(3) == 0 {
					most = r.IntN(soakTokens / 2)
				}
				switch answer, err := v.ask(ctx, q, most); {
				case ctx.Err() != nil:
				case err != nil:
					t.Errorf("client %d: %v", i, err)
					return
				case most >= 0 && answer != q.answer:
					left.Add(1)
					if !strings.HasPrefix(q.answer, answer) {
						t.Errorf("client %d: the answer begins with %q, in RAM it is %q", i, answer, q.answer)
					}
				case answer != q.answer:
					t.Errorf("client %d: the answer is %q, in RAM it is %q", i, answer, q.answer)
				default:
					done.Add(1)
				}
			}
		})
	}
	clients.Wait()
	took := time.Since(began)

	testenv.Eventually(t, "all that the clients took is given back", func() bool {
		return v.metric("powerinfer_requests_running")+v.metric("powerinfer_requests_waiting") == 0 &&
			v.metric("go_goroutines") <= goroutines && v.open() <= open
	})
	peak, disk := v.peak(), v.metric("powerinfer_disk_read_bytes_total")
	t.Logf("%d complete answers and %d that were left in %.0f s; %.1f MB read, %.0f %% of uses in RAM; %d MiB resident at most of %d (without limit %d)",
		done.Load(), left.Load(), took.Seconds(), disk/1e6, 100*v.metric("powerinfer_unit_hits_ratio"), peak>>20, limit>>20, inRAM>>20)
	if peak > limit {
		t.Errorf("%d bytes were resident, and %d are allowed", peak, limit)
	}
	if done.Load() == 0 || disk == 0 || inRAM <= limit {
		t.Error("nothing was tried")
	}
	if s.group != "" {
		for _, name := range []string{"memory.max_usage_in_bytes", "memory.failcnt", "memory.stat"} {
			text, err := os.ReadFile(filepath.Join(s.group, name))
			t.Logf("%s: %s %v", name, bytes.TrimSpace(text), err)
		}
	}
	v.stop()
	for line := range strings.Lines(v.log.String()) {
		if strings.Contains(line, "level=ERROR") || strings.Contains(line, "panic") || strings.Contains(line, "DATA RACE") {
			t.Errorf("the server's log: %s", line)
		}
	}
}
