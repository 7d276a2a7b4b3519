// A page that was opened as a file may start no worker, so there the worker of the search runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.addEventListener("load", () => this.start(url), { once: true });
      document.body.append(this.frame);
    }

    start(url) {
      this.inside = this.frame.contentWindow;
      this.inside.postMessage = (data) => this.later(data, (event) => this.onmessage?.(event));
      const script = this.inside.document.createElement("script");
      script.src = url;
      script.addEventListener("load", () => {
        const waiting = this.waiting;
        this.waiting = null;
        for (const data of waiting) this.later(data, (event) => this.inside.onmessage(event));
      });
      script.addEventListener("error", (event) => this.onerror?.(event));
      this.inside.document.body.append(script);
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(structuredClone(data));
      else this.later(data, (event) => this.inside.onmessage(event));
    }

    /** Hand over a copy, as between threads: the search changes the query that it gets, and the page shows its own. */
    later(data, receive) {
      const copy = structuredClone(data);
      setTimeout(() => receive({ data: copy }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
