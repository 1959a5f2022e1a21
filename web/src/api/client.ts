import { signal } from "@preact/signals";
import { stored } from "../shell/stored";

/** The key that the server asks for, if it asks for one. */
export const apiKey = stored("apiKey", "");

/** Whether the server has refused the key; the page then asks for one. */
export const keyRefused = signal(false);

/** What the server said instead of an answer. */
export class ServerError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly type = "",
  ) {
    super(message);
  }
}

function headers(body: boolean): Record<string, string> {
  const all: Record<string, string> = {};
  if (body) all["Content-Type"] = "application/json";
  if (apiKey.value) all.Authorization = `Bearer ${apiKey.value}`;
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
    throw new ServerError("The server does not answer. Is it still running?", 0);
  }
  if (response.ok) return response;
  if (response.status === 401) keyRefused.value = true;
  throw await errorOf(response);
}

async function errorOf(response: Response): Promise<ServerError> {
  const text = await response.text();
  try {
    const { error } = JSON.parse(text);
    return new ServerError(typeof error === "string" ? error : error.message, response.status, error.type);
  } catch {
    return new ServerError(text.trim() || `The server answered with status ${response.status}.`, response.status);
  }
}

export async function askJSON<T>(path: string, body?: unknown, abort?: AbortSignal): Promise<T> {
  return (await ask(path, body, abort)).json();
}
