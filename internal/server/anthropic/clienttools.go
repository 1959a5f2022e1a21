package anthropic

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// clientTool is a tool that Anthropic defines and the client runs. A request names its type without a schema, because
// Claude was trained on it. Other models are told what it does and what its input is.
//
// Source: Anthropic, Claude Developer Platform, "Bash tool", "Text editor tool", "Memory tool", "Computer use tool".
type clientTool struct {
	types       []string // the names of its types, or what they begin with: the rest is a date
	description string
	commands    []string // values of the property that says what to do; nil: the tool does one thing
	verb        string   // the name of that property
	properties  string   // properties of the input other than verb, in JSON Schema
	required    []string // names of the required ones
}

// clientTools names the old forms of a tool in full, before the form that is current.
var clientTools = []clientTool{
	{
		types: []string{"bash_"}, description: "Runs a command in a bash session that keeps its state between calls, and returns what the command prints.",
		properties: `"command":{"type":"string","description":"The command to run. Required unless restart is true."},"restart":{"type":"boolean","description":"Starts the session anew instead of running a command."}`,
	},
	{
		types: []string{"text_editor_20241022", "text_editor_20250124"}, description: editorDescription, verb: "command", commands: []string{"view", "create", "str_replace", "insert", "undo_edit"},
		properties: editorPath + `,"new_str":{"type":"string","description":"Of str_replace: the new text. Of insert: the text to insert."}`, required: []string{"path"},
	},
	{
		types: []string{"text_editor_"}, description: editorDescription, verb: "command", commands: []string{"view", "create", "str_replace", "insert"},
		properties: editorPath + `,"new_str":{"type":"string","description":"Of str_replace: the new text."},"insert_text":{"type":"string","description":"Of insert: the text to insert."}`, required: []string{"path"},
	},
	{
		types: []string{"memory_"}, description: "Keeps notes in files below /memories that last from one conversation to the next. View the folder before you begin to work, and write down what will be needed later.",
		verb: "command", commands: []string{"view", "create", "str_replace", "insert", "delete", "rename"},
		properties: `"path":{"type":"string","description":"A file or folder below /memories; not of rename."},"view_range":` + lineRange + `,"file_text":{"type":"string","description":"Of create: the file's content."},"old_str":{"type":"string","description":"Of str_replace: the text to replace, which occurs once."},"new_str":{"type":"string","description":"Of str_replace: the new text."},"insert_line":{"type":"integer","description":"Of insert: the line after which the text goes; 0 for the beginning."},"insert_text":{"type":"string","description":"Of insert: the text to insert."},"old_path":{"type":"string","description":"Of rename."},"new_path":{"type":"string","description":"Of rename."}`,
	},
	{
		types: []string{"computer_20241022"}, description: computerDescription, verb: "action",
		commands:   []string{"key", "type", "mouse_move", "left_click", "left_click_drag", "right_click", "middle_click", "double_click", "screenshot", "cursor_position"},
		properties: `"coordinate":` + point + `,"text":{"type":"string","description":"Of type: the text. Of key: the key or keys, such as Return or ctrl+s."}`,
	},
	{
		types: []string{"computer_20250124"}, description: computerDescription, verb: "action",
		commands: computerActions, properties: computerInput,
	},
	{
		types: []string{"computer_"}, description: computerDescription, verb: "action", commands: append(computerActions[:len(computerActions):len(computerActions)], "zoom"),
		properties: computerInput + `,"region":{"type":"array","items":{"type":"integer"},"minItems":4,"maxItems":4,"description":"Of zoom: the left, upper, right and lower edge of the part of the screen to look at."}`,
	},
}

const (
	editorDescription = "Views, creates and edits text files. view shows a file with line numbers, or lists a folder; create writes a new file; str_replace replaces a text that occurs exactly once; insert adds text after a line."
	editorPath        = `"path":{"type":"string","description":"The file or folder."},"view_range":` + lineRange + `,"file_text":{"type":"string","description":"Of create: the file's content."},"old_str":{"type":"string","description":"Of str_replace: the text to replace, with its white space."},"insert_line":{"type":"integer","description":"Of insert: the line after which the text goes; 0 for the beginning."}`
	lineRange         = `{"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":2,"description":"Of view: the first and the last line, counted from 1; -1 for the end of the file."}`

	computerDescription = "Controls a computer by its screen, mouse and keyboard. Take a screenshot to see the screen, and again to see what an action did."
	point               = `{"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":2,"description":"x and y in pixels, from the upper left corner."}`
	computerInput       = `"coordinate":` + point + `,"start_coordinate":` + point + `,"text":{"type":"string","description":"Of type: the text. Of key and hold_key: the key or keys, such as Return or ctrl+s. Of clicks and scroll: keys that are held."},"scroll_direction":{"type":"string","enum":["up","down","left","right"]},"scroll_amount":{"type":"integer","description":"Clicks of the wheel."},"duration":{"type":"number","description":"Of wait and hold_key, in seconds."}`
)

var computerActions = []string{
	"key", "hold_key", "type", "cursor_position", "mouse_move", "left_mouse_down", "left_mouse_up", "left_click", "left_click_drag", "right_click", "middle_click",
	"double_click", "triple_click", "scroll", "wait", "screenshot",
}

// describe gives t the description and the schema of the tool that its type names. It reports whether there is one.
func (t *tool) describe() bool {
	for _, c := range clientTools {
		if !slices.ContainsFunc(c.types, func(begin string) bool { return strings.HasPrefix(t.Type, begin) }) {
			continue
		}
		t.Description, t.InputSchema = c.description, c.schema()
		if t.Width > 0 && t.Height > 0 {
			t.Description += fmt.Sprintf(" The screen is %d pixels wide and %d high.", t.Width, t.Height)
		}
		return true
	}
	return false
}

// schema returns the JSON Schema of the tool's input.
func (c *clientTool) schema() json.RawMessage {
	properties, required := c.properties, c.required
	if c.verb != "" {
		commands, _ := json.Marshal(c.commands) // strings always can be
		properties = fmt.Sprintf(`%q:{"type":"string","enum":%s},%s`, c.verb, commands, properties)
		required = append([]string{c.verb}, required...)
	}
	names, _ := json.Marshal(append([]string{}, required...))
	return json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%s},"required":%s}`, properties, names))
}
