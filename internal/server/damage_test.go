package server_test

import (
	"bufio"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// damaged returns a body that is broken somewhere, or in which something is far out of range.
func damaged(r *rand.Rand, body string) string {
	switch r.IntN(6) {
	case 0:
		return body[:r.IntN(len(body))]
	case 1:
		return strings.Replace(body, `"A"`, strings.Repeat("[", 300+r.IntN(30000)), 1)
	case 2:
		return strings.Replace(body, `"A"`, "\"\xff\xfe\"", 1)
	case 3:
		return strings.Replace(body, "3", "1e"+strings.Repeat("9", 1+r.IntN(400)), 1)
	case 4:
		b := []byte(body)
		b[r.IntN(len(b))] = byte(r.IntN(256))
		return string(b) + "]"
	}
	return strings.Replace(body, `"A"`, `{"A":{}}`, 1)
}

// damageable are requests of all routes that read a body. Each has a text "A" and a number 3, and no other.
var damageable = []struct{ path, body string }{
	{"/completion", `{"prompt":"A","n_predict":3,"temperature":0.3}`},
	{"/v1/completions", `{"prompt":"A","max_tokens":3}`},
	{"/v1/chat/completions", `{"messages":[{"role":"user","content":"A"}],"max_tokens":3}`},
	{"/v1/chat/completions/input_tokens", `{"messages":[{"role":"user","content":"A"}],"top_k":3}`},
	{"/v1/responses", `{"input":"A","max_output_tokens":3}`},
	{"/v1/responses/input_tokens", `{"input":"A","max_output_tokens":3}`},
	{"/v1/messages", `{"messages":[{"role":"user","content":"A"}],"max_tokens":3}`},
	{"/v1/embeddings", `{"input":"A","dimensions":3}`},
	{"/tokenize", `{"content":"A","with_pieces":3}`},
	{"/apply-template", `{"messages":[{"role":"user","content":"A"}],"x":3}`},
	{"/api/generate", `{"prompt":"A","stream":false,"options":{"num_predict":3}}`},
	{"/api/chat", `{"messages":[{"role":"user","content":"A"}],"stream":false,"options":{"num_predict":3}}`},
}

// damagedRequests returns how many are sent: few, or as many as the variable POWERINFER_DAMAGED says.
func damagedRequests(t *testing.T) int {
	n := 400
	if v := os.Getenv("POWERINFER_DAMAGED"); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil {
			t.Fatalf("POWERINFER_DAMAGED: %v", err)
		}
	}
	return n
}

// stall begins a request, waits and goes.
func (l *live) stall(t *testing.T) {
	c, err := net.Dial("tcp", strings.TrimPrefix(l.url, "http://"))
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	io.WriteString(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"mess")
	time.Sleep(300 * time.Millisecond)
}

// TestDamagedRequests: they are refused, none by a 5xx, while a stream goes on to the same text as without them.
func TestDamagedRequests(t *testing.T) {
	l := start(t, nil)
	const stream = `{"prompt":"Once upon a time","n_predict":300,"temperature":0,"ignore_eos":true,"cache_prompt":false,"stream":true}`
	read := func() string {
		res := l.request(t.Context(), "POST", "/completion", stream)
		defer res.Body.Close()
		docs, _ := events(t, res.Body)
		text := ""
		for _, d := range docs {
			text += d["content"].(string)
		}
		return text
	}
	want := read()
	var slow sync.WaitGroup
	for range 20 { // clients that stop within their request
		slow.Go(func() { l.stall(t) })
	}
	streamed := make(chan string)
	go func() { streamed <- read() }()
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range damagedRequests(t) {
		k := damageable[i%len(damageable)]
		body := damaged(r, k.body)
		res := l.request(t.Context(), "POST", k.path, body)
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode < 400 || res.StatusCode > 499 || !strings.Contains(string(text), `"error"`) {
			t.Fatalf("seed %d: %s %.200q: status %d: %.200s", seed, k.path, body, res.StatusCode, text)
		}
	}
	slow.Wait()
	if got := <-streamed; got != want || got == "" {
		t.Errorf("seed %d: the stream was disturbed: %q, want %q", seed, got, want)
	}
}

// TestLargeBodies: a body above the limit is refused without being kept.
func TestLargeBodies(t *testing.T) {
	l := start(t, nil)
	res, err := http.Post(l.url+"/tokenize", "application/json", io.MultiReader(strings.NewReader(`{"content":"`), strings.NewReader(strings.Repeat("a", 33<<20))))
	if err != nil {
		return // the server may close the connection while the client still sends
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", res.StatusCode)
	}
}

// TestSlowBodies: a body that does not come in time is refused.
func TestSlowBodies(t *testing.T) {
	l := start(t, func(o *choices) { o.Timeout = 100 * time.Millisecond })
	c, err := net.Dial("tcp", strings.TrimPrefix(l.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "POST /completion HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
	c.SetReadDeadline(time.Now().Add(10 * time.Second))
	line, err := bufio.NewReader(c).ReadString('\n')
	if !strings.Contains(line, "408") {
		t.Errorf("a slow body is answered by %q: %v", line, err)
	}
}
