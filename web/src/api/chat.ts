import { ask, askJSON, ServerError } from "./client";
import { events } from "./events";

export interface Call {
  id: string;
  name: string;
  arguments: string;
}

export interface Likely {
  token: string;
  logprob: number;
}

/** A token of an answer, with those that could have been in its place. */
export interface Token extends Likely {
  top: Likely[];
}

export interface Timings {
  cache_n: number;
  prompt_n: number;
  prompt_ms: number;
  prompt_per_second: number;
  predicted_n: number;
  predicted_ms: number;
  predicted_per_second: number;
}

export interface Progress {
  total: number;
  cache: number;
  processed: number;
  time_ms: number;
  pictures?: { total: number; processed: number }; // while they are computed, before the prompt is read
}

/** A part of a message's content. */
export type WirePart = { type: "text"; text: string } | { type: "image_url"; image_url: { url: string } };

/** A message as the server takes it. */
export interface WireMessage {
  role: string;
  content: string | null | WirePart[];
  reasoning_content?: string;
  tool_call_id?: string;
  tool_calls?: { id: string; type: "function"; function: { name: string; arguments: string } }[];
}

/** What has come of an answer. */
export interface Piece {
  content?: string;
  reasoning?: string;
  calls?: { index: number; id?: string; name?: string; arguments: string }[];
  tokens?: Token[];
  progress?: Progress;
  timings?: Timings;
  finish?: string;
  first?: string; // the first message that the model is shown
}

interface WireToken {
  token: string;
  logprob: number;
  top_logprobs?: { token: string; logprob: number }[];
}

/** How many tokens the prompt of a request has. */
export async function countPrompt(request: Record<string, unknown>, abort: AbortSignal): Promise<number> {
  const { input_tokens } = await askJSON<{ input_tokens: number }>("v1/chat/completions/input_tokens", request, abort);
  return input_tokens;
}

/** Asks for an answer and gives its pieces as they come. */
export async function* answer(request: Record<string, unknown>, abort: AbortSignal): AsyncGenerator<Piece> {
  const response = await ask("v1/chat/completions", { ...request, stream: true, return_progress: true }, abort);
  for await (const data of events(response.body!)) {
    if (data === "[DONE]") return;
    const chunk = chunkOf(data);
    if (chunk.error) throw new ServerError(chunk.error.message ?? String(chunk.error), chunk.error.code ?? 500, chunk.error.type, chunk.error.n_ctx);
    yield pieceOf(chunk);
  }
  throw new ServerError("The connection ended before the answer did. Continue or Retry asks again.", 0);
}

function chunkOf(data: string): any {
  try {
    const chunk = JSON.parse(data);
    if (typeof chunk === "object" && chunk !== null) return chunk;
  } catch {
    // said below
  }
  throw new ServerError("The server sent what is no part of an answer. Retry asks again.", 0);
}

function pieceOf(chunk: any): Piece {
  const choice = chunk.choices?.[0] ?? {};
  const delta = choice.delta ?? {};
  return {
    content: delta.content ?? undefined,
    reasoning: delta.reasoning_content ?? undefined,
    calls: delta.tool_calls?.map((c: any) => ({ index: c.index ?? 0, id: c.id, name: c.function?.name, arguments: c.function?.arguments ?? "" })),
    tokens: choice.logprobs?.content?.map((t: WireToken) => ({
      token: t.token,
      logprob: t.logprob,
      top: (t.top_logprobs ?? []).map(({ token, logprob }) => ({ token, logprob })),
    })),
    progress: chunk.prompt_progress ?? undefined,
    timings: chunk.timings ?? undefined,
    finish: choice.finish_reason ?? undefined,
  };
}
