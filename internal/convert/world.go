package convert

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
)

// worldFile is the vocabulary of RWKV's World tokenizer.
const worldFile = "rwkv_vocab_v20230424.txt"

// worldTurn is the token that ends a turn of a conversation, as files write it.
const worldTurn = `\n\n`

// readWorld reads RWKV's World vocabulary. Each line has a token's number, the token as a Python literal of a text or
// of bytes, and its length in bytes. Token 0 ends texts. size is the number of embedding rows.
func readWorld(path string, size int) (*vocabulary, error) {
	data, err := checkpoint.ReadFile(path)
	if err != nil {
		return nil, err
	}
	v := &vocabulary{path: path, model: "rwkv", pre: "default", addSpacePrefix: new(bool), tokens: []string{"<s>"}, types: []int32{tokenControl}}
	number := 0
	for line := range bytes.Lines(data) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if len(v.tokens) == size {
			return nil, fmt.Errorf("%s: line %d: more tokens than the %d rows of the embedding (config.json: vocab_size)", path, number, size)
		}
		token, err := worldToken(string(line), len(v.tokens))
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, number, err)
		}
		v.tokens, v.types = append(v.tokens, escapeBytes(token)), append(v.types, tokenNormal)
	}
	return v, nil
}

// endWorld names the tokens that end texts and turns. Folders' configurations name others, which are of no use.
func (v *vocabulary) endWorld() {
	v.ids["bos"], v.ids["eos"], v.ends = 0, 0, []int32{0}
	delete(v.ids, "eot")
	if id := slices.Index(v.tokens, worldTurn); id >= 0 {
		v.ids["eot"], v.ends = id, append(v.ends, int32(id))
	}
}

// worldToken returns the bytes of the token in a line, which must have number id.
func worldToken(line string, id int) (string, error) {
	number, rest, _ := strings.Cut(line, " ")
	at := strings.LastIndexByte(rest, ' ')
	if n, err := strconv.Atoi(number); err != nil || n != id || at < 0 {
		return "", fmt.Errorf("it is no line of token %d with its text and its length", id)
	}
	token, err := pythonLiteral(rest[:at])
	if err != nil {
		return "", err
	}
	if n, err := strconv.Atoi(rest[at+1:]); err != nil || n != len(token) {
		return "", fmt.Errorf("token %d has %d bytes, and its line says %s", id, len(token), rest[at+1:])
	}
	return token, nil
}

// pythonLiteral returns the bytes of a Python literal of a text or of bytes; a text's bytes are UTF-8.
func pythonLiteral(s string) (string, error) {
	bad := errors.New("its token is no text or bytes as Python writes them")
	body, isBytes := strings.CutPrefix(s, "b")
	if len(body) < 2 || body[0] != '\'' && body[0] != '"' || body[len(body)-1] != body[0] {
		return "", bad
	}
	quote, body := body[0], body[1:len(body)-1]
	var out strings.Builder
	for len(body) > 0 {
		if body[0] == quote {
			return "", bad
		}
		if body[0] != '\\' {
			out.WriteByte(body[0])
			body = body[1:]
			continue
		}
		if len(body) < 2 {
			return "", bad
		}
		digits := 0
		switch kind := body[1]; kind {
		case 'n', 't', 'r', '\\', '\'', '"':
			out.WriteByte(map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', '\\': '\\', '\'': '\'', '"': '"'}[kind])
		case 'x':
			digits = 2
		case 'u':
			digits = 4
		case 'U':
			digits = 8
		default:
			return "", bad
		}
		body = body[2:]
		if digits == 0 {
			continue
		}
		if len(body) < digits {
			return "", bad
		}
		code, err := strconv.ParseUint(body[:digits], 16, 32)
		switch {
		case err != nil || isBytes && digits > 2 || !isBytes && !utf8.ValidRune(rune(code)):
			return "", bad
		case isBytes:
			out.WriteByte(byte(code))
		default:
			out.WriteRune(rune(code))
		}
		body = body[digits:]
	}
	return out.String(), nil
}

// escapeBytes returns bytes as files with the tokenizer model rwkv write a token: with everything but printable ASCII
// escaped.
func escapeBytes(s string) string {
	var out strings.Builder
	for i := range len(s) {
		switch b := s[i]; {
		case b == '\n':
			out.WriteString(`\n`)
		case b == '\t':
			out.WriteString(`\t`)
		case b == '\r':
			out.WriteString(`\r`)
		case b == '\\':
			out.WriteString(`\\`)
		case b < ' ' || b > '~':
			fmt.Fprintf(&out, `\x%02x`, b)
		default:
			out.WriteByte(b)
		}
	}
	return out.String()
}
