package filekind

import (
	"strings"
	"testing"
)

// TestWrong: files that people confuse with models are recognised, and the line gives advice.
func TestWrong(t *testing.T) {
	for head, want := range map[string]string{
		"": "download it again",
		"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4000000000\n": "git lfs pull",
		"<!DOCTYPE html>\n<html class=\"\">":                                             "/resolve/",
		"\n  <HTML><head>":                                                               "/resolve/",
		"\x58\x00\x00\x00\x00\x00\x00\x00{\"__metadata__\":{\"format\":\"pt\"},\"w\":{\"dtype\":\"F32\",\"shape\":": "powerinfer convert",
		"{\"error\":\"Repository not found\"}":                              "error message",
		"PK\x03\x04\x00\x00\x08\x08archive/data.pkl and more":               "powerinfer convert",
		"\x80\x02ctorch._utils\n_rebuild_tensor_v2 and more":                "powerinfer convert",
		"\x1f\x8b\x08\x00 and more than twenty-four bytes":                  "unpack",
		strings.Repeat("a", 257) + "ustar\x0000" + strings.Repeat("b", 100): "unpack",
		"tjgg\x03\x00\x00\x00 and more than twenty-four bytes":              "convert it again",
		strings.Repeat("\x00", 4096):                                        "incomplete",
		"an unknown file of more than twenty-four bytes":                    "",
	} {
		if got := Wrong([]byte(head)); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%.30q: %q lacks %q", head, got, want)
		}
	}
}
