//go:build soak

package server_test

import (
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
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// What the soak does.
const (
	soakClients = 8
	soakGrowth  = 1.05 // of the resident memory after the first minutes
	soakSample  = 2 * time.Second
)

// TestSoak has eight clients ask for texts by schemas and grammars that all differ, and leave at random, for SOAKTIME (10
// minutes): the server's resident memory must not grow after the first third. make soak runs it; it needs Linux.
func TestSoak(t *testing.T) {
	lasts, err := time.ParseDuration(os.Getenv("SOAKTIME"))
	if err != nil {
		lasts = 10 * time.Minute
	}
	server := startSoaked(t)
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	var asked, cancelled, refused atomic.Int64
	var clients sync.WaitGroup
	for i := range soakClients {
		clients.Go(func() {
			c := soakClient{server: server.address, r: rand.New(rand.NewPCG(30, uint64(i)))}
			for ctx.Err() == nil {
				status, err := c.ask(ctx)
				asked.Add(1)
				switch {
				case err != nil && ctx.Err() == nil && !c.left:
					t.Errorf("client %d: %v", i, err)
					return
				case err != nil:
					cancelled.Add(1)
				case status >= 500 && status != http.StatusServiceUnavailable:
					t.Errorf("client %d: status %d", i, status)
				case status != http.StatusOK:
					refused.Add(1)
				}
			}
		})
	}
	var rss []int // KiB
	begin := time.Now()
	for tick := time.NewTicker(soakSample); ctx.Err() == nil; <-tick.C {
		rss = append(rss, server.resident(t))
		if n := len(rss); n%15 == 0 {
			t.Logf("%4.0f s: %d MiB, %d requests, %d left, %d refused", time.Since(begin).Seconds(), rss[n-1]>>10, asked.Load(), cancelled.Load(), refused.Load())
		}
	}
	clients.Wait()
	third := len(rss) / 3
	if third == 0 {
		t.Fatal("the soak is too short")
	}
	// Medians of many samples: single ones swing with the garbage collector.
	before, after := median(rss[third:2*third]), median(rss[2*third:])
	t.Logf("%d requests, %d left, %d refused: %d MiB in the second third, %d MiB in the last, at most %d MiB", asked.Load(), cancelled.Load(), refused.Load(), before>>10, after>>10, slices.Max(rss)>>10)
	if float64(after) > soakGrowth*float64(before) {
		t.Errorf("the resident memory grew from %d to %d KiB", before, after)
	}
}

func median(values []int) int {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// soaked is a server in its own process.
type soaked struct {
	address string
	pid     int
}

func startSoaked(t *testing.T) soaked {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "powerinfer")
	build := exec.Command("go", "build", "-o", binary, "github.com/powerinfer-go/powerinfer/cmd/powerinfer")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	_, port, _ := net.SplitHostPort(address)
	serve := exec.Command(binary, "serve", "--port", port, "--parallel", "4")
	serve.Stderr = io.Discard
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		serve.Process.Kill()
		serve.Wait()
	})
	for range 200 {
		if r, err := http.Get("http://" + address + "/health"); err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return soaked{address, serve.Process.Pid}
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("the server did not start")
	return soaked{}
}

// resident returns the process's resident memory in KiB.
func (s soaked) resident(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
	if err != nil {
		t.Fatalf("the server has ended: %v", err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

type soakClient struct {
	server string
	r      *rand.Rand
	left   bool // the client left in the middle of its last request
}

// ask sends a request, reads the answer, or leaves before it is complete.
func (c *soakClient) ask(ctx context.Context) (status int, err error) {
	path, body := c.request()
	text, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	if c.left = c.r.IntN(3) == 0; c.left {
		var leave context.CancelFunc
		ctx, leave = context.WithTimeout(ctx, time.Duration(c.r.IntN(400))*time.Millisecond)
		defer leave()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.server+path, bytes.NewReader(text))
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}

// request returns a request that was never made before.
func (c *soakClient) request() (path string, body map[string]any) {
	stream := c.r.IntN(2) == 0
	switch c.r.IntN(6) {
	case 0:
		return "/completion", map[string]any{"prompt": c.word(), "n_predict": 1 + c.r.IntN(40), "grammar": c.gbnf(), "stream": stream}
	case 1:
		var tools []any
		for range 1 + c.r.IntN(8) {
			tools = append(tools, map[string]any{"type": "function", "function": map[string]any{"name": c.word(), "parameters": c.object(2)}})
		}
		return "/v1/chat/completions", map[string]any{
			"messages": []any{map[string]any{"role": "user", "content": c.word()}}, "tools": tools, "tool_choice": "required",
			"max_tokens": 1 + c.r.IntN(40), "stream": stream,
		}
	}
	return "/completion", map[string]any{"prompt": c.word(), "n_predict": 1 + c.r.IntN(40), "json_schema": c.object(3), "stream": stream}
}

func (c *soakClient) word() string { return fmt.Sprintf("w%x", c.r.Uint32()) }

// object returns the schema of an object with properties of all kinds; some are too large.
func (c *soakClient) object(depth int) map[string]any {
	properties := map[string]any{}
	var names []string
	for range 1 + c.r.IntN(6) {
		name := c.word()
		names = append(names, name)
		properties[name] = c.schema(depth)
	}
	return map[string]any{"type": "object", "properties": properties, "required": names[:c.r.IntN(len(names)+1)]}
}

func (c *soakClient) schema(depth int) map[string]any {
	switch k := c.r.IntN(10); {
	case k == 0 && depth > 0:
		return c.object(depth - 1)
	case k == 1 && depth > 0:
		return map[string]any{"type": "array", "items": c.schema(depth - 1), "maxItems": c.r.IntN(1000)}
	case k == 2 && depth > 0:
		return map[string]any{"anyOf": []any{c.schema(depth - 1), c.schema(depth - 1)}}
	case k == 3:
		return map[string]any{"type": "integer", "minimum": c.r.IntN(1000), "maximum": 1000 + c.r.IntN(1_000_000)}
	case k == 4:
		var values []any
		for range 1 + c.r.IntN(200) {
			values = append(values, c.word())
		}
		return map[string]any{"enum": values}
	case k == 5:
		return map[string]any{"type": "string", "pattern": fmt.Sprintf(`^(\p{L}|\p{N}|%d){0,%d}$`, c.r.IntN(5000), c.r.IntN(1000))}
	case k == 6:
		return map[string]any{"type": "string", "pattern": fmt.Sprintf(`^[a-z]{%d,%d}-%s$`, c.r.IntN(10), 10+c.r.IntN(300), c.word())}
	case k == 7:
		return map[string]any{"type": "string", "format": "date-time"}
	}
	return map[string]any{"type": "string", "maxLength": 1 + c.r.IntN(2000)}
}

// gbnf returns a grammar, perhaps an ambiguous one.
func (c *soakClient) gbnf() string {
	return fmt.Sprintf("root ::= \"%s\" (a | b)* \"%s\"\na ::= [a-z]{1,%d} | \"x\" root?\nb ::= [^%c]{%d,2000} | [0-9]+ \"%s\"\n",
		c.word(), c.word(), 1+c.r.IntN(50), 'a'+rune(c.r.IntN(26)), 1+c.r.IntN(9), c.word())
}
