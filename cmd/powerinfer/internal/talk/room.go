package talk

import (
	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/internal/chat"
)

// Room in the context of a conversation, in tokens. An answer leaves room for the next message and its answer, up to
// answerReserve, and takes at least half of the free tokens. If fewer than leastRoom tokens are free before an answer,
// the oldest messages are left out until half of the context is free. In small contexts answerReserve and leastRoom are
// a half and a quarter of the context.
const (
	answerReserve = 1024
	leastRoom     = 512
)

// room returns a prompt of the conversation that leaves room for an answer, its tokens, and the places of pictures.
func (t *talk) room() (prompt chat.Marked, tokens []int32, places *powerinfer.Places, err error) {
	context, before := t.model.Info().Context, t.said.Left
	most := context - min(leastRoom, context/4)
	for {
		if prompt, err = t.said.Prompt(t.model.Sees()); err != nil {
			return prompt, nil, nil, err
		}
		if t.format != nil && string(t.Kwargs["enable_thinking"]) == "false" {
			prompt.Text += t.format.Closing(prompt.Text)
		}
		if tokens, places, err = t.said.Tokens(&prompt, t.model.Model); err != nil {
			return prompt, nil, nil, err
		}
		if len(tokens) <= most || !t.said.LeaveOut() {
			break
		}
		most = context / 2
	}
	if t.said.Left > before {
		t.note("the context of %d tokens is full: the model no longer sees the first %s; -c gives a larger context, /clear begins anew", context, quantity.Of(t.said.Left, "message"))
	}
	return prompt, tokens, places, nil
}

// answerLimit returns an answer's limit of tokens, as in powerinfer.Generation. prompted is the number of the prompt's
// tokens. own says that the limit leaves room for the next message.
func (t *talk) answerLimit(prompted int) (limit int, own bool) {
	if most, set := t.Flags.MostTokens(); set || t.Shift || t.SingleTurn {
		return most, false
	}
	context := t.model.Info().Context
	free := context - prompted
	return max(1, free-min(answerReserve, context/2), free/2), true
}

// full tells the user that the context ended the answer, or would end the next one. prompted is the number of the
// prompt's tokens.
func (t *talk) full(prompted int, limited bool) {
	context := t.model.Info().Context
	switch {
	case t.last.Stopped == powerinfer.StoppedContext:
		begin := "/clear begins a new conversation, "
		if t.SingleTurn {
			begin = ""
		}
		t.note("the context of %d tokens is full, %d of them the prompt's; %s-c gives a larger context", context, prompted, begin)
	case limited && t.last.Stopped == powerinfer.StoppedMax:
		t.note("the answer is cut after %s, so that the context of %d has room for your next message: ask to go on, or give a larger context with -c", quantity.Of(t.last.Tokens, "token"), context)
	}
}
