package powerinfer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/powerinfer-go/powerinfer"
)

// model is the path of a GGUF file; here it is the small embedded one.
const model = "demo/tales-relu.gguf"

// hermes is a chat template with tools. This model has no template.
const hermes = `{% for t in tools %}<tool>{{ t | tojson }}</tool>{% endfor %}{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

func Example() {
	ctx := context.Background()
	m, err := powerinfer.Open(ctx, model, powerinfer.Options{GPU: powerinfer.GPUs{Devices: powerinfer.NoGPU}})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	greedy := powerinfer.DefaultSampling()
	greedy.Temperature = 0
	fmt.Print("Once upon a time")
	for token, err := range m.Generate(ctx, "Once upon a time", powerinfer.Generation{Max: 12, Sampling: &greedy}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(token.Text)
	}
	// Output: Once upon a time there was a man who had a daughter, and she was
}

// A handler answers conversations, and the client sees the text as the model writes it.
func Example_handler() {
	m, err := powerinfer.Open(context.Background(), model, powerinfer.Options{GPU: powerinfer.GPUs{Devices: powerinfer.NoGPU}})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	greedy := powerinfer.DefaultSampling()
	greedy.Temperature = 0
	handler := func(w http.ResponseWriter, r *http.Request) {
		c := powerinfer.Conversation{Template: "chatml"} // this model has no template of its own
		if err := json.NewDecoder(r.Body).Decode(&c.Messages); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for part, err := range m.Chat(r.Context(), c, powerinfer.Generation{Max: 12, Sampling: &greedy}) {
			if err != nil {
				fmt.Fprintln(w, "error:", err)
				return
			}
			if text, ok := part.(powerinfer.Text); ok {
				io.WriteString(w, string(text))
				w.(http.Flusher).Flush()
			}
		}
	}
	server := httptest.NewServer(http.HandlerFunc(handler))
	defer server.Close()
	res, err := http.Post(server.URL, "application/json", strings.NewReader(`[{"role": "user", "content": "Tell me of a king."}]`))
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	fmt.Println(len(text) > 0, err)
	// Output: true <nil>
}

// A tool is called, and its result becomes part of the conversation.
func ExampleModel_Answer_tools() {
	ctx := context.Background()
	m, err := powerinfer.Open(ctx, model, powerinfer.Options{GPU: powerinfer.GPUs{Devices: powerinfer.NoGPU}})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	c := powerinfer.Conversation{
		Template: hermes, ToolChoice: powerinfer.ToolRequired, OneCall: true, // this model would not call a tool by itself
		Messages: []powerinfer.Message{{Role: powerinfer.RoleUser, Content: "How warm is it in Rome?"}},
		Tools: []powerinfer.Tool{{
			Name: "temperature", Description: "Tells the temperature of a city.",
			Parameters: json.RawMessage(`{"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"], "additionalProperties": false}`),
		}},
	}
	greedy := powerinfer.DefaultSampling()
	greedy.Temperature = 0
	answer, err := m.Answer(ctx, c, powerinfer.Generation{Max: 100, Sampling: &greedy})
	if err != nil {
		log.Fatal(err)
	}
	c.Messages = append(c.Messages, answer.Message)
	for _, call := range answer.Calls {
		c.Messages = append(c.Messages, powerinfer.Message{Role: powerinfer.RoleTool, CallID: call.ID, Content: "21 °C"})
		fmt.Println(call.Name)
	}
	c.ToolChoice = powerinfer.ToolNone
	answer, err = m.Answer(ctx, c, powerinfer.Generation{Max: 10})
	fmt.Println(answer.Role, err)
	// Output:
	// temperature
	// assistant <nil>
}

// A model of the hub is downloaded once; later it is found in the cache.
func ExamplePull() {
	ctx := context.Background()
	path, err := powerinfer.Pull(ctx, "Qwen/Qwen3-0.6B-GGUF:Q8_0", func(done, total int64) {
		fmt.Printf("\r%d of %d MB", done/1e6, total/1e6)
	})
	if err != nil {
		log.Fatal(err)
	}
	m, err := powerinfer.Open(ctx, path, powerinfer.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	c := powerinfer.Conversation{Messages: []powerinfer.Message{{Role: powerinfer.RoleUser, Content: "Why is the sky blue?"}}}
	for part, err := range m.Chat(ctx, c, powerinfer.Generation{}) {
		if err != nil {
			log.Fatal(err)
		}
		switch p := part.(type) {
		case powerinfer.Thought: // the model's thoughts before the answer
		case powerinfer.Text:
			fmt.Print(p)
		case powerinfer.Answer: // the whole answer; to continue, append p.Message and the next question to c.Messages
			fmt.Println("\n", p.Result.Tokens, "tokens in", p.Result.Time)
		}
	}
}

func ExampleModel_Tokenize() {
	m, err := powerinfer.Open(context.Background(), model, powerinfer.Options{GPU: powerinfer.GPUs{Devices: powerinfer.NoGPU}})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	tokens := m.Tokenize("Once upon a time", false, false)
	fmt.Println(len(tokens), m.Detokenize(tokens))
	// Output: 4 Once upon a time
}

func ExampleModel_Generate_schema() {
	ctx := context.Background()
	m, err := powerinfer.Open(ctx, model, powerinfer.Options{GPU: powerinfer.GPUs{Devices: powerinfer.NoGPU}})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	answer := powerinfer.Generation{Schema: `{"enum": ["yes", "no"]}`}
	text := ""
	for token, err := range m.Generate(ctx, "Was the wolf good?", answer) {
		if err != nil {
			log.Fatal(err)
		}
		text += token.Text
	}
	fmt.Println(text == `"yes"` || text == `"no"`)
	// Output: true
}

func ExampleModel_Neurons() {
	ctx := context.Background()
	m, err := powerinfer.Open(ctx, model, powerinfer.Options{GPU: powerinfer.GPUs{Devices: powerinfer.NoGPU}, Neurons: powerinfer.Neurons{Sparse: powerinfer.SparseExact}})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	for _, err := range m.Generate(ctx, "Once upon a time", powerinfer.Generation{Max: 20}) {
		if err != nil {
			log.Fatal(err)
		}
	}
	var active, all int64
	for _, layer := range m.Neurons() {
		active += layer.Active
		all += layer.Tokens * int64(layer.Neurons)
	}
	fmt.Println("under 15 % of the neurons were active:", float64(active) < 0.15*float64(all))
	// Output: under 15 % of the neurons were active: true
}

func ExampleContextError() {
	ctx := context.Background()
	m, err := powerinfer.Open(ctx, model, powerinfer.Options{GPU: powerinfer.GPUs{Devices: powerinfer.NoGPU}, Limits: powerinfer.Limits{Context: 64}})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	_, err = m.Start(ctx, make([]int32, 100), powerinfer.Generation{})
	var long *powerinfer.ContextError
	if errors.As(err, &long) {
		fmt.Println(long.Tokens, long.Context)
	}
	// Output: 100 64
}
