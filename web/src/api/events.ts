/** The lines of a text, as they come. */
export async function* lines(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const all = (rest + value).split(/\r\n|\n|\r(?!$)/);
      rest = all.pop() ?? "";
      yield* all;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/** The data of server-sent events, as they come. Comments and other fields are left out. */
export async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  let data: string[] = [];
  for await (const line of lines(body)) {
    if (line === "") {
      if (data.length > 0) yield data.join("\n");
      data = [];
    } else if (line.startsWith("data:")) {
      data.push(line.slice(line[5] === " " ? 6 : 5));
    }
  }
}
