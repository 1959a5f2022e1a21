package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// compileTurns is how many may compile at a time.
func compileTurns() int { return max(1, runtime.GOMAXPROCS(0)/4) }

// occupy makes others compile, as many as allowed, until free is called.
func (l *live) occupy() (free func()) {
	l.t.Helper()
	var ends []func()
	for i := range compileTurns() {
		end, err := l.m.BeginCompiling(l.t.Context(), fmt.Sprint("another client ", i))
		if err != nil {
			l.t.Fatal(err)
		}
		ends = append(ends, end)
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// schemaOf is a completion by a schema with a pattern, which differs from number to number.
func schemaOf(i int) string {
	return fmt.Sprintf(`{"prompt":"a","n_predict":2,"json_schema":{"type":"string","pattern":"^(\\p{L}|\\p{N}|%d){0,990}$"}}`, 1000+i)
}

// TestCompilingEndsWithItsClient: when a client leaves, its place in the queue and its compilation end.
func TestCompilingEndsWithItsClient(t *testing.T) {
	l := start(t, nil)
	free := l.occupy()
	var leave []context.CancelFunc
	left := make(chan error, 3)
	for i := range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		leave = append(leave, cancel)
		go func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+"/completion", strings.NewReader(schemaOf(i)))
			if err == nil {
				var answer *http.Response
				if answer, err = http.DefaultClient.Do(r); err == nil {
					answer.Body.Close()
				}
			}
			left <- err
		}()
	}
	eventually(t, "three wait", func() bool { return l.m.WaitToCompile() == 3 })
	for _, cancel := range leave {
		cancel()
	}
	for range leave {
		if err := <-left; err == nil {
			t.Error("a request that was given up has an answer")
		}
	}
	eventually(t, "nobody waits", func() bool { return l.m.WaitToCompile() == 0 })
	free()
	if n := l.m.Compiled(); n != 0 {
		t.Errorf("%d grammars were compiled for nobody", n)
	}
}

// TestCompilingHoldsUpOnlyThoseWhoCompile: while others compile, requests without a new grammar are answered.
func TestCompilingHoldsUpOnlyThoseWhoCompile(t *testing.T) {
	l := start(t, nil)
	known := `{"prompt":"a","n_predict":2,"json_schema":{"type":"boolean"}}`
	l.good("/completion", known)
	free := l.occupy()
	defer free()
	l.good("/completion", `{"prompt":"a","n_predict":2}`)
	l.good("/completion", known)
}

// TestCompilingWaitsInTheQueue: waiting for a turn counts for the queue's limit.
func TestCompilingWaitsInTheQueue(t *testing.T) {
	l := start(t, func(o *choices) { o.model.Slots, o.model.Queue = 1, 1 })
	free := l.occupy()
	done := make(chan int, 2)
	for i := range 2 {
		go func() {
			_, status := l.ask("/completion", schemaOf(i))
			done <- status
		}()
	}
	eventually(t, "two wait", func() bool { return l.m.WaitToCompile() == 2 })
	if doc, status := l.ask("/completion", schemaOf(2)); status != http.StatusServiceUnavailable {
		t.Errorf("a third is answered with %d, %v", status, doc)
	}
	free()
	for range 2 {
		if status := <-done; status != http.StatusOK {
			t.Errorf("one that waited is answered with %d", status)
		}
	}
}

// TestClientsCompileInTurn: a client with many new grammars comes after one with a single grammar.
func TestClientsCompileInTurn(t *testing.T) {
	l := start(t, nil)
	free := l.occupy()
	order := make(chan string, 10)
	wait := func(client string) {
		n := l.m.WaitToCompile()
		go func() {
			end, err := l.m.BeginCompiling(t.Context(), client)
			if err != nil {
				t.Error(err)
				return
			}
			order <- client
			end()
		}()
		eventually(t, client+" waits", func() bool { return l.m.WaitToCompile() == n+1 })
	}
	for range 5 {
		wait("greedy")
	}
	wait("modest")
	free()
	before := 0
	for client := range order {
		if client == "modest" {
			break
		}
		before++
	}
	if before > 1 {
		t.Errorf("%d grammars of the greedy client were compiled first", before)
	}
	for range 5 - before {
		<-order
	}
}

// TestHostileSchemasAreRefusedByName: in every form of request with a schema, an expensive schema is an error that
// names the place.
func TestHostileSchemasAreRefusedByName(t *testing.T) {
	l := start(t, nil)
	pattern := `{"type":"object","properties":{"name":{"type":"string","pattern":"^(\\p{L}|\\p{N}|1000){0,990}$"}},"required":["name"]}`
	var defs []string
	for i := range 31 {
		defs = append(defs, fmt.Sprintf(`"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}`, i, i+1, i+1))
	}
	doubling := `{"$ref":"#/$defs/a0","$defs":{` + strings.Join(defs, ",") + `,"a31":{"type":"object"}}}`
	message := `"max_tokens":3,"messages":[{"role":"user","content":"a"}]`
	for name, c := range map[string]struct{ path, body, want string }{
		"strict":   {"/v1/chat/completions", `{` + message + `,"response_format":{"type":"json_schema","json_schema":{"name":"a","strict":true,"schema":` + pattern + `}}}`, "#/properties/name: the pattern"},
		"schema":   {"/completion", `{"prompt":"a","n_predict":3,"json_schema":` + doubling + `}`, "#/$defs/a"},
		"format":   {"/v1/chat/completions", `{` + message + `,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":` + doubling + `}}}`, "#/$defs/a"},
		"tool":     {"/v1/chat/completions", `{` + message + `,"tool_choice":"required","tools":[{"type":"function","function":{"name":"huge","parameters":` + doubling + `}}]}`, "the tool huge"},
		"grammar":  {"/completion", `{"prompt":"a","n_predict":3,"grammar":"root ::= ` + strings.Repeat("a ", 1_900_000) + `\na ::= \"a\""}`, "line 1, column"},
		"triggers": {"/completion", `{"prompt":"a","n_predict":3,"grammar":"root ::= \"a\"","grammar_lazy":true,"grammar_triggers":[` + strings.Repeat(`{"type":1,"value":"b"},`, 2000) + `{"type":1,"value":"b"}]}`, "grammar_triggers has 2001 elements"},
	} {
		doc, status := l.ask(c.path, c.body)
		text, _ := json.Marshal(doc)
		if status != http.StatusBadRequest || !strings.Contains(string(text), c.want) {
			t.Errorf("%s: %d, %.400s", name, status, text)
		}
	}
	// Without strict, a schema that is too large constrains nothing, and the log says so.
	l.good("/completion", `{"prompt":"a","n_predict":3,"json_schema":`+pattern+`}`)
	if !strings.Contains(l.logs.String(), "the repetition {0,990}") {
		t.Error("the log does not name the repetition that is too large")
	}
}
