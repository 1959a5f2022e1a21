// Package filekind recognises files that people have in place of a model's file, by their first bytes, and says what to
// do.
package filekind

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// Sample is the number of first bytes that Wrong needs at most.
const Sample = 512

// Wrong describes a file with this beginning that is not a GGUF file, with advice, for a message after the file's name;
// empty: unknown. The whole file may be given.
func Wrong(head []byte) string {
	head = head[:min(len(head), Sample)]
	begins := func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) }
	if said := Undelivered(head); said != "" {
		return said
	}
	switch text := start(head); {
	case len(head) == 0:
		return "the file is empty: the download did not begin, or the disk was full; download it again"
	case isSafetensors(head):
		return "this is a safetensors file: name the whole Hugging Face folder to powerinfer convert, which makes a GGUF file of it"
	case strings.HasPrefix(text, "{"), strings.HasPrefix(text, "["):
		return "this is a JSON text, such as a server's error message: download the file itself"
	case begins("PK\x03\x04"), begins("PK\x05\x06"):
		return "this is a zip archive, as PyTorch's .bin and .pt files are: name the whole Hugging Face folder to powerinfer convert, or unpack the archive if a GGUF file is in it"
	case len(head) > 1 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5:
		return "this is a pickle of Python, as PyTorch's older files are: name the whole Hugging Face folder to powerinfer convert"
	case begins("\x1f\x8b"), begins("\xfd7zXZ\x00"), begins("\x28\xb5\x2f\xfd"), begins("BZh"), begins("7z\xbc\xaf\x27\x1c"), len(head) > 262 && string(head[257:262]) == "ustar":
		return "this is an archive or a compressed file: unpack it, and name the GGUF file in it"
	case begins("lmgg"), begins("fmgg"), begins("tjgg"), begins("algg"):
		return "this is a file of GGML's formats before GGUF, which are no longer read: take the model as GGUF, or convert it again"
	case len(bytes.Trim(head, "\x00")) == 0:
		return "the file holds zeros where a model begins: the download is incomplete; download it again"
	}
	return ""
}

// Undelivered says what a download or a repository left in place of the wanted file, and what to do about it; empty: it
// is unknown.
func Undelivered(head []byte) string {
	switch text := start(head); {
	case strings.HasPrefix(text, "version https://git-lfs.github.com/"):
		return "this is a pointer of Git LFS, which names the file and does not hold it: run git lfs pull in the repository, or download the file itself"
	case strings.HasPrefix(text, "<!doctype html"), strings.HasPrefix(text, "<html"), strings.HasPrefix(text, "<head>"), strings.HasPrefix(text, "<?xml"):
		return "this is a web page, which a server sent in place of the file: download the file itself (on the Hugging Face hub the address has /resolve/, not /blob/; some models want a login and a token)"
	}
	return ""
}

// start returns a text's beginning without white space, in lower case.
func start(head []byte) string {
	head = head[:min(len(head), Sample)]
	return strings.ToLower(strings.TrimSpace(strings.TrimPrefix(string(head), "\ufeff")))
}

// isSafetensors reports whether a file begins with the length of a JSON header and the header.
func isSafetensors(head []byte) bool {
	const longest = 100_000_000 // bytes, by the format's description
	if len(head) < 10 {
		return false
	}
	n := binary.LittleEndian.Uint64(head)
	return n >= 2 && n <= longest && head[8] == '{' && (head[9] == '"' || head[9] == '}' || head[9] == ' ' || head[9] == '\n')
}
