// Keeps a board up to date: reads the state, then follows the stream. After a break it goes on where it was; where
// the server no longer knows that place, it reads the state again.

const AGAIN_MS = [500, 1000, 2000, 5000];

/** Refused by the server: `status` and a sentence. */
export class Refused extends Error {
  constructor(status, why) {
    super(why);
    this.status = status;
  }

  /** Whether the same may be answered a little later: the server is busy, or has nothing to show yet. */
  get passes() {
    return this.status === 429 || this.status === 503;
  }
}

/** Read JSON; raises Refused. */
export async function read(path) {
  const answer = await fetch(path, {headers: {Accept: "application/json"}});
  if (answer.ok) return answer.json();
  throw await refusedBy(answer);
}

async function refusedBy(answer) {
  let why = answer.statusText;
  try {
    why = (await answer.json()).why ?? why;
  } catch {
    // Not an answer of ours: its status has to do.
  }
  return new Refused(answer.status, why);
}

/** Send JSON, and yield what comes back line by line as it comes; raises Refused. */
export async function* ask(path, body, signal) {
  const answer = await fetch(path, {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body), signal});
  if (!answer.ok) throw await refusedBy(answer);
  const parts = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let begun = []; // of a line whose end is yet to come
  for (let part = await parts.read(); !part.done; part = await parts.read()) {
    const lines = part.value.split("\n");
    while (lines.length > 1) {
      const line = begun.join("") + lines.shift();
      begun = [];
      if (line) yield JSON.parse(line);
    }
    begun.push(lines[0]);
  }
}

export class Feed {
  /** `said` receives ("live"), ("lost", why), or ("refused", status, why); `loaded` the state, each time. */
  constructor(board, {said, loaded}) {
    this.board = board;
    this.said = said;
    this.loaded = loaded;
    this.tries = 0;
    this.source = null;
    this.timer = 0;
    this.last = "";
  }

  async start() {
    clearTimeout(this.timer);
    try {
      const state = await read("api/state");
      this.board.load(state.board);
      if (state.answers) this.board.answer(state.answers);
      this.last = `${state.epoch}-${state.number}`;
      this.loaded(state);
      this.follow();
    } catch (error) {
      if (error instanceof Refused && !error.passes) this.said("refused", error.status, error.message);
      else this.again(error.message);
    }
  }

  follow() {
    const source = new EventSource(`api/stream?from=${encodeURIComponent(this.last)}`);
    this.source = source;
    source.addEventListener("open", () => {
      this.tries = 0;
      this.said("live");
    });
    source.addEventListener("delta", (event) => {
      this.last = event.lastEventId;
      this.board.apply(JSON.parse(event.data));
    });
    source.addEventListener("answers", (event) => {
      this.last = event.lastEventId;
      this.board.answer(JSON.parse(event.data));
    });
    source.addEventListener("reset", () => {
      source.close();
      this.start();
    });
    source.addEventListener("error", () => {
      // The browser tries again by itself only in some cases; what went wrong it never says.
      source.close();
      if (this.source === source) this.resume();
    });
  }

  /** Go on from the last number; a server that refuses says why. */
  resume() {
    this.source = null;
    this.said("lost", "the connection to the server is lost");
    const wait = AGAIN_MS[Math.min(this.tries, AGAIN_MS.length - 1)];
    this.tries += 1;
    this.timer = setTimeout(async () => {
      try {
        await read("api/lines?about=");
        this.follow();
      } catch (error) {
        if (error instanceof Refused && !error.passes) this.said("refused", error.status, error.message);
        else this.resume();
      }
    }, wait);
  }

  again(why) {
    this.said("lost", why);
    const wait = AGAIN_MS[Math.min(this.tries, AGAIN_MS.length - 1)];
    this.tries += 1;
    this.timer = setTimeout(() => this.start(), wait);
  }

  stop() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }
}
