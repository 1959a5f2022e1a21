// Command clients asks a server by OpenAI's and Ollama's own clients for Go. Its argument is the server's address. The
// model says what stands in [[double brackets]] last, else what it will. It fails where something is not as the
// clients' users expect.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strings"

	ollama "github.com/ollama/ollama/api"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

const (
	model = "tales"
	say   = "[[<think>\nHm.\n</think>\n\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>]]"
)

func main() {
	log.SetFlags(log.Lshortfile)
	address := os.Args[1]
	ctx := context.Background()
	askOpenAI(ctx, openai.NewClient(option.WithBaseURL(address+"/v1"), option.WithAPIKey("secret"), option.WithMaxRetries(0)))
	base, err := url.Parse(address)
	check(err == nil, err)
	askOllama(ctx, ollama.NewClient(base, &http.Client{Transport: withKey{}}))
	fmt.Println("all as expected")
}

func check(ok bool, values ...any) {
	if !ok {
		log.Output(2, fmt.Sprint("not as expected: ", fmt.Sprint(values...)))
		os.Exit(1)
	}
}

// withKey adds the server's key to requests, as a proxy before Ollama would.
type withKey struct{}

func (withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer secret")
	return http.DefaultTransport.RoundTrip(r)
}

var parameters = map[string]any{
	"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"}, "additionalProperties": false,
}

func askOpenAI(ctx context.Context, client openai.Client) {
	ask := func(text string) openai.ChatCompletionNewParams {
		return openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
	}
	whole, err := client.Chat.Completions.New(ctx, ask("[[Good morning.]]"))
	check(err == nil && whole.Choices[0].Message.Content == "Good morning." && whole.Choices[0].FinishReason == "stop", err, whole)

	q := ask(say)
	q.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "get_weather", Parameters: parameters})}
	stream, sum := client.Chat.Completions.NewStreaming(ctx, q), openai.ChatCompletionAccumulator{}
	for stream.Next() {
		check(sum.AddChunk(stream.Current()), stream.Current())
	}
	check(stream.Err() == nil, stream.Err())
	calls := sum.Choices[0].Message.ToolCalls
	check(len(calls) == 1 && calls[0].Function.Name == "get_weather" && strings.Contains(calls[0].Function.Arguments, "Rome"), calls)
	q.Messages = append(q.Messages, sum.Choices[0].Message.ToParam(), openai.ToolMessage("[[It is sunny.]]", calls[0].ID))
	after, err := client.Chat.Completions.New(ctx, q)
	check(err == nil && after.Choices[0].Message.Content == "It is sunny.", err, after)

	q = ask("Is it? [[{\"ok\": true}]]")
	q.ResponseFormat.OfJSONSchema = &openai.ResponseFormatJSONSchemaParam{JSONSchema: openai.ResponseFormatJSONSchemaJSONSchemaParam{
		Name: "ok", Schema: map[string]any{"type": "object", "properties": map[string]any{"ok": map[string]any{"type": "boolean"}}, "required": []string{"ok"}, "additionalProperties": false},
	}}
	held, err := client.Chat.Completions.New(ctx, q)
	var v map[string]bool
	check(err == nil && json.Unmarshal([]byte(held.Choices[0].Message.Content), &v) == nil && len(v) == 1, err, held)

	told, err := client.Responses.New(ctx, responses.ResponseNewParams{Model: model, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("[[Good evening.]]")}})
	check(err == nil && told.OutputText() == "Good evening.", err, told)
	vectors, err := client.Embeddings.New(ctx, openai.EmbeddingNewParams{Model: model, Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a", "b"}}})
	check(err == nil && len(vectors.Data) == 2, err)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	endless := client.Chat.Completions.NewStreaming(ctx, ask("Tell on."), option.WithJSONSet("ignore_eos", true))
	for endless.Next() {
		cancel()
	}
	check(errors.Is(endless.Err(), context.Canceled), endless.Err())
}

func askOllama(ctx context.Context, client *ollama.Client) {
	check(client.Heartbeat(ctx) == nil)
	version, err := client.Version(ctx)
	check(err == nil && version != "", err)
	list, err := client.List(ctx)
	check(err == nil && len(list.Models) == 1 && list.Models[0].Name == model, err, list)
	running, err := client.ListRunning(ctx)
	check(err == nil && len(running.Models) == 1 && running.Models[0].ContextLength > 0, err, running)
	shown, err := client.Show(ctx, &ollama.ShowRequest{Model: model})
	check(err == nil && len(shown.Capabilities) >= 2, err, shown)

	var definitions ollama.Tools
	text, _ := json.Marshal([]any{map[string]any{"type": "function", "function": map[string]any{"name": "get_weather", "parameters": parameters}}})
	check(json.Unmarshal(text, &definitions) == nil)
	q := &ollama.ChatRequest{Model: model, Tools: definitions, Messages: []ollama.Message{{Role: "user", Content: say}}}
	var message ollama.Message
	last := ollama.ChatResponse{}
	collect := func(r ollama.ChatResponse) error {
		message.Role = r.Message.Role
		message.Content += r.Message.Content
		message.Thinking += r.Message.Thinking
		message.ToolCalls = append(message.ToolCalls, r.Message.ToolCalls...)
		last = r
		return nil
	}
	err = client.Chat(ctx, q, collect)
	check(err == nil && last.Done && last.DoneReason == "stop" && last.EvalCount > 0 && last.TotalDuration > 0 && message.Thinking == "Hm.", err, message)
	check(len(message.ToolCalls) == 1 && reflect.DeepEqual(message.ToolCalls[0].Function.Arguments.ToMap(), map[string]any{"city": "Rome"}), message)
	q.Messages = append(q.Messages, message, ollama.Message{Role: "tool", ToolName: "get_weather", Content: "[[It is sunny.]]"})
	message = ollama.Message{}
	err = client.Chat(ctx, q, collect)
	check(err == nil && message.Content == "It is sunny.", err, message)

	off := false
	held := &ollama.GenerateRequest{Model: model, Prompt: "Is it? [[{\"ok\": true}]]", Stream: &off, Format: json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"],"additionalProperties":false}`)}
	var v map[string]bool
	err = client.Generate(ctx, held, func(r ollama.GenerateResponse) error { return json.Unmarshal([]byte(r.Response), &v) })
	check(err == nil && len(v) == 1, err, v)
	vectors, err := client.Embed(ctx, &ollama.EmbedRequest{Model: model, Input: []string{"a", "b"}})
	check(err == nil && len(vectors.Embeddings) == 2, err)
	err = client.Generate(ctx, &ollama.GenerateRequest{Model: model}, func(r ollama.GenerateResponse) error {
		check(r.DoneReason == "load", r)
		return nil
	})
	check(err == nil, err)

	var refused ollama.StatusError
	err = client.Pull(ctx, &ollama.PullRequest{Model: "user/repo"}, func(ollama.ProgressResponse) error { return nil })
	check(errors.As(err, &refused) && refused.StatusCode == http.StatusNotImplemented, err)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err = client.Generate(ctx, &ollama.GenerateRequest{Model: model, Prompt: "Tell on.", Options: map[string]any{"num_predict": 3500, "ignore_eos": true}}, func(r ollama.GenerateResponse) error {
		cancel()
		check(!r.Done, r)
		return nil
	})
	check(err == nil || errors.Is(err, context.Canceled), err) // older clients do not tell why a stream ended
}
