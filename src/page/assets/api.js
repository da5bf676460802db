// The server's own routes, as any client uses them.
import {askForKey, key} from "./keys.js";

export class ApiError extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

async function problemOf(response) {
  try {
    const body = await response.json();
    if (typeof body.error?.message === "string") return new ApiError(body.error.message, response.status);
  } catch {
    // No body of the API's: the status has to do.
  }
  return new ApiError(`The server answered ${response.status} ${response.statusText}`.trim(), response.status);
}

async function once(path, options) {
  const headers = {...options.headers};
  if (key()) headers.Authorization = `Bearer ${key()}`;
  try {
    return await fetch(path, {...options, headers, cache: "no-store", credentials: "same-origin"});
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server cannot be reached.");
  }
}

/** Asks for a key where one is missing, as often as it is given. */
async function send(path, options = {}) {
  for (;;) {
    const used = key();
    const response = await once(path, options);
    if (response.ok) return response;
    if (response.status !== 401) throw await problemOf(response);
    // Another request may have been given one meanwhile.
    if (key() !== used) continue;
    if (!(await askForKey())) throw new ApiError("This server asks for an API key.", 401);
  }
}

export async function getJson(path, options = {}) {
  return (await send(path, options)).json();
}

/** Events of a stream's bytes, which may be cut anywhere: an object for each, "[DONE]" as a text. */
export function createEventReader(onEvent) {
  let rest = "";
  return (text) => {
    rest += text;
    for (;;) {
      const end = rest.indexOf("\n\n");
      if (end < 0) return;
      const event = rest.slice(0, end);
      rest = rest.slice(end + 2);
      if (!event.startsWith("data: ")) continue;
      const data = event.slice(6);
      onEvent(data === "[DONE]" ? data : JSON.parse(data));
    }
  };
}

/** A chat's answer as it comes. An answer that was cut is an error, never a short answer. */
export async function streamChat(body, {signal, onChunk}) {
  const response = await send("/v1/chat/completions", {
    method: "POST",
    headers: {"Content-Type": "application/json"},
    body: JSON.stringify({...body, stream: true, stream_options: {include_usage: true}}),
    signal,
  });
  let isWhole = false;
  const read = createEventReader((event) => {
    if (event === "[DONE]") isWhole = true;
    else if (event.error) throw new ApiError(event.error.message ?? "The server failed.");
    else onChunk(event);
  });
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  try {
    for (;;) {
      const {done, value} = await reader.read();
      if (done) break;
      read(decoder.decode(value, {stream: true}));
    }
  } catch (error) {
    if (error.name === "AbortError" || error instanceof ApiError) throw error;
    throw new ApiError("The connection was lost before the answer's end.");
  } finally {
    reader.cancel().catch(() => {});
  }
  if (!isWhole) throw new ApiError("The answer was cut short.");
}
