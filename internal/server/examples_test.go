package server_test

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"testing"
)

// TestExamples: the requests in docs/server.md succeed.
func TestExamples(t *testing.T) {
	l := start(t, nil)
	text, err := os.ReadFile("../../docs/server.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile(`(?m)^curl http://127\.0\.0\.1:8080(/\S+) -d '(.*)'$`).FindAllSubmatch(text, -1)
	if len(examples) < 8 {
		t.Fatalf("docs/server.md has only %d examples", len(examples))
	}
	for _, e := range examples {
		res := l.request(t.Context(), "POST", string(e[1]), string(e[2]))
		answer, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK || len(answer) == 0 {
			t.Errorf("%s %s: status %d: %v: %s", e[1], e[2], res.StatusCode, err, answer)
		}
	}
}
