// Package setting lets errors advise what to set without knowing how it is set: the program has a flag for it, the Go
// API a field. Errors hold settings as values, and For has them named for those who read them.
package setting

import (
	"fmt"
	"strings"
)

// A Setting is something that users can set: its flag and its field of the Go API, with a bar between them.
type Setting string

// The settings that several packages name.
const (
	Context     Setting = "-c|Options.Limits.Context"
	Step        Setting = "-ub|Options.Limits.UBatch"
	Mapped      Setting = "--no-repack|Options.Limits.Mapped"
	Lock        Setting = "--mlock|Options.Limits.Lock"
	Sparse      Setting = "--sparse|Options.Neurons.Sparse"
	Devices     Setting = "--device|Options.GPU.Devices"
	Budgets     Setting = "--vram-budget|Options.GPU.VRAM"
	RAM         Setting = "--ram-budget|Options.Limits.RAM"
	GPULayers   Setting = "-ngl|Options.GPU.Layers"
	Tensors     Setting = "--override-tensor|Options.GPU.Tensors"
	KVInRAM     Setting = "--no-kv-offload|Options.GPU.KVInRAM"
	Tower       Setting = "--mmproj|Options.Tower.Path"
	NoTower     Setting = "--no-mmproj|Options.Tower.Off"
	DraftLayers Setting = "-ngld|Options.Draft.Layers"
	DraftModel  Setting = "-md|Options.Draft.Path"
	MostRows    Setting = "--image-max-tokens|Options.Tower.Most"
	Extension   Setting = "--grp-attn-n|Options.Cache.Extension"
	Pooling     Setting = "--pooling|Options.Pooling"
	Adapters    Setting = "--lora|Options.Adapters"
	CacheKeys   Setting = "-ctk|Options.Cache.Key"
	CacheValues Setting = "-ctv|Options.Cache.Value"
	Template    Setting = "--chat-template|Conversation.Template"
)

// Names says which of their names settings have in texts.
type Names uint8

const (
	Flags  Names = iota // the program's flags, the default in errors
	Fields              // fields of the Go API
)

func (s Setting) name(n Names) string {
	flag, field, _ := strings.Cut(string(s), "|")
	if n == Fields {
		return field
	}
	return flag
}

func (s Setting) String() string { return s.name(Flags) }

// To returns the setting with a value that it may be given.
func (s Setting) To(v any) Value { return Value{s, v} }

// A Value is a setting and a value of it.
type Value struct {
	Setting Setting
	V       any
}

func (v Value) name(n Names) string {
	if n == Flags {
		return fmt.Sprintf("%s %v", v.Setting.name(n), v.V)
	}
	if text, ok := v.V.(string); ok {
		return fmt.Sprintf("%s = %q", v.Setting.name(n), text)
	}
	return fmt.Sprintf("%s = %v", v.Setting.name(n), v.V)
}

func (v Value) String() string { return v.name(Flags) }

// A Namer is an error that names settings.
type Namer interface {
	error
	Text(n Names) string // the error's text, settings being called by n
}

// Errorf is fmt.Errorf for texts with settings among their values.
func Errorf(format string, values ...any) error {
	return &message{format, values, fmt.Errorf(format, values...)}
}

// Sprintf is fmt.Sprintf with settings among values being called by n.
func Sprintf(n Names, format string, values ...any) string {
	return (&message{format, values, nil}).Text(n)
}

type message struct {
	format string
	values []any
	error  // with the program's flags
}

func (m *message) Unwrap() error { return m.error }

func (m *message) Text(n Names) string {
	values := make([]any, len(m.values))
	for i, v := range m.values {
		switch v := v.(type) {
		case interface{ name(Names) string }:
			values[i] = v.name(n)
		case error:
			values[i] = Text(v, n)
		default:
			values[i] = v
		}
	}
	return fmt.Sprintf(strings.ReplaceAll(m.format, "%w", "%s"), values...)
}

// Text returns the text of err, settings in it being called by n.
func Text(err error, n Names) string {
	if e, ok := err.(Namer); ok {
		return e.Text(n)
	}
	text := err.Error()
	var parts []error
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		parts = []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		parts = e.Unwrap()
	}
	for _, part := range parts {
		if part == nil {
			continue
		}
		text = strings.Replace(text, part.Error(), Text(part, n), 1)
	}
	return text
}

// For returns err with the settings' names according to n; nil stays nil.
func For(n Names, err error) error {
	if err == nil || Text(err, n) == err.Error() {
		return err
	}
	return &named{n, err}
}

type named struct {
	names Names
	err   error
}

func (e *named) Error() string       { return Text(e.err, e.names) }
func (e *named) Text(n Names) string { return Text(e.err, n) }
func (e *named) Unwrap() error       { return e.err }
