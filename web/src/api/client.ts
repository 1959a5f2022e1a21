import { signal } from "@preact/signals";
import { isText, stored } from "../shell/stored";

/** The key that the server asks for, if it asks for one. */
export const apiKey = stored("apiKey", "", isText);

/** Whether the server has refused the key; the page then asks for one. */
export const keyRefused = signal(false);

/** What the server said instead of an answer, in sentences that say what to do. */
export class ServerError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly type = "",
    readonly context = 0, // tokens, where the prompt is longer
  ) {
    super(/ again/.test(message) ? sentence(message) : [sentence(message), advice[status]].filter(Boolean).join(" "));
  }
}

/** What the user can do, by the status. Other errors say it themselves, or nothing but their cause helps. */
const advice: Record<number, string> = {
  401: "Enter it in the settings, under Server.",
  404: "Choose another model at the top, or try again: the list may have changed.",
  408: "Try again.",
  413: "Shorten the message, or attach less.",
  500: "Try again; if it stays so, the server's log says more.",
  502: "Try again in a moment.",
  503: "Try again in a moment.",
};

function sentence(text: string): string {
  text = text.trim();
  return text.replace(/^[a-z](?=[a-z']*[ ,])/, (c) => c.toUpperCase()) + (/[.!?…]$/.test(text) ? "" : ".");
}

function headers(body: boolean): Record<string, string> {
  const all: Record<string, string> = {};
  if (body) all["Content-Type"] = "application/json";
  if (apiKey.value) {
    if (!/^[\x21-\x7e]+$/.test(apiKey.value))
      throw new ServerError("The API key has spaces or characters that no key has. Enter it again in the settings, under Server.", 0);
    all.Authorization = `Bearer ${apiKey.value}`;
  }
  return all;
}

/** Sends a request; paths are relative to the page, which may lie below a prefix. Fails with a ServerError unless the status is 200. */
export async function ask(path: string, body?: unknown, abort?: AbortSignal): Promise<Response> {
  const init: RequestInit = { headers: headers(body !== undefined), signal: abort ?? null };
  if (body !== undefined) Object.assign(init, { method: "POST", body: JSON.stringify(body) });
  let response: Response;
  try {
    response = await fetch(new URL(path, document.baseURI), init);
  } catch (failure) {
    if (abort?.aborted) throw failure;
    throw new ServerError("The server does not answer. Look whether it still runs, and start it again with powerinfer serve.", 0);
  }
  if (response.ok) return response;
  if (response.status === 401) keyRefused.value = true;
  throw await errorOf(response);
}

async function errorOf(response: Response): Promise<ServerError> {
  const text = await response.text();
  try {
    const { error } = JSON.parse(text);
    return new ServerError(typeof error === "string" ? error : error.message, response.status, error.type, error.n_ctx);
  } catch {
    return new ServerError(text.trim() || `The server answered with status ${response.status}`, response.status);
  }
}

export async function askJSON<T>(path: string, body?: unknown, abort?: AbortSignal): Promise<T> {
  const text = await (await ask(path, body, abort)).text();
  try {
    return JSON.parse(text);
  } catch {
    throw new ServerError("Something else than PowerInfer has answered. Look what is at this address, and load the page again.", 0);
  }
}

/** A number of an answer; 0 where it is none. */
export function numberOf(v: unknown): number {
  return typeof v === "number" && Number.isFinite(v) ? v : 0;
}
