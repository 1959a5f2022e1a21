import { answer, countPrompt, type Piece } from "../api/chat";
import { ServerError } from "../api/client";
import { wire, type Message } from "./conversation";

/** A request for the answer to a conversation, but its messages. */
export interface Question {
  fields: Record<string, unknown>;
  system: string;
  messages: Message[];
  sees: boolean; // the model does, as far as is known
  from?: string; // the first message that the answer before was given for
  context: number; // tokens; 0: not known yet
}

/** Prompts may take this share of the context, the rest is for the answer. Of one that takes more, as much is left out as leaves the second. */
const most = 3 / 4;
const left = 1 / 2;

/** Tokens that a template adds at most, as a rule: to a prompt, and to each of its messages. */
const around = 500;
const aroundMessage = 50;

/** Tokens that a picture takes at most, as a rule. */
const mostPicture = 4096;

/** Asks for an answer, without the oldest messages where the context has no room for all. */
export async function* answerWithin(q: Question, abort: AbortSignal): AsyncGenerator<Piece> {
  try {
    yield* asked(q, abort);
  } catch (failure) {
    if (q.context > 0 || !(failure instanceof ServerError) || failure.context === 0) throw failure;
    yield* asked({ ...q, context: failure.context }, abort); // it was not known: the model was not loaded
  }
}

async function* asked(q: Question, abort: AbortSignal): AsyncGenerator<Piece> {
  const from = await beginning(q, abort);
  if (from > 0) yield { first: q.messages[from]!.id };
  yield* answer(request(q, from), abort);
}

function request(q: Question, from: number): Record<string, unknown> {
  return { ...q.fields, messages: wire(q.messages.slice(from), q.system, q.sees) };
}

/** Where the messages begin that the context has room for. The last turn stays whole. */
async function beginning(q: Question, abort: AbortSignal): Promise<number> {
  const before = Math.max(
    0,
    q.messages.findIndex((m) => m.id === q.from),
  );
  if (q.context === 0 || bound(q, before) <= most * q.context) return before;
  const tokens = (from: number) => countPrompt(request(q, from), abort);
  if ((await tokens(before)) <= most * q.context) return before;
  const turns = q.messages.flatMap((m, i) => (m.role === "user" && i > before ? [i] : []));
  let [low, high] = [0, turns.length]; // turns before low are too long, and from high on there is room
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((await tokens(turns[middle]!)) <= left * q.context) high = middle;
    else low = middle + 1;
  }
  const from = turns[low] ?? turns.at(-1) ?? before;
  const n = low < turns.length ? 0 : await tokens(from);
  if (n >= q.context) {
    const what = q.messages.at(-1)!.role === "assistant" ? "The answer" : "The message";
    throw new Error(
      `${what} has ${n.toLocaleString("en")} tokens with what goes with it, and the context of the model has ${q.context.toLocaleString("en")}. ` +
        "Shorten it, or start the server with a larger context (-c).",
    );
  }
  return from;
}

/** A number of tokens that a prompt hardly exceeds: a token has a byte at least. */
function bound(q: Question, from: number): number {
  const pictures = q.sees ? q.messages.slice(from).reduce((n, m) => n + (m.pictures?.length ?? 0), 0) : 0;
  const texts = JSON.stringify(request({ ...q, sees: false }, from));
  return around + aroundMessage * q.messages.length + mostPicture * pictures + new TextEncoder().encode(texts).length;
}
