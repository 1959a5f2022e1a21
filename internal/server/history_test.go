package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/server"
)

func TestDescribed(t *testing.T) {
	for part, want := range map[string]string{
		`{"type":"web_search_call","id":"a","status":"completed","action":{"type":"search","query":"old kings","queries":["x","y"]}}`: "[web_search_call: query: old kings; queries: x; queries: y]",
		`{"type":"note","text":"so","content":[{"type":"text","text":" it is "}]}`:                                                    "[note: so; it is]",
		`{"stdout":"","stderr":"no","outcome":{"exit_code":2,"took":7}}`:                                                              "[stderr: no; exit_code: 2]",
		`{"type":"compaction","encrypted_content":"gAAAA","call_id":"b"}`:                                                             "",
		`{"type":"input_image","image_url":"data:image/png;base64,AAAA"}`:                                                             "[input_image that cannot be shown]",
		`{"type":"image_generation_call","result":"` + strings.Repeat("A", 5000) + `"}`:                                               "",
		`{"type":5,"text":"so"}`: "[so]",
		`5`:                      "",
		`"so"`:                   "[so]",
	} {
		if got := server.Described(json.RawMessage(part)); got != want {
			t.Errorf("%.80s: got %q, want %q", part, got, want)
		}
	}
}

func TestTextFile(t *testing.T) {
	for url, want := range map[string]string{
		"data:text/plain;base64,aGVsbG8=":              "hello",
		"data:text/markdown;charset=utf-8;base64,Iw==": "#",
		"data:application/json;base64,e30=":            "{}",
		"data:application/pdf;base64,aGVsbG8=":         "",
		"data:text/plain;base64,%%":                    "",
		"data:text/plain,hello":                        "",
		"http://example.org/a.txt":                     "",
		"":                                             "",
		"data:text/plain;base64,/w==":                  "\uFFFD",
	} {
		if got, ok := server.TextFile(url); got != want || ok != (want != "") {
			t.Errorf("%s: got %q, %t, want %q", url, got, ok, want)
		}
	}
}
