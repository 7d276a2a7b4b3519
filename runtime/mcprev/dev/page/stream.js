// Reads server-sent events from a body; `EventSource` could not send `Authorization`.

/** Tell `on(name, data)` of each event of a body, its data parsed; ends with the body. */
export async function stream_events(body, on) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let name = "message";
  let data = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const found = (rest + value).split(/\r\n|\n|\r(?!$)/);
    rest = found.pop();
    for (const line of found) {
      if (line === "") {
        if (data.length > 0) on(name, JSON.parse(data.join("\n")));
        name = "message";
        data = [];
      } else if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
      else if (line.startsWith("event:")) name = line.slice(line[6] === " " ? 7 : 6);
    }
  }
}
